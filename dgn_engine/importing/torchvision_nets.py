"""Recognise a file by tensor names and shapes: a torchvision network, or a chain of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isqrt
from typing import Literal, TypeVar

import numpy as np

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.adapted_network import adapted_title, is_adapted
from dgn_engine.importing.fold_batchnorm import (
    EPSILON,
    FOLDED,
    fold_normalisation,
    has_unplaced,
)
from dgn_engine.importing.foreign_keys import foreign_keys, shortcut_in
from dgn_engine.importing.resnet_keys import (
    ConvolutionalPart,
    Shapes,
    resnet_from_shapes,
    torchvision_names,
)
from dgn_engine.importing.vgg_keys import alexnet_from_shapes, do_weights_chain, vgg_from_shapes
from dgn_engine.model import architecture as arch
from dgn_engine.storage.checkpoints.averaged_weights import averaged_beside
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents
from dgn_engine.text.printable import plain_text

T = TypeVar("T")
Resemblance = Literal["resnet", "vgg or alexnet"]


@dataclass(frozen=True)
class PlacedWeights:
    """A network's nodes, and the weight tensors of its layers in order."""

    nodes: tuple[arch.Node, ...]
    weights: tuple[str, ...]


@dataclass(frozen=True)
class RecognisedNet:
    """A recognised network.

    Attributes:
        title: Description that completes 'It is …'.
        listing: Weights and biases of `architecture` in its order, with BatchNorm folded in.
        remarks: Sentences on what had to be assumed.
    """

    title: str
    architecture: arch.Architecture
    listing: CheckpointContents
    remarks: tuple[str, ...] = ()


def describe_file(listing: CheckpointContents) -> str:
    """Describe a file, to complete 'It is …'.

    Whether it can be read as a network is decided by `from_file.verdict_on`.
    """
    if listing.metadata.get("format", "").startswith("dgn-viewer"):
        regime = plain_text(listing.metadata.get("regime", "?"), 20)
        return f"both networks of dgn-viewer, regime {regime}{_layout_in_words(listing)}"
    shapes = {name: array.shape for name, array in listing.arrays.items()}
    if network := known_network(shapes):
        return network
    if is_adapted(listing):
        return adapted_title(listing)
    if listing.layers and (chain := chain_in_words(shapes)):
        return f"a saved nn.Sequential, {chain}"
    if twice := averaged_beside(listing.arrays):
        raw, averaged = (plain_text(name, 60) for name in twice)
        return f"the same network twice, as '{raw}' and averaged as '{averaged}'"
    unknown = _count_of(len(shapes), "tensor") + " of an unknown network"
    if foreign := foreign_keys(shapes):
        return f"{unknown}: '{plain_text(foreign.name, 80)}' is part of {foreign.what}"
    if shortcut_in(shapes) or not (chain := chain_in_words(shapes)):
        return unknown
    return f"{chain}, by the shapes of its tensors"


def _layout_in_words(listing: CheckpointContents) -> str:
    """Return ', parallel feature layers', or ''."""
    with suppress(UserError):  # a damaged configuration is reported where the network is read
        gating = RunConfig.from_toml(listing.metadata.get("config", "")).gating
        return ", parallel feature layers" if gating.feature_layers == "parallel" else ""
    return ""


def known_network(shapes: Shapes) -> str:
    """Return the name of a published torchvision network, by names and widths; or ''."""
    own = _without_prefix(shapes)
    part = _convolutional_part(own)
    if part is None or not part.published:
        return ""
    head = own.get(part.dense[-1], ())
    classes = f"{head[0]:,} classes" if len(head) == 2 else "without its output layer"
    return f"torchvision's {part.published}, {classes}"


def has_skips(shapes: Shapes) -> bool:
    """Return whether it is a torchvision ResNet, whose layers are not a chain."""
    return "ResNet" in known_network(shapes)


def resembling_family(arrays: Mapping[str, Array]) -> Resemblance | None:
    """Return which family of `recognise_network` the names and shapes of a file resemble."""
    own = _without_prefix(arrays)
    shapes = {known: own[name].shape for known, name in torchvision_names(own).items()}
    if place_weights(shapes) is None or has_unplaced(own):  # a BatchNorm before its convolution
        return None
    family: Resemblance = "resnet" if resnet_from_shapes(shapes) else "vgg or alexnet"
    return family


