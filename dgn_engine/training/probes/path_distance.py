"""Distance of the run's value network from that of the compared network, in path space.

Exact, from a few passes over the weights (`kernels.path_norms`); rescaled hidden units do not
count, units are matched by index. Scalars: `l2`, ‖v - v'‖₂/(‖v‖₂ + ‖v'‖₂); `low` and `high`, bounds
of the same in L1; `cosine`, of v and v'; `same_signs`, the share of weights and biases whose signs
do not contradict.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.path_norms import PathWeights, have_same_paths, path_value_distance
from dgn_engine.plugins import OptionValue
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult
from dgn_engine.training.probes.path_norms import NOT_FINITE, passes_cost


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Unused.

    Returns:
        Scalars as above.
    """
    other = context.compared_network
    if other is None:
        return ProbeResult(absent="Nothing to compare with: drop a checkpoint on 'Compare'.")
    ours, theirs = (PathWeights.from_stack(one.value) for one in (context.network, other))
    if not have_same_paths(ours.architecture, theirs.architecture):
        return ProbeResult(absent="The two networks have different layers, and so different paths.")
    try:
        distance = path_value_distance(ours, theirs)
    except ArgumentError:
        return ProbeResult(absent=NOT_FINITE)
    numbers = {"cosine": distance.cosine, "same_signs": distance.same_signs, **distance.shares}
    return ProbeResult(scalars={name: value for name, value in numbers.items() if isfinite(value)})


PROBE = Probe("Paths of A and B", read, passes_cost, compares=True)
