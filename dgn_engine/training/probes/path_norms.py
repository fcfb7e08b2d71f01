"""Path norms of the networks in use, and how far the path values have moved in path space.

Exact, from a few passes over the weights (`kernels.path_norms`); no probe example is needed.

Arrays: `by_logit` (C,), Σ|v| over the paths of the value network that end in each logit. Scalars:
`value_l1`, `value_l2`, ‖v‖₁ and ‖v‖₂ over all paths and logits, and `feature_l1`, `feature_l2` of a
feature network that makes the gates; `moved_l2`, ‖v_t - v_0‖₂/(‖v_t‖₂ + ‖v_0‖₂) since the first
reading, and `moved_low`, `moved_high`, bounds of the same in L1: 0 for equal path values, 1 if no
path is in both networks.
"""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.path_norms import (
    PathWeights,
    have_same_paths,
    path_value_distance,
    path_value_norms,
)
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.plugins import OptionValue
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy
from dgn_engine.training.probes._trained_layers import pass_cost

PASSES = 20.0  # forward passes of one example in float32 that take about as long
NOT_FINITE = "A weight, or a sum over the paths, is not a finite number."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Weights at the first reading.

    Returns:
        Arrays and scalars as above.
    """
    weights = {
        name: PathWeights.from_stack(stack) for name, stack in used_stacks(context.network).items()
    }
    now = weights["value"]
    first = now
    if isinstance(memory, PathWeights) and have_same_paths(memory.architecture, now.architecture):
        first = memory
    try:
        norms = {name: path_value_norms(found) for name, found in weights.items()}
        moved = path_value_distance(now, first).shares
    except ArgumentError:
        return ProbeResult(absent=NOT_FINITE, memory=memory)
    scalars = {f"moved_{name}": share for name, share in moved.items()}
    for name, found in norms.items():
        scalars |= {f"{name}_l1": found.l1, f"{name}_l2": found.l2}
    arrays = {"by_logit": to_numpy(norms["value"].l1_by_logit)}
    return ProbeResult(arrays, scalars, memory=first)


def used_stacks(network: GatedNetwork) -> dict[str, Stack]:
    """Return the networks that the output depends on.

    Args:
        network: The network.

    Returns:
        'value', and 'feature' if the feature network makes the gates.
    """
    if network.own_gates or network.drawn_gates:
        return {"value": network.value}
    return {"value": network.value, "feature": network.feature}


def passes_cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of a reading.

    Args:
        architecture: Architecture of the network.
        examples: Number of probe examples, which are not used.

    Returns:
        FLOP.
    """
    return PASSES * pass_cost(architecture, 1)


PROBE = Probe("Path norms", read, passes_cost)