def left_over_in(arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """Return those of `arrays` that belong to no layer of a recognised file."""
    own = _without_prefix(arrays)
    called = torchvision_names(own)
    shapes = {known: own[name].shape for known, name in called.items()}
    placed = place_weights(shapes)
    if placed is None:
        return ()
    heads = {name.removesuffix(".weight") for name in placed.weights}
    heads |= {n.removesuffix(".running_mean") for n in shapes if n.endswith(".running_mean")}
    own_words = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    ours = {
        name
        for known, name in called.items()
        if known.rpartition(".")[0] in heads and known.rpartition(".")[2] in own_words
    }
    named = list(arrays)
    return tuple(named[index] for index, name in enumerate(own) if name not in ours)


def place_weights(shapes: Shapes, stem: tuple[arch.Node, ...] = ()) -> PlacedWeights | None:
    """Return the ResNet, VGG or AlexNet of these torchvision names and shapes, or None.

    `stem`: see `resnet_from_shapes`.
    """
    part = _convolutional_part(shapes, stem)
    if part is None:
        return None
    names = part.dense
    if "classifier.weight" in shapes and names != ("fc.weight",):
        names = ("classifier.weight",)
    dense = [shapes.get(name, ()) for name in names]
    if any(len(shape) != 2 for shape in dense) or not do_weights_chain(dense):
        return None
    pooled = isinstance(part.nodes[-1], arch.GlobalAveragePool)
    if pooled and dense[0][1] != _last_channels(part.nodes):
        return None
    last = len(dense) - 1
    heads = tuple(arch.Dense(shape[1], shape[0], index < last) for index, shape in enumerate(dense))
    return PlacedWeights((*part.nodes, *heads), (*part.weights, *names))


def _convolutional_part(
    shapes: Shapes, stem: tuple[arch.Node, ...] = ()
) -> ConvolutionalPart | None:
    return (
        resnet_from_shapes(shapes, stem) or vgg_from_shapes(shapes) or alexnet_from_shapes(shapes)
    )


def _without_prefix(named: Mapping[str, T]) -> dict[str, T]:
    """Strip a common prefix such as 'model.', to get torchvision's names."""
    for first in ("conv1.weight", "features.0.weight"):
        for name in named:
            prefix = name.removesuffix(first)
            if prefix != name and all(other.startswith(prefix) for other in named):
                return {other.removeprefix(prefix): value for other, value in named.items()}
    return dict(named)


def recognise_network(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    epsilon: float = EPSILON,
    stem: tuple[arch.Node, ...] = (),
) -> RecognisedNet | None:
    """Recognise a ResNet, VGG or AlexNet by its keys, for images (C, H, W); else None.

    Strides and pooling are torchvision's; `stem` overrides those of a ResNet's first layers.
    BatchNorm is used as in evaluation mode, with this ε. Adaptive average pooling before a dense
    layer is linear, so it is folded into that layer: logits and gates are the same for images of
    any size.

    Raises:
        UserError: The images do not fit, or a tensor is missing.
    """
    own = _without_prefix(listing.arrays)
    shapes = {known: own[name].shape for known, name in torchvision_names(own).items()}
    placed = place_weights(shapes, stem)
    if placed is None:
        return None
    named = {name: array.shape for name, array in listing.arrays.items()}
    title = known_network(named) or _plain_title(placed, shapes)
    arrays, folded = _fold_tensors(placed, own, listing.file_name, epsilon)
    nodes, remarks = list(placed.nodes), [f"{FOLDED}."] * folded
    on_vectors = (arch.Dense, arch.GlobalAveragePool)
    head = next(index for index, node in enumerate(nodes) if isinstance(node, on_vectors))
    if isinstance(nodes[head], arch.Dense):
        nodes, remark = _insert_flatten(nodes, head, input_shape, arrays, placed, listing.file_name)
        remarks += remark
    architecture = _fit_architecture(input_shape, nodes, listing.file_name)
    return RecognisedNet(
        title, architecture, replace(listing, arrays=arrays, metadata={}), (*remarks,)
    )


def _plain_title(placed: PlacedWeights, shapes: dict[str, tuple[int, ...]]) -> str:
    layers = len(placed.weights)
    kind = "ResNet" if "conv1.weight" in shapes else "VGG or AlexNet"
    return f"by its names a {kind}, {layers} weight layers, {shapes[placed.weights[-1]][0]} classes"


def _fold_tensors(
    placed: PlacedWeights, own: dict[str, Array], file: str, epsilon: float
) -> tuple[dict[str, Array], bool]:
    """Return the layers' tensors in order, and whether BatchNorms were folded into them."""
    folding = fold_normalisation(own, epsilon)
    called = torchvision_names(folding.arrays)
    unfolded = next((name for name in folding.arrays if name.endswith("running_mean")), "")
    if unfolded:
        raise UserError(
            f"{file} has a BatchNorm, '{unfolded}', that follows none of its layers.",
            kind="not-supported",
        )
    arrays: dict[str, Array] = {}
    for name in placed.weights:
        bias = f"{name.removesuffix('weight')}bias"
        for tensor_name in (name, bias):
            if tensor_name in called:
                arrays[tensor_name] = folding.arrays[called[tensor_name]]
    return arrays, bool(folding.into)


def _fit_architecture(
    input_shape: tuple[int, ...], nodes: list[arch.Node], file: str
) -> arch.Architecture:
    if len(input_shape) != 3:
        raise UserError(f"{file} takes images, but these examples are vectors.", kind="not-images")
    first = nodes[0]
    if isinstance(first, arch.Conv) and first.inputs != input_shape[0]:
        raise UserError(
            f"{file} takes images with {first.inputs} channels, but these have {input_shape[0]}.",
            kind="other-inputs",
            value=input_shape[0],
        )
    try:
        return arch.Architecture(input_shape, tuple(nodes))
    except UserError as refusal:
        sides = "×".join(str(side) for side in input_shape[1:])
        raise UserError(
            f"{file} does not take images of {sides}: {refusal}", kind="other-inputs"
        ) from None


def _insert_flatten(
    nodes: list[arch.Node],
    head: int,
    input_shape: tuple[int, ...],
    kept: dict[str, Array],
    placed: PlacedWeights,
    file: str,
) -> tuple[list[arch.Node], list[str]]:
    """Insert Flatten, and fold adaptive pooling before it into the first dense layer."""
    dense = nodes[head]
    assert isinstance(dense, arch.Dense)
    probe = [
        *nodes[:head],
        arch.GlobalAveragePool(),
        arch.Dense(_last_channels(nodes[:head]), 1, gated=False),
    ]
    shapes = [shape for _, shape in _fit_architecture(input_shape, probe, file).shapes()]
    channels, high, wide = shapes[head - 1] if head else input_shape
    side = isqrt(dense.inputs // channels)
    if side * side * channels != dense.inputs:
        raise UserError(
            f"{file}: the {dense.inputs} inputs of its first dense layer do not form square maps.",
            kind="other-inputs",
        )
    rest = nodes[head + 1 :]
    if (high, wide) == (side, side):
        return [*nodes[:head], arch.Flatten(), dense, *rest], []
    name = placed.weights[sum(isinstance(node, arch.Conv) for node in nodes)]
    weight = kept[name].reshape(-1, channels, side, side)
    pooled = np.einsum(
        "ocij,iy,jx->ocyx",
        weight,
        _pooling_matrix(side, high),
        _pooling_matrix(side, wide),
        optimize=True,
    )
    kept[name] = pooled.reshape(len(weight), -1)
    inputs = channels * high * wide
    remark = (
        f"Its adaptive average pooling, {high}×{wide} to {side}×{side}, is folded into the first "
        "dense layer."
    )
    return [*nodes[:head], arch.Flatten(), replace(dense, inputs=inputs), *rest], [remark]


def _last_channels(nodes: Sequence[arch.Node]) -> int:
    return next(node.outputs for node in reversed(nodes) if isinstance(node, arch.Conv))


def _pooling_matrix(outputs: int, inputs: int) -> Array:
    """Return adaptive average pooling along one axis as a matrix, shape (outputs, inputs).

    Window i spans ⌊i·n/m⌋ to ⌈(i+1)·n/m⌉, as in `torch.nn.AdaptiveAvgPool2d`.
    """
    windows = np.zeros((outputs, inputs))
    for index in range(outputs):
        start, stop = index * inputs // outputs, -(-(index + 1) * inputs // outputs)
        windows[index, start:stop] = 1.0 / (stop - start)
    return windows


def chain_in_words(shapes: Shapes) -> str:
    """Describe a chain of dense layers and convolutions whose shapes fit; or ''."""
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
    counts = {"convolution": convolutions, "dense layer": dense, "BatchNorm": norms}
    *parts, last = [_count_of(number, thing) for thing, number in counts.items() if number]
    layers = f"{', '.join(parts)} and {last}" if parts else last
    inputs = _count_of(weights[0][1], "channel" if convolutions else "input")
    return f"a chain of {layers}, {inputs}, {_count_of(weights[-1][0], 'output')}"


def _count_of(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
