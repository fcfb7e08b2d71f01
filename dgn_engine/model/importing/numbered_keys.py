"""A state dict with numbered keys read as the `nn.Sequential` that it is of.

Numbers that are skipped are layers without parameters. Which ones, and with what padding and
stride the convolutions go, the keys do not say: `infer_sequential` tries what fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.contents import Array

_MOST = 200  # layers of a sequence
_WORDS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
Kind = Literal["Linear", "Conv2d", "BatchNorm"]


@dataclass(frozen=True)
class NumberedLayer:
    """A layer with parameters; `path`: its numbers, outermost first; `shape`: of its weight."""

    name: str
    path: tuple[int, ...]
    kind: Kind
    shape: tuple[int, ...]


@dataclass(frozen=True)
class LayerGap:
    """Layers without parameters between two with them: just `least`, or where the first of the
    two lies in a sequence of its own, whose end the keys do not show, `open`: as many or more."""

    least: int
    open: bool


@dataclass(frozen=True)
class NumberedSequence:
    """Convolutions and dense layers in their order, the BatchNorm right behind each (or None),
    and the gaps between them."""

    weighted: tuple[NumberedLayer, ...]
    norms: tuple[NumberedLayer | None, ...]
    gaps: tuple[LayerGap, ...]

    @property
    def convolutions(self) -> int:
        return sum(layer.kind == "Conv2d" for layer in self.weighted)


def numbered_sequence(arrays: Mapping[str, Array], file: str) -> NumberedSequence | None:
    """The sequence that these keys are of; None where they are not, or skip no number at all.

    A list of layers is often written without activations, which its program adds: then no number
    is skipped. Raises `UserError` where a BatchNorm cannot be folded into the layer before it.
    """
    layers = _layers(arrays)
    if not layers or len(layers) > 2 * _MOST:
        return None
    weighted = [layer for layer in layers if layer.kind != "BatchNorm"]
    norms: dict[str, NumberedLayer] = {}
    gaps: list[LayerGap] = []
    ends = {layer.name: layer for layer in weighted}  # the last number of a layer with its norm
    for before, after in pairwise(layers):
        if after.kind == "BatchNorm":
            if before.kind == "BatchNorm" or _gap(before, after) != LayerGap(0, False):
                raise UserError(
                    f"{file}: its BatchNorm {after.name} does not stand right behind a dense layer "
                    "or a convolution, so it cannot be folded into one."
                )
            norms[before.name] = ends[before.name] = after
    for before, after in pairwise(weighted):
        gaps.append(_gap(ends[before.name], after))
    skipped = any(gap.least or gap.open for gap in gaps)
    starts_there = not any(weighted[0].path) or weighted[0].kind == "Linear"
    if not skipped or layers[0].kind == "BatchNorm" or not starts_there or not _chain(weighted):
        return None
    return NumberedSequence(
        tuple(weighted), tuple(norms.get(layer.name) for layer in weighted), tuple(gaps)
    )


def _layers(arrays: Mapping[str, Array]) -> list[NumberedLayer]:
    """Every layer by its numbers; none where some key is not numbered, or no such layer."""
    grouped: dict[str, dict[str, Array]] = {}
    for name, array in arrays.items():
        head, _, word = name.rpartition(".")
        if word not in _WORDS:
            return []
        grouped.setdefault(head, {})[word] = array
    found: list[NumberedLayer] = []
    prefixes: set[str] = set()
    for name, tensors in grouped.items():
        prefix, path = _path(name)
        kind = _kind(tensors)
        if not path or kind is None:
            return []
        prefixes.add(prefix)
        shaped = tensors.get("weight", tensors.get("running_mean"))
        found.append(NumberedLayer(name, path, kind, () if shaped is None else shaped.shape))
    return sorted(found, key=lambda layer: layer.path) if len(prefixes) == 1 else []


def _path(name: str) -> tuple[str, tuple[int, ...]]:
    parts = name.split(".")
    start = len(parts)
    while start and parts[start - 1].isascii() and parts[start - 1].isdecimal():
        start -= 1
    if any(len(part) > 4 for part in parts[start:]):
        return "", ()
    return ".".join(parts[:start]), tuple(int(part) for part in parts[start:])


def _kind(tensors: Mapping[str, Array]) -> Kind | None:
    if "running_mean" in tensors:
        return "BatchNorm"
    weight = tensors.get("weight")
    if weight is None or weight.dtype.kind != "f" or 0 in weight.shape:
        return None
    return {2: "Linear", 4: "Conv2d"}.get(weight.ndim)  # type: ignore[return-value]


def _gap(before: NumberedLayer, after: NumberedLayer) -> LayerGap:
    level = next(
        (place for place, pair in enumerate(zip(before.path, after.path, strict=False))
         if pair[0] != pair[1]),
        0,
    )  # fmt: skip
    least = after.path[level] - before.path[level] - 1 + sum(after.path[level + 1 :])
    return LayerGap(least, len(before.path) > level + 1)


def _chain(weighted: list[NumberedLayer]) -> bool:
    """Square convolutions and then dense layers, each taking what the one before gives."""
    if weighted[-1].kind != "Linear" or len(weighted) < 2:
        return False
    for before, after in pairwise(weighted):
        flat = before.kind == "Conv2d" and after.kind == "Linear"
        follows = (
            after.shape[1] % before.shape[0] == 0 if flat else after.shape[1] == before.shape[0]
        )
        if not follows or (before.kind, after.kind) == ("Linear", "Conv2d"):
            return False
    return all(len(set(layer.shape[2:])) <= 1 for layer in weighted)
