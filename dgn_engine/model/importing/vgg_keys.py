"""VGG and AlexNet by the names of their tensors, as torchvision writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from dgn_engine.model.architecture import Conv, Dense, MaxPool, Node
from dgn_engine.model.importing.resnet_keys import PlacedWeights

Shapes = Mapping[str, tuple[int, ...]]

# AlexNet, Krizhevsky 2014, arXiv:1404.5997: place of the convolution → stride, padding, pooled
_ALEXNET = {0: (4, 2, True), 3: (1, 2, True), 6: (1, 1, False), 8: (1, 1, False), 10: (1, 1, True)}
_ALEXNET_SIDES = (11, 5, 3, 3, 3)


def vgg(shapes: Shapes) -> PlacedWeights | None:
    """A VGG of any width: 3×3 convolutions called features.N, a pooling wherever a number is
    skipped and at the end; then three dense layers, or one. None if it is none."""
    numbers = _numbers(shapes)
    maps = [shapes[f"features.{number}.weight"] for number in numbers]
    if len(numbers) < 2 or any(shape[2:] != (3, 3) for shape in maps):
        return None
    step = 3 if "features.1.running_mean" in shapes else 2
    gaps = [after - before - step for before, after in pairwise(numbers)]
    if numbers[0] != 0 or not set(gaps) <= {0, 1} or not _chain(maps):
        return None
    nodes: list[Node] = []
    for shape, pooled in zip(maps, (*gaps, 1), strict=True):
        nodes.append(Conv(shape[1], shape[0]))
        nodes += [MaxPool(2, 2)] if pooled else []
    return _with_classifier(nodes, numbers, shapes, (0, 3, 6))


def alexnet(shapes: Shapes) -> PlacedWeights | None:
    """AlexNet of any width; None if it is none."""
    numbers = _numbers(shapes)
    if numbers != list(_ALEXNET):
        return None
    maps = [shapes[f"features.{number}.weight"] for number in numbers]
    sides = zip(maps, _ALEXNET_SIDES, strict=True)
    if any(shape[2:] != (side, side) for shape, side in sides) or not _chain(maps):
        return None
    nodes: list[Node] = []
    for shape, (stride, padding, pooled) in zip(maps, _ALEXNET.values(), strict=True):
        nodes.append(Conv(shape[1], shape[0], shape[2], stride, padding))
        nodes += [MaxPool(3, 2)] if pooled else []
    return _with_classifier(nodes, numbers, shapes, (1, 4, 6))


def _numbers(shapes: Shapes) -> list[int]:
    """Places of the convolutions in the sequence called 'features', ascending."""
    found = []
    for name, shape in shapes.items():
        head, _, place = name.removesuffix(".weight").partition(".")
        if len(shape) == 4 and head == "features" and place.isdecimal() and len(place) < 4:
            found.append(int(place))
    return sorted(found)


def _chain(weights: Sequence[tuple[int, ...]]) -> bool:
    return all(after[1] == before[0] for before, after in pairwise(weights))


def _with_classifier(
    nodes: list[Node], numbers: list[int], shapes: Shapes, places: tuple[int, ...]
) -> PlacedWeights | None:
    """The dense layers called classifier.N, or the only one; the first takes the flattened map,
    whose size the adaptive pooling before it fixes."""
    names = [f"classifier.{place}.weight" for place in places]
    if "classifier.weight" in shapes:
        names = ["classifier.weight"]
    dense = [shapes.get(name, ()) for name in names]
    if any(len(shape) != 2 for shape in dense) or not _chain(dense):
        return None
    heads: list[Node] = [
        Dense(shape[1], shape[0], gated=place < len(dense) - 1) for place, shape in enumerate(dense)
    ]
    convolutions = tuple(f"features.{number}.weight" for number in numbers)
    return PlacedWeights((*nodes, *heads), (*convolutions, *names))
