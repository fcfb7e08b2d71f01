"""Recognise VGG and AlexNet by their tensor names, as torchvision writes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from dgn_engine.importing.resnet_keys import ConvolutionalPart, Shapes
from dgn_engine.model.architecture import Conv, MaxPool, Node

# VGG, configurations A, B, D, E of Simonyan and Zisserman 2014, arXiv:1409.1556: convolutions
# between two poolings → depth
_PUBLISHED: dict[tuple[int, ...], int] = {
    (1, 1, 2, 2, 2): 11,
    (2, 2, 2, 2, 2): 13,
    (2, 2, 3, 3, 3): 16,
    (2, 2, 4, 4, 4): 19,
}
_WIDTHS = (64, 128, 256, 512, 512)
# AlexNet, Krizhevsky 2014, arXiv:1404.5997: index of the convolution → stride, padding, pooled
_ALEXNET = {0: (4, 2, True), 3: (1, 2, True), 6: (1, 1, False), 8: (1, 1, False), 10: (1, 1, True)}
_ALEXNET_SIDES = (11, 5, 3, 3, 3)
_ALEXNET_WIDTHS = [64, 192, 384, 256, 256]


def vgg_from_shapes(shapes: Shapes) -> ConvolutionalPart | None:
    """Return a VGG of any width; else None.

    It has 3×3 convolutions named features.N with pooling at each skipped number and at the end,
    followed by three dense layers, or one.
    """
    numbers, maps = _feature_convolutions(shapes)
    if len(numbers) < 2 or any(shape[2:] != (3, 3) for shape in maps):
        return None
    norm = "features.1.running_mean" in shapes
    gaps = [after - before - (3 if norm else 2) for before, after in pairwise(numbers)]
    if numbers[0] != 0 or not set(gaps) <= {0, 1} or not do_weights_chain(maps):
        return None
    nodes: list[Node] = []
    blocks: list[list[int]] = [[]]  # the widths between two poolings
    for shape, pooled in zip(maps, (*gaps, 1), strict=True):
        nodes.append(Conv(shape[1], shape[0]))
        blocks[-1].append(shape[0])
        if pooled:
            nodes.append(MaxPool(2, 2))
            blocks.append([])
    depth = _PUBLISHED.get(tuple(len(block) for block in blocks[:-1]))
    usual = [set(block) for block in blocks[:-1]] == [{width} for width in _WIDTHS]
    words = " with BatchNorm" if norm else ""
    return _convolutional_part(
        nodes, numbers, (0, 3, 6), f"VGG-{depth}{words}" if depth and usual else ""
    )


def alexnet_from_shapes(shapes: Shapes) -> ConvolutionalPart | None:
    """Return an AlexNet of any width; else None."""
    numbers, maps = _feature_convolutions(shapes)
    if numbers != list(_ALEXNET):
        return None
    sides = zip(maps, _ALEXNET_SIDES, strict=True)
    if any(shape[2:] != (side, side) for shape, side in sides) or not do_weights_chain(maps):
        return None
    nodes: list[Node] = []
    for shape, (stride, padding, pooled) in zip(maps, _ALEXNET.values(), strict=True):
        nodes.append(Conv(shape[1], shape[0], shape[2], stride, padding))
        nodes += [MaxPool(3, 2)] if pooled else []
    usual = [shape[0] for shape in maps] == _ALEXNET_WIDTHS
    return _convolutional_part(nodes, numbers, (1, 4, 6), "AlexNet" if usual else "")


def do_weights_chain(weights: Sequence[tuple[int, ...]]) -> bool:
    """Return whether each weight takes the output of the one before it."""
    return all(after[1] == before[0] for before, after in pairwise(weights))


def _feature_convolutions(shapes: Shapes) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the convolutions of the sequence 'features': indices, ascending, and shapes."""
    shape_by_index = {}
    for name, shape in shapes.items():
        head, _, index = name.removesuffix(".weight").partition(".")
        if len(shape) == 4 and head == "features" and index.isdecimal() and len(index) < 4:
            shape_by_index[int(index)] = shape
    return sorted(shape_by_index), [shape_by_index[index] for index in sorted(shape_by_index)]


def _convolutional_part(
    nodes: list[Node], numbers: list[int], dense: tuple[int, ...], published: str
) -> ConvolutionalPart:
    return ConvolutionalPart(
        tuple(nodes),
        tuple(f"features.{number}.weight" for number in numbers),
        tuple(f"classifier.{index}.weight" for index in dense),
        published,
    )
