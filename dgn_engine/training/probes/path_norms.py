"""Path norms of the value network, and how far its path values have moved in path space.

Exact, from a few passes over the weights (`kernels.path_norms`); no probe example is needed.

Arrays: `by_logit` (C,), Σ|v| over the paths that end in each logit. Scalars: `l1` and `l2`, the
norms of v over all paths and logits; `moved_l2`, ‖v_t - v_0‖₂/(‖v_t‖₂ + ‖v_0‖₂) since the first
reading, and `moved_low`, `moved_high`, bounds of the same in L1, which is 1 if no path has the same
sign in both networks.
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
from dgn_engine.plugins import OptionValue
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy
from dgn_engine.training.probes._trained_layers import pass_cost

PASSES = 30.0  # forward passes of one example in float32 that take about as long
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
    now = first = PathWeights.from_stack(context.network.value)
    if isinstance(memory, PathWeights) and have_same_paths(memory.architecture, now.architecture):
        first = memory
    try:
        norms, moved = path_value_norms(now), path_value_distance(now, first).shares
    except ArgumentError:
        return ProbeResult(absent=NOT_FINITE, memory=memory)
    scalars = {"l1": norms.l1, "l2": norms.l2}
    scalars |= {f"moved_{name}": share for name, share in moved.items()}
    return ProbeResult({"by_logit": to_numpy(norms.l1_by_logit)}, scalars, memory=first)


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
