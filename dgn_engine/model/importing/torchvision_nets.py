"""A file that is a network of torchvision's kind: its architecture, and its tensors in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt

import numpy as np

from dgn_engine.errors import UserError
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    Flatten,
    GlobalAveragePool,
    Node,
)
from dgn_engine.model.importing.fold_batchnorm import EPSILON, fold_normalisation
from dgn_engine.model.importing.resnet_keys import PlacedWeights, resnet, torchvision_names
from dgn_engine.model.importing.understanding import known_network, without_prefix
from dgn_engine.model.importing.vgg_keys import alexnet, vgg
from dgn_engine.storage.checkpoints.checkpoint_reader import CheckpointContents
from dgn_engine.storage.checkpoints.contents import Array


@dataclass(frozen=True)
class RecognisedNet:
    """`listing`: just the weights and biases of `architecture` in its order, BatchNorm folded in;
    `title`: what it is, as the end of 'It is …'; `remarks`: what had to be assumed, sentences."""

    title: str
    architecture: Architecture
    listing: CheckpointContents
    remarks: tuple[str, ...] = ()


def recognise(
    listing: CheckpointContents, input_shape: tuple[int, ...], epsilon: float = EPSILON
) -> RecognisedNet | None:
    """A ResNet, VGG or AlexNet by its key signature, for images (C, H, W); None if it is none.

    BatchNorm is taken as in evaluation, with this ε. Adaptive average pooling before a dense layer
    is a linear map, so it is folded into that layer: logits and gates are the same for images of
    every size. Raises `UserError` where the images do not fit, or a tensor is missing.
    """
    own = without_prefix(listing.arrays)
    shapes = {known: own[name].shape for known, name in torchvision_names(own).items()}
    placed = resnet(shapes) or vgg(shapes) or alexnet(shapes)
    if placed is None:
        return None
    named = {name: array.shape for name, array in listing.arrays.items()}
    title = known_network(named) or _plain_title(placed, shapes)
    kept, folded = _taken(placed, own, listing.file_name, epsilon)
    nodes, remarks = list(placed.nodes), list(placed.remarks)
    if folded:
        remarks.append(
            f"BatchNorm is folded in as in evaluation, with an ε of {epsilon:g}; the file does "
            "not say which."
        )
    head = next(place for place, node in enumerate(nodes) if not _on_maps(node))
    if isinstance(nodes[head], Dense):
        nodes, remark = _flattened(nodes, head, input_shape, kept, placed, listing.file_name)
        remarks += remark
    architecture = _fitted(input_shape, nodes, listing.file_name)
    return RecognisedNet(
        title, architecture, replace(listing, arrays=kept, metadata={}), (*remarks,)
    )


def _on_maps(node: Node) -> bool:
    return not isinstance(node, (Dense, GlobalAveragePool))


def _plain_title(placed: PlacedWeights, shapes: dict[str, tuple[int, ...]]) -> str:
    layers = len(placed.weights)
    kind = "ResNet" if "conv1.weight" in shapes else "VGG or AlexNet"
    return f"a {kind} by its names, {layers} weight layers, {shapes[placed.weights[-1]][0]} classes"


def _taken(
    placed: PlacedWeights, own: dict[str, Array], file: str, epsilon: float
) -> tuple[dict[str, Array], bool]:
    """The tensors of the layers in their order, and whether BatchNorms were folded into them."""
    folding = fold_normalisation(own, epsilon)
    called = torchvision_names(folding.arrays)
    left = next((name for name in folding.arrays if name.endswith("running_mean")), "")
    if left:
        raise UserError(
            f"{file} holds a BatchNorm, '{left}', that stands behind none of its layers."
        )
    kept: dict[str, Array] = {}
    for name in placed.weights:
        bias = f"{name.removesuffix('weight')}bias"
        for each in (name, bias):
            if each in called:
                kept[each] = folding.arrays[called[each]]
    return kept, bool(folding.into)


def _fitted(input_shape: tuple[int, ...], nodes: list[Node], file: str) -> Architecture:
    if len(input_shape) != 3:
        raise UserError(f"{file} takes images, but these examples are vectors.")
    first = nodes[0]
    if isinstance(first, Conv) and first.inputs != input_shape[0]:
        raise UserError(
            f"{file} takes images with {first.inputs} channels, but these have {input_shape[0]}."
        )
    try:
        return Architecture(input_shape, tuple(nodes))
    except UserError as refusal:
        sides = "×".join(str(side) for side in input_shape[1:])
        raise UserError(f"{file} does not take images of {sides}: {refusal}") from None


def _flattened(
    nodes: list[Node],
    head: int,
    input_shape: tuple[int, ...],
    kept: dict[str, Array],
    placed: PlacedWeights,
    file: str,
) -> tuple[list[Node], list[str]]:
    """Flatten put in, and the adaptive pooling before it folded into the first dense layer."""
    dense = nodes[head]
    assert isinstance(dense, Dense)
    probe = [*nodes[:head], GlobalAveragePool(), Dense(_channels(nodes, head), 1, gated=False)]
    shapes = [shape for _, shape in _fitted(input_shape, probe, file).shapes()]
    channels, high, wide = shapes[head - 1] if head else input_shape
    side = isqrt(dense.inputs // channels)
    if side * side * channels != dense.inputs:
        raise UserError(
            f"{file}: its first dense layer takes {dense.inputs} inputs, no square maps."
        )
    rest = nodes[head + 1 :]
    if (high, wide) == (side, side):
        return [*nodes[:head], Flatten(), dense, *rest], []
    name = placed.weights[sum(isinstance(node, Conv) for node in nodes)]
    weight = kept[name].reshape(-1, channels, side, side)
    pooled = np.einsum(
        "ocij,iy,jx->ocyx", weight, _windows(side, high), _windows(side, wide), optimize=True
    )
    kept[name] = pooled.reshape(len(weight), -1)
    inputs = channels * high * wide
    remark = (
        f"Its adaptive average pooling, {high}×{wide} to {side}×{side}, is folded into the first "
        "dense layer."
    )
    return [*nodes[:head], Flatten(), replace(dense, inputs=inputs), *rest], [remark]


def _channels(nodes: list[Node], head: int) -> int:
    return next(node.outputs for node in reversed(nodes[:head]) if isinstance(node, Conv))


def _windows(outputs: int, inputs: int) -> Array:
    """Adaptive average pooling along one axis, (outputs, inputs): window i goes from ⌊i·n/m⌋ to
    ⌈(i+1)·n/m⌉, as torch.nn.AdaptiveAvgPool2d has it."""
    windows = np.zeros((outputs, inputs))
    for place in range(outputs):
        start, stop = place * inputs // outputs, -(-(place + 1) * inputs // outputs)
        windows[place, start:stop] = 1.0 / (stop - start)
    return windows
