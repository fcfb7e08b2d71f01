"""Bring arrays of a file into torch's layout: layers by number, matrices outputs × inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents, natural_key

TURNED = "Its matrices are inputs × outputs, as in Keras and Flax; they are transposed."
NUMBERED = "Its layers are ordered by number, not as in the file."
_KERNEL = re.compile(r"(^|[./])kernel(:\d+)?$")
_NUMBER = re.compile(r"\d+")
Shape = tuple[int, ...]


def normalise_layout(listing: CheckpointContents) -> CheckpointContents:
    """Return the listing in the usual layout; `layout` says what was changed.

    Matrices named `kernel` (Keras, Flax) are transposed; so are others not named `weight` if they
    only chain that way. Layers whose names differ in a number are sorted by it if they then chain.
    """
    if listing.layers or _is_otherwise_ordered(listing.arrays):
        return listing
    return _transpose_kernels(_sort_by_number(listing))


def do_shapes_chain(shapes: Sequence[Shape]) -> bool:
    """Return whether each matrix (outputs, inputs) takes the output of the one before it."""
    return all(after[1] == before[0] for before, after in pairwise(shapes))


def name_stem(name: str) -> str:
    """Return a name without its numbers, which all layers of a list share."""
    return _NUMBER.sub("#", name)


def is_kernel(name: str) -> bool:
    """Return whether Keras or Flax names layer weights like this."""
    return _KERNEL.search(name) is not None


def matrices_of(arrays: dict[str, Array]) -> dict[str, Array]:
    return {name: a for name, a in arrays.items() if a.ndim == 2 and a.dtype.kind == "f"}


def _is_otherwise_ordered(arrays: dict[str, Array]) -> bool:
    """Return whether the order must stay: our own files have two networks, and BatchNorms follow
    their layers.
    """
    ours = ("value.weights.", "feature.weights.")
    marks = ("running_mean", "moving_mean", "moving_mean:0")
    return any(name.startswith(ours) or name.endswith(marks) for name in arrays)


def _sort_by_number(listing: CheckpointContents) -> CheckpointContents:
    matrices = matrices_of(listing.arrays)
    groups: dict[str, list[str]] = {}
    for name in matrices:
        groups.setdefault(name_stem(name), []).append(name)
    ordered = {key: iter(sorted(names, key=natural_key)) for key, names in groups.items()}
    order = [next(ordered[name_stem(name)]) for name in matrices]
    shapes = [matrices[name].shape for name in order]
    transposed = [shape[::-1] for shape in shapes]
    given = list(matrices)
    silent = given == sorted(given)  # alphabetical order carries no information: 10 before 2
    own = [array.shape for array in matrices.values()]
    chained = do_shapes_chain(own) or do_shapes_chain([shape[::-1] for shape in own])
    if (
        order == given
        or not (do_shapes_chain(shapes) or do_shapes_chain(transposed))
        or (chained and not silent)
    ):
        return listing
    parts: dict[str, list[str]] = {"": []}  # what follows each matrix moves with it
    for name in listing.arrays:
        if name in matrices:
            parts[name] = []
        parts[next(reversed(parts))].append(name)
    names = [name for first in ("", *order) for name in parts[first]]
    arrays = {name: listing.arrays[name] for name in names}
    return replace(listing, arrays=arrays, layout=NUMBERED)


def _transpose_kernels(listing: CheckpointContents) -> CheckpointContents:
    matrices = matrices_of(listing.arrays)
    named = [name for name in matrices if is_kernel(name)]
    if not named and not _only_chain_turned(listing.arrays):
        return listing
    which = named or list(matrices)
    arrays = {name: a.T.copy() if name in which else a for name, a in listing.arrays.items()}
    return replace(listing, arrays=arrays, layout=f"{listing.layout} {TURNED}".lstrip())


def _only_chain_turned(arrays: dict[str, Array]) -> bool:
    matrices = matrices_of(arrays)
    if len(matrices) < 2 or any("weight" in name for name in matrices):
        return False
    if any(a.ndim > 2 for a in arrays.values()):
        return False
    for order in (list(matrices), sorted(matrices, key=natural_key)):
        if do_shapes_chain([matrices[name].shape for name in order]):
            return False
    shapes = [a.shape[::-1] for a in matrices.values()]
    by_name = [matrices[name].shape[::-1] for name in sorted(matrices, key=natural_key)]
    return do_shapes_chain(shapes) or do_shapes_chain(by_name)
