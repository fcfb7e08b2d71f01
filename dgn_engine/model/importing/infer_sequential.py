"""The only usual padding, stride and pooling with which a numbered sequence fits its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from dgn_engine.errors import UserError
from dgn_engine.model.importing.conventions import (
    GLOBAL,
    POOL,
    TIERS,
    Between,
    ConventionRules,
    LayerConvention,
    after,
    flat,
)
from dgn_engine.model.importing.fold_batchnorm import EPSILON
from dgn_engine.model.importing.foreign_keys import UnnamedNetwork
from dgn_engine.model.importing.numbered_keys import NumberedLayer
from dgn_engine.model.importing.numbered_keys import NumberedSequence as Chain
from dgn_engine.storage.checkpoints.stated_layers import StatedLayer


@dataclass(frozen=True)
class InferredLayers:
    """The layers as if the file stated them, and what was assumed, in sentences."""

    layers: tuple[StatedLayer, ...]
    remarks: tuple[str, ...]


def infer(
    chain: Chain, input_shape: tuple[int, ...], file: str, epsilon: float = EPSILON
) -> InferredLayers:
    """The layers of a sequence for inputs of this shape; raises `UnnamedNetwork` where none or
    several usual ones fit, and `UserError` where it takes other inputs."""
    found = _first_that_fits(chain, input_shape)
    if len(found) != 1:
        raise _doubt(chain, input_shape, file, found)
    choices = found[0]
    remarks = [_assumed(chain, choices, input_shape)] if chain.convolutions else []
    bare = [
        f"{before.name} and {behind.name}"
        for before, behind, choice in zip(chain.weighted, chain.weighted[1:], choices, strict=False)
        if "ReLU" not in choice.between
    ]
    if bare:
        remarks.append(f"No number is left for an activation between {', '.join(bare)}.")
    if any(chain.norms):
        remarks.append(f"The file does not say the ε of BatchNorm; {epsilon:g} is taken.")
    return InferredLayers(tuple(_layers(chain, choices, epsilon)), tuple(remarks))


def _first_that_fits(
    chain: Chain, input_shape: tuple[int, ...]
) -> list[tuple[LayerConvention, ...]]:
    """At most two ways that the first convention with any allows."""
    for tier in TIERS:
        found: dict[tuple[LayerConvention, ...], None] = {}
        for rules in tier:
            for way in _Search(chain, rules).ways(0, input_shape):
                found[way] = None
        if found:
            return list(found)[:2]
    return []


@dataclass
class _Search:
    """Depth first over the layers; each shape at a layer is searched once, for two ways at most."""

    chain: Chain
    rules: ConventionRules
    known: dict[tuple[int, tuple[int, ...]], list[tuple[LayerConvention, ...]]] = field(
        default_factory=dict
    )

    def ways(self, place: int, shape: tuple[int, ...]) -> list[tuple[LayerConvention, ...]]:
        """Of the layers from `place` on, to which `shape` arrives."""
        key = place, shape
        if key not in self.known:
            found: list[tuple[LayerConvention, ...]] = []
            for choice, left in self._choices(place, shape):
                if place + 1 == len(self.chain.weighted):
                    found.append((choice,))
                else:
                    found += [(choice, *rest) for rest in self.ways(place + 1, left)]
                if len(found) > 1:
                    break
            self.known[key] = found[:2]
        return self.known[key]

    def _choices(
        self, place: int, shape: tuple[int, ...]
    ) -> Iterator[tuple[LayerConvention, tuple[int, ...]]]:
        layer = self.chain.weighted[place]
        following = self.chain.weighted[place + 1 : place + 2]
        betweens: Sequence[Between] = ((),)
        if following:
            betweens = self.rules.between(layer, following[0], self.chain.gaps[place])
        if layer.kind == "Linear":
            arriving = flat(shape) if place == 0 else shape
            if arriving == (layer.shape[1],):
                yield from ((LayerConvention(0, 1, way), (layer.shape[0],)) for way in betweens)
            return
        if len(shape) != 3 or shape[0] != layer.shape[1]:
            return
        kernel = layer.shape[2]
        paddings = dict.fromkeys(kernel // 2 if padded else 0 for padded in self.rules.padded)
        for padding, stride, way in product(paddings, self.rules.strides, betweens):
            sides = [(side + 2 * padding - kernel) // stride + 1 for side in shape[1:]]
            left = after(way, (layer.shape[0], *sides))
            if left is not None:
                yield LayerConvention(padding, stride, way), left


def _layers(
    chain: Chain, choices: Sequence[LayerConvention], epsilon: float
) -> Iterator[StatedLayer]:
    maps = bool(chain.convolutions)
    for layer, norm, choice in zip(chain.weighted, chain.norms, choices, strict=True):
        if layer.kind == "Linear":
            sizes = {"in_features": layer.shape[1], "out_features": layer.shape[0]}
            yield StatedLayer(layer.name, "Linear", {**sizes})
        else:
            yield _convolution(layer, choice)
        if norm is not None:
            kind = "BatchNorm2d" if layer.kind == "Conv2d" else "BatchNorm1d"
            yield StatedLayer(norm.name, kind, {"num_features": norm.shape[0], "eps": epsilon})
        for each in choice.between:
            yield from _silent(each, layer.name) if maps or each == "ReLU" else ()


def _convolution(layer: NumberedLayer, choice: LayerConvention) -> StatedLayer:
    outputs, inputs, high, wide = layer.shape
    return StatedLayer(
        layer.name,
        "Conv2d",
        {
            "in_channels": inputs,
            "out_channels": outputs,
            "kernel_size": (high, wide),
            "stride": (choice.stride,) * 2,
            "padding": (choice.padding,) * 2,
            "dilation": (1, 1),
            "groups": 1,
            "padding_mode": "zeros",
        },
    )


def _silent(each: str, behind: str) -> Iterator[StatedLayer]:
    name = f"{each} behind {behind}"
    if each == POOL:
        windows = {"kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
        yield StatedLayer(name, "MaxPool2d", {**windows, "ceil_mode": False})
    elif each == GLOBAL:
        yield StatedLayer(name, "AdaptiveAvgPool2d", {"output_size": (1, 1)})
    elif each == "Flatten":
        yield StatedLayer(name, "Flatten", {"start_dim": 1, "end_dim": -1})
    else:
        yield StatedLayer(name, each, {})


def _assumed(chain: Chain, choices: Sequence[LayerConvention], input_shape: tuple[int, ...]) -> str:
    """What was taken of what the file does not say."""
    inputs = chain.weighted[chain.convolutions]
    words = (
        "The file does not say padding, stride and pooling; assumed is what is usual and leads "
        f"from {_sides(input_shape)} to the {inputs.shape[1]:,} inputs of layer {inputs.name}: "
        f"{_ways(chain, choices)}."
    )
    pooled = any(POOL in choice.between for choice in choices)
    return words + (" Average pooling would have the same shapes." if pooled else "")


def _ways(chain: Chain, choices: Sequence[LayerConvention]) -> str:
    """'padding 1, stride 1, ReLU, 2×2 max pooling behind 0 and 3'."""
    convolutions = list(zip(chain.weighted, choices, strict=True))[: chain.convolutions]
    words = []
    for what in ("padding", "stride"):
        values = [str(getattr(choice, what)) for _, choice in convolutions]
        words.append(f"{what} {values[0] if len(set(values)) == 1 else ', '.join(values)}")
    pooled = [layer.name for layer, choice in convolutions if POOL in choice.between]
    if pooled:
        words.append(f"2×2 max pooling behind {_and(pooled)}")
    if any(GLOBAL in choice.between for _, choice in convolutions):
        words.append("global average pooling")
    return "; ".join(words)


def _doubt(
    chain: Chain,
    input_shape: tuple[int, ...],
    file: str,
    found: Sequence[tuple[LayerConvention, ...]],
) -> UserError:
    """Why none of these ways (two, or none) is taken."""
    if not chain.convolutions:
        first = chain.weighted[0]
        return UserError(
            f"{file} takes {first.shape[1]} inputs, but these examples have {flat(input_shape)[0]}."
        )
    if len(input_shape) != 3:
        return UserError(f"{file} takes images, but these examples are vectors.")
    if input_shape[0] != chain.weighted[0].shape[1]:
        return UserError(
            f"{file} takes images with {chain.weighted[0].shape[1]} channels, but these have "
            f"{input_shape[0]}."
        )
    inputs = chain.weighted[chain.convolutions]
    what = f"from {_sides(input_shape)} to the {inputs.shape[1]:,} inputs of layer {inputs.name}"
    if not found:
        return UnnamedNetwork(
            f"{file} is a numbered sequence, but no usual padding, stride and pooling lead {what}."
        )
    one, other = (_ways(chain, choices) for choices in found)
    return UnnamedNetwork(
        f"{file} is a numbered sequence, and more than one usual padding, stride and pooling lead "
        f"{what} ({one}; or {other})."
    )


def _sides(shape: tuple[int, ...]) -> str:
    return "×".join(str(side) for side in shape)


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
