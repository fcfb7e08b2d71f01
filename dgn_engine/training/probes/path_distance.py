"""Distance of the run's networks from those of the compared one, in path space.

Exact, from a few passes over the weights (`kernels.path_norms`); rescaled hidden units do not
count, units are matched by index. Scalars, for the value network and, if both networks have one
that makes the gates, the feature network: `{network}_l2`, ‖v - v'‖₂/(‖v‖₂ + ‖v'‖₂);
`{network}_low` and `{network}_high`, bounds of the same in L1; `{network}_cosine`, of v and v';
`{network}_same_signs`, the share of weights and biases whose signs do not contradict.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.path_norms import PathWeights, have_same_paths, path_value_distance
from dgn_engine.plugins import OptionValue
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult
from dgn_engine.training.probes.path_norms import NOT_FINITE, passes_cost, used_stacks


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
    ours, theirs = used_stacks(context.network), used_stacks(other)
    if not have_same_paths(ours["value"].architecture, theirs["value"].architecture):
        return ProbeResult(absent="The two networks have different layers, and so different paths.")
    scalars: dict[str, float] = {}
    for name in ours.keys() & theirs.keys():
        pair = [PathWeights.from_stack(stacks[name]) for stacks in (ours, theirs)]
        if not have_same_paths(pair[0].architecture, pair[1].architecture):
            continue  # feature networks of other widths
        try:
            found = path_value_distance(*pair)
        except ArgumentError:
            return ProbeResult(absent=NOT_FINITE)
        numbers = {**found.shares, "cosine": found.cosine, "same_signs": found.same_signs}
        scalars |= {f"{name}_{part}": value for part, value in numbers.items() if isfinite(value)}
    return ProbeResult(scalars=scalars)


PROBE = Probe("Paths of A and B", read, passes_cost, compares=True)
