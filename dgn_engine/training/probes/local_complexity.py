"""Local complexity: how many gate boundaries cross a small neighbourhood of each probe example.

The neighbourhood is a cross-polytope of radius r with the same directions at every reading
(`kernels.local_complexity`). r is a share of the scale of the data: the root mean square distance
of the probe examples from their mean. The same is counted around points halfway between examples
of different classes, where a decision boundary passes.

Arrays, for R radii and L gate layers: `radii` (R,), in units of the input; `examples_layers` and
`between_layers` (R, L), mean number of units whose boundary crosses; `units` (L,), all units;
`labels` (n,). Scalars: `examples_{r}` and `between_{r}`, their sums over layers, r the index of the
radius; `examples_{r}_{l}` by layer. Facts: `directions`, how many; `between`, why there are no
points between classes. Missing if gates are drawn or open.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from dgn_engine.kernels.gate_boundaries import (
    input_spread,
    local_complexity,
    orthonormal_directions,
    reason_without_boundaries,
)
from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy
from dgn_engine.training.probes._trained_layers import pass_cost
from dgn_engine.training.probes.regions import lies_in_plane

SHARES = (0.01, 0.1)  # r over the scale of the data
DIRECTIONS = 20


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Unused.

    Returns:
        Arrays, scalars and facts as above.
    """
    if why := reason_without_boundaries(context.network):
        return ProbeResult(absent=why)
    x = context.x
    scale = input_spread(x)
    if not scale > 0:
        return ProbeResult(absent="All probe examples are equal, so their scale is zero.")
    directions = probe_directions(x).to(x)
    known = context.labels < context.classes  # examples drawn by the user have no class
    middle = points_between(x[known], context.labels[known])
    radii = [share * scale for share in SHARES]
    sums: dict[str, list[Tensor]] = {"examples": [], "between": []}
    for radius in radii:
        sums["examples"].append(_mean_counts(context, x, directions, radius))
        if len(middle):
            sums["between"].append(_mean_counts(context, middle, directions, radius))
    units = [prod(shape) for shape in context.network.gate_stack.architecture.gated_shapes]
    arrays: dict[str, Array] = {
        "labels": to_numpy(context.labels),
        "radii": to_numpy(torch.tensor(radii, dtype=torch.float64)),
        "units": to_numpy(torch.tensor(units)),
    }
    scalars: dict[str, float] = {}
    for name, means in sums.items():
        for index, layers in enumerate(means):
            scalars[f"{name}_{index}"] = float(layers.sum())
        if means:
            arrays[f"{name}_layers"] = to_numpy(torch.stack(means))
    for index, layers in enumerate(sums["examples"]):
        scalars |= {f"examples_{index}_{layer}": float(n) for layer, n in enumerate(layers)}
    facts = {"directions": str(len(directions))}
    if not len(middle):
        facts["between"] = "No two probe examples are of different classes."
    return ProbeResult(arrays, scalars, facts)


def probe_directions(x: Tensor) -> Tensor:
    """Return the directions of the neighbourhoods; for (x, y, 1) those of the plane.

    Args:
        x: Examples, (n, *input_shape).

    Returns:
        Orthonormal directions, (p, *input_shape).
    """
    if not lies_in_plane(x):
        return orthonormal_directions(tuple(x.shape[1:]), DIRECTIONS)
    plane = orthonormal_directions((2,), DIRECTIONS)
    return torch.cat([plane, plane.new_zeros((len(plane), x.shape[1] - 2))], dim=1)


def points_between(x: Tensor, labels: Tensor) -> Tensor:
    """Return the points halfway from each example to one half a probe set away.

    Args:
        x: Examples, (n, *input_shape), sorted by class.
        labels: Class numbers, (n,).

    Returns:
        Those between different classes, (m, *input_shape).
    """
    partner = torch.arange(len(x), device=x.device).roll(-(len(x) // 2))
    different = labels != labels[partner]
    middle: Tensor = ((x + x[partner]) / 2)[different]
    return middle


def _mean_counts(context: ProbeContext, x: Tensor, directions: Tensor, radius: float) -> Tensor:
    """Return the mean count of each layer, (L,) float64."""
    counts = local_complexity(context.network, x, directions, radius)
    return torch.stack(counts).double().mean(1)


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of both networks at every vertex of every neighbourhood.

    Args:
        architecture: Architecture of the network.
        examples: Number of probe examples.

    Returns:
        FLOP.
    """
    vertices = 2 * min(DIRECTIONS, prod(architecture.input_shape))
    return 2.0 * pass_cost(architecture, examples * vertices * 2 * len(SHARES))


PROBE = Probe("Local complexity", read, cost)
