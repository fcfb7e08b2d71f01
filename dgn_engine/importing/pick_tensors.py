"""Pick tensors of a file for the layers: as the user says, or by their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dgn_engine.errors import UserError
from dgn_engine.importing.file_sequence import bias_by_name
from dgn_engine.importing.fold_batchnorm import EPSILON, fold_normalisation
from dgn_engine.model.architecture import Architecture, weight_shape
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents


def by_size(listing: CheckpointContents, architecture: Architecture) -> tuple[str, ...]:
    """For each weight layer the next tensor of its very shape, in the order of the file.

    '' where none is left. BatchNorm is folded in first.
    """
    arrays = fold_normalisation(listing.arrays, listing.reading.norm_eps or EPSILON).arrays
    left = [name for name, a in arrays.items() if a.ndim in (2, 4) and a.dtype.kind == "f"]
    found: list[str] = []
    for layer in architecture.weighted:
        wanted = weight_shape(layer)
        place = next((i for i, name in enumerate(left) if arrays[name].shape == wanted), None)
        found.append("" if place is None else left[place])
        if place is not None:
            left = left[place + 1 :]
    return tuple(found)


def picked(listing: CheckpointContents, names: Sequence[str]) -> CheckpointContents:
    """The file as if it held just these weights, in this order, each with its bias.

    '' at the end leaves the output layer out. Raises `UserError` where a name is not in the file,
    occurs twice, or is missing before another.
    """
    chosen = list(names)
    while chosen and not chosen[-1]:
        chosen.pop()
    arrays = fold_normalisation(listing.arrays, listing.reading.norm_eps or EPSILON).arrays
    kept: dict[str, Array] = {}
    for place, name in enumerate(chosen, start=1):
        if not name:
            raise UserError(f"No tensor is picked for layer {place}; pick one for each layer.")
        if name not in arrays:
            raise UserError(f"{listing.file_name} holds no tensor '{name}'.")
        if name in kept:
            raise UserError(f"'{name}' is picked for two layers; each needs a tensor of its own.")
        kept[name] = arrays[name]
        bias = bias_by_name(name, arrays)
        if bias and len(arrays[bias]) == len(arrays[name]):
            kept[bias] = arrays[bias]
    return replace(listing, arrays=kept, metadata={}, layers=(), picked=True)
