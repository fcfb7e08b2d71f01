"""What the tensors of a file are known to be: by the names and shapes of a network, or a chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TypeVar

from dgn_engine.storage.checkpoints.checkpoint_reader import CheckpointContents
from dgn_engine.storage.checkpoints.contents import plain

Shapes = dict[str, tuple[int, ...]]

_VGG = {  # configurations A, B, D, E of Simonyan and Zisserman 2014, arXiv:1409.1556
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
_VGG_WIDTHS = (64, 128, 256, 512, 512)
_RESNET = {  # blocks in each stage, He et al. 2015, arXiv:1512.03385, table 1
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
}
_ALEXNET = {0: 64, 3: 192, 6: 384, 8: 256, 10: 256}


def understood_as(listing: CheckpointContents) -> str:
    """What the file is, as the end of a sentence 'It is …'."""
    if listing.metadata.get("format", "").startswith("dgn-viewer"):
        return (
            f"both networks of dgn-viewer, regime {plain(listing.metadata.get('regime', '?'), 20)}"
        )
    shapes = {name: array.shape for name, array in listing.arrays.items()}
    if network := known_network(shapes):
        return network
    if listing.layers and (chain := _chain(shapes)):
        return f"a saved nn.Sequential, {chain}"
    return _chain(shapes) or _counted(len(shapes), "tensor") + " of no network that is known here"


def known_network(shapes: Shapes) -> str:
    """A network of torchvision by its names and widths; or ''."""
    own = without_prefix(shapes)
    return _resnet(own) or _vgg(own) or _alexnet(own)


def has_skips(shapes: Shapes) -> bool:
    """Whether it is a ResNet: its layers make no chain."""
    return bool(_resnet(without_prefix(shapes)))


Thing = TypeVar("Thing")


def without_prefix(named: Mapping[str, Thing]) -> dict[str, Thing]:
    """By the names that torchvision has, where all stand under 'model.' or the like."""
    for first in ("conv1.weight", "features.0.weight"):
        for name in named:
            prefix = name.removesuffix(first)
            if prefix != name and all(other.startswith(prefix) for other in named):
                return {other.removeprefix(prefix): thing for other, thing in named.items()}
    return dict(named)


def _resnet(shapes: Shapes) -> str:
    convolutions = {n for n, s in shapes.items() if len(s) == 4}
    for depth, stages in _RESNET.items():
        if convolutions != set(_resnet_convolutions(stages, depth >= 50)):
            continue
        if shapes.get("layer1.0.conv2.weight") != (64, 64, 3, 3):
            return ""  # wider, or in groups
        if shapes["conv1.weight"][0] != 64 or shapes["layer4.0.conv2.weight"][0] != 512:
            return ""
        side = shapes["conv1.weight"][3]
        stem = "" if side == 7 else f" with a first convolution of {side}×{side}"
        return f"torchvision's ResNet-{depth}{stem}{_classes(shapes, 'fc.weight')}"
    return ""


def _resnet_convolutions(stages: tuple[int, ...], bottleneck: bool) -> Iterator[str]:
    yield "conv1.weight"
    for stage, blocks in enumerate(stages, start=1):
        if stage > 1 or bottleneck:
            yield f"layer{stage}.0.downsample.0.weight"
        for block in range(blocks):
            for number in range(1, 4 if bottleneck else 3):
                yield f"layer{stage}.{block}.conv{number}.weight"


def _vgg(shapes: Shapes) -> str:
    for depth, blocks in _VGG.items():
        for norm in (False, True):
            place, wanted = 0, {}
            for width, layers in zip(_VGG_WIDTHS, blocks, strict=True):
                for _ in range(layers):
                    wanted[place] = width
                    place += 3 if norm else 2  # convolution, BatchNorm, ReLU
                place += 1  # pool
            if _features(shapes) == wanted and ("features.1.running_mean" in shapes) == norm:
                words = " with BatchNorm" if norm else ""
                return f"torchvision's VGG-{depth}{words}{_classes(shapes, 'classifier.6.weight')}"
    return ""


def _alexnet(shapes: Shapes) -> str:
    if _features(shapes) != _ALEXNET or shapes["features.0.weight"][2:] != (11, 11):
        return ""
    return f"torchvision's AlexNet{_classes(shapes, 'classifier.6.weight')}"


def _features(shapes: Shapes) -> dict[int, int]:
    """Place and width of each convolution of a sequence called 'features'."""
    found: dict[int, int] = {}
    for name, shape in shapes.items():
        head, _, place = name.removesuffix(".weight").partition(".")
        if len(shape) == 4 and head == "features" and place.isdecimal() and len(place) < 4:
            found[int(place)] = shape[0]
    return found


def _classes(shapes: Shapes, head: str) -> str:
    shape = shapes.get(head, ())
    return f", {shape[0]:,} classes" if len(shape) == 2 else ", without its output layer"


def _chain(shapes: Shapes) -> str:
    """Dense layers and convolutions each of which takes what the one before gives; or ''."""
    weights = [shape for shape in shapes.values() if len(shape) in (2, 4)]
    norms = sum(name.endswith("running_mean") for name in shapes)
    scales = sum(len(s) == 1 and name.endswith("weight") for name, s in shapes.items())
    if not weights or any(0 in shape for shape in weights) or scales > norms:
        return ""
    if any(len(shape) in (3, 5) for shape in shapes.values()):
        return ""
    for before, after in pairwise(weights):
        flat = len(before) == 4 and len(after) == 2
        follows = after[1] % before[0] == 0 if flat else after[1] == before[0]
        if not follows or len(after) > len(before):
            return ""
    convolutions = sum(len(shape) == 4 for shape in weights)
    dense = len(weights) - convolutions
    parts = [_counted(convolutions, "convolution")] if convolutions else []
    parts += [_counted(dense, "dense layer")] if dense else []
    parts += [_counted(norms, "BatchNorm")] if norms else []
    inputs = "channels" if convolutions else "inputs"
    return f"a chain of {' and '.join(parts)}, {weights[0][1]} {inputs}, {weights[-1][0]} outputs"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
