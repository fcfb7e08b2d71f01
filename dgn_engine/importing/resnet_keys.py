"""Recognise ResNets by their tensor names, as torchvision writes them.

Any width and number of blocks; also with 'shortcut' and 'linear', common names elsewhere. A state
dict has neither strides nor pooling. 'resnet' means those of He et al. 2015, arXiv:1512.03385, with
the stride of a bottleneck in its 3×3 convolution as in torchvision; the user also specifies the
first convolution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dgn_engine.model import architecture as arch

Shapes = Mapping[str, tuple[int, ...]]

_ALIASES = (("shortcut.", "downsample."), ("linear.", "fc."))
_PUBLISHED: dict[tuple[tuple[int, ...], int], int] = {
    ((2, 2, 2, 2), 20): 18,
    ((3, 4, 6, 3), 36): 34,
    ((3, 4, 6, 3), 53): 50,
}


@dataclass(frozen=True)
class ConvolutionalPart:
    """A network before its dense layers, from the names and shapes of a file.

    Attributes:
        weights: Kernels of `nodes`, in order.
        dense: Usual names of its dense weights.
        published: The exact published network ('VGG-11 with BatchNorm'), or ''.
    """

    nodes: tuple[arch.Node, ...]
    weights: tuple[str, ...]
    dense: tuple[str, ...]
    published: str


def torchvision_names(names: Mapping[str, object]) -> dict[str, str]:
    """Return torchvision's name → the name in the file."""
    known: dict[str, str] = {}
    for name in names:
        other = name
        for theirs, ours in _ALIASES:
            if other.startswith(theirs) or f".{theirs}" in other:
                other = other.replace(theirs, ours)
        known.setdefault(other, name)
    return known


def resnet_from_shapes(
    shapes: Shapes, stem: tuple[arch.Node, ...] = ()
) -> ConvolutionalPart | None:
    """Return the ResNet of these torchvision names and shapes; None if they are not one.

    `stem`: its first convolution and pooling as specified by the user; torchvision's if empty.
    """
    stages = _count_stages(shapes)
    first = shapes.get("conv1.weight", ())
    if not stages or len(first) != 4 or first[2] != first[3]:
        return None
    kernel, width = first[2], first[0]
    usual = (arch.Conv(first[1], width, kernel, 2, kernel // 2), arch.MaxPool(3, 2, padding=1))
    nodes: list[arch.Node] = list(stem or usual)
    weights = ["conv1.weight"]
    for stage, blocks in enumerate(stages, start=1):
        for index in range(blocks):
            stride = 2 if stage > 1 and index == 0 else 1
            block = _block_nodes(f"layer{stage}.{index}", shapes, width, stride)
            if block is None:
                return None
            inner, names, width = block
            nodes += inner
            weights += names
    if {name for name, shape in shapes.items() if len(shape) == 4} != set(weights):
        return None
    published = _published_name(stages, shapes, len(weights))
    nodes.append(arch.GlobalAveragePool())
    return ConvolutionalPart(tuple(nodes), tuple(weights), ("fc.weight",), published)


def _published_name(stages: list[int], shapes: Shapes, convolutions: int) -> str:
    """Return 'ResNet-18', or '' if depth or width differ from the published ones."""
    depth = _PUBLISHED.get((tuple(stages), convolutions))
    narrow = shapes.get("layer1.0.conv2.weight") == (64, 64, 3, 3)
    stem = shapes["conv1.weight"]
    if depth is None or not narrow or stem[0] != 64 or shapes["layer4.0.conv2.weight"][0] != 512:
        return ""
    other_stem = "" if stem[3] == 7 else f" with a first convolution of {stem[3]}×{stem[3]}"
    return f"ResNet-{depth}{other_stem}"


def _count_stages(shapes: Shapes) -> list[int]:
    """Count the blocks of each stage, stopping at a gap."""
    stages: list[int] = []
    while f"layer{len(stages) + 1}.0.conv1.weight" in shapes:
        stage, blocks = len(stages) + 1, 0
        while f"layer{stage}.{blocks}.conv1.weight" in shapes:
            blocks += 1
        stages.append(blocks)
    return stages


def _block_nodes(
    name: str, shapes: Shapes, width: int, stride: int
) -> tuple[list[arch.Node], list[str], int] | None:
    """Return one block's nodes, weights and width; None if the shapes do not chain."""
    names = [f"{name}.conv{number}.weight" for number in (1, 2, 3)]
    names = [weight for weight in names if weight in shapes]
    inner = list(_block_convolutions([shapes[weight] for weight in names], width, stride))
    if len(names) < 2 or len(inner) != len(names):
        return None
    outputs = inner[-1].outputs
    project = f"{name}.downsample.0.weight"
    nodes: list[arch.Node] = [arch.Fork(), *inner]
    if project in shapes:
        shape = shapes[project]
        if len(shape) != 4 or shape[:2] != (outputs, width) or shape[2:] != (1, 1):
            return None
        nodes += [arch.Skip(), arch.Conv(width, outputs, 1, stride, 0, gated=False)]
        names.append(project)
    elif outputs != width or stride != 1:
        return None  # a skip that pads or crops without weights
    return [*nodes, arch.Merge(), arch.Gating()], names, outputs


def _block_convolutions(
    shapes: list[tuple[int, ...]], width: int, stride: int
) -> Iterator[arch.Conv]:
    """Yield the convolutions of a block, with the stride in the first 3×3; stop at a misfit."""
    last = len(shapes) - 1
    for index, shape in enumerate(shapes):
        if len(shape) != 4 or shape[1] != width or shape[2] != shape[3] or not shape[2] % 2:
            return
        kernel = shape[2]
        strides = stride if kernel > 1 else 1
        if strides == stride:
            stride = 1
        yield arch.Conv(width, shape[0], kernel, strides, kernel // 2, gated=index < last)
        width = shape[0]
