"""Half-spaces: the hyperplanes in input space at which gates switch (arXiv:2404.04312).

Arrays, for each layer l of `half_space_layers`: `planes_{l}` (u, d + 1) float32, rows (w, b) with
‖w‖ = 1, NaN for a unit without weights, of `units_{l}` (u,): all units if inputs lie in the plane,
otherwise the first `SHOWN`. Of data whose labels change at known hyperplanes: `cuts` (m, d + 1);
`nearest` (m,) int64 and `nearest_angle`, `nearest_offset` (m,), of the hyperplane that is nearest
to each cut over all layers, with its layer; `angles_{l}` (u',), angle in degrees of every
hyperplane of the layer to the nearest cut. `points` (n, 2) and `labels` (n,) if inputs lie in the
plane. If inputs end with a constant 1, its weight is in b, and w has a 0 there.

Scalars: `moved_{l}`, mean angle in degrees between the hyperplanes now and at the first reading, of
all units if inputs lie in the plane or the cuts are known, otherwise of the first `SHOWN`;
`cuts_{l}`, mean over the cuts of the angle to the nearest hyperplane of the layer, `cuts` the same
over all layers, `offset` the mean difference in offset of these. Facts: `later`, why later layers
are missing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.kernels.half_spaces import half_space_layers, unit_rows
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy
from dgn_engine.training.probes.regions import lies_in_plane

SHOWN = 36  # hyperplanes per layer that are recorded
NO_HYPERPLANES = "Gates that are drawn or always open switch at no hyperplane."
POOLED = "The first gates are behind a max pooling, so none of them is open on a half-space."
AFTER_GATES = "Later layers see gates of earlier ones, so theirs are not open on half-spaces."
AFTER_POOLING = "Later layers are behind a max pooling, so their gates are not open on half-spaces."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Hyperplanes at the first reading.

    Returns:
        Arrays, scalars and facts as above.
    """
    network = context.network
    layers = half_space_layers(network)
    if not layers:
        never = network.has_random_gates or network.gate.open
        return ProbeResult(absent=NO_HYPERPLANES if never else POOLED)
    flat, cuts = lies_in_plane(context.x), context.geometry.cuts
    # Each unit of a wide network of images costs a backward pass.
    most = SHOWN if cuts is None and not flat else None
    hyperplanes = k.effective_hyperplanes(network, most=most)
    planes = {of_layer.layer: _unit_planes(of_layer, context.x) for of_layer in hyperplanes}
    arrays: dict[str, Array] = {"labels": to_numpy(context.labels)}
    shape = context.geometry.shape
    if len(shape) == 3 and context.x[0].numel() % (shape[1] * shape[2]) == 0:
        arrays["image"] = np.array(shape)
    if flat:
        arrays["points"] = to_numpy(context.x[:, :2])
    shown = slice(None) if flat else slice(SHOWN)
    for of_layer in hyperplanes:
        arrays[f"planes_{of_layer.layer}"] = to_numpy(planes[of_layer.layer][shown].float())
        arrays[f"units_{of_layer.layer}"] = to_numpy(of_layer.units[shown])
    first = _first_planes(memory, network.own_gates, planes)
    scalars = _angles_moved(planes, first)
    if cuts is not None and cuts.shape[1] == planes[0].shape[1]:
        more, distances = _distances_to_cuts(planes, cuts)
        arrays |= more
        scalars |= distances
    facts = {}
    if len(layers) < len(context.network.architecture.gated_shapes):
        linear = not network.own_gates and network.feature_activation == "linear"
        facts["later"] = AFTER_POOLING if linear else AFTER_GATES
    return ProbeResult(arrays, scalars, facts, memory=(network.own_gates, first))


def _unit_planes(hyperplanes: k.Hyperplanes, x: Tensor) -> Tensor:
    """Return rows (w, b) with ‖w‖ = 1, float64 on the CPU; a constant last input is in b."""
    rows = hyperplanes.rows.to("cpu", torch.float64)
    if x.dim() == 2 and x.shape[1] > 1 and bool((x[:, -1] == 1).all()):
        rows[:, -1] += rows[:, -2]
        rows[:, -2] = 0.0
    return unit_rows(rows)


def _first_planes(memory: object, own_gates: bool, planes: dict[int, Tensor]) -> dict[int, Tensor]:
    """Return the hyperplanes at the first reading, or those of now if those are of other layers."""
    if not isinstance(memory, tuple) or memory[0] != own_gates:  # those of the other network
        return planes
    first: dict[int, Tensor] = memory[1]
    shapes = [{layer: rows.shape for layer, rows in each.items()} for each in (first, planes)]
    return first if shapes[0] == shapes[1] else planes


def _angles_moved(planes: Mapping[int, Tensor], first: Mapping[int, Tensor]) -> dict[str, float]:
    """Return the mean angle of each layer's hyperplanes with those at the first reading."""
    scalars = {}
    for layer, now in planes.items():
        chord = (now[:, :-1] - first[layer][:, :-1]).norm(dim=1)
        # 2 arcsin(‖n − n'‖/2): arccos⟨n, n'⟩ would round small angles to 0
        angles = (2 * (chord / 2).clamp(max=1).arcsin()).rad2deg()
        scalars[f"moved_{layer}"] = float(angles.nanmean())
    return {name: value for name, value in scalars.items() if np.isfinite(value)}


def _distances_to_cuts(
    planes: Mapping[int, Tensor], cuts: Tensor
) -> tuple[dict[str, Array], dict[str, float]]:
    """Return how near hyperplanes and cuts are to each other."""
    arrays: dict[str, Array] = {"cuts": to_numpy(cuts.float())}
    scalars: dict[str, float] = {}
    every = []
    for layer, rows in planes.items():
        known = rows[rows.isfinite().all(1)]
        if not len(known):
            continue
        found = k.cut_distances(known, cuts)
        every.append((layer, found))
        arrays[f"angles_{layer}"] = to_numpy(
            found.angles.gather(1, found.distances.argmin(1, keepdim=True))[:, 0]
        )
        nearest = found.distances.argmin(0, keepdim=True)
        scalars[f"cuts_{layer}"] = float(found.angles.gather(0, nearest).mean())
    if every:
        angles, offsets, distances = (
            torch.cat([getattr(found, name) for _, found in every])
            for name in ("angles", "offsets", "distances")
        )
        nearest = distances.argmin(0, keepdim=True)
        owner = torch.cat([torch.full((len(found.angles),), layer) for layer, found in every])
        angle, offset = angles.gather(0, nearest)[0], offsets.gather(0, nearest)[0]
        arrays |= {
            "nearest": to_numpy(owner[nearest[0]]),
            "nearest_angle": to_numpy(angle),
            "nearest_offset": to_numpy(offset),
        }
        scalars |= {"cuts": float(angle.mean()), "offset": float(offset.mean())}
    return arrays, scalars


PROBE = Probe("Half-spaces", read)
