"""In sentences: what was assumed of a numbered sequence, or why nothing could be."""

from __future__ import annotations

from collections.abc import Sequence

from dgn_engine.model.importing.conventions import GLOBAL, POOL, LayerConvention, flat
from dgn_engine.model.importing.numbered_keys import NumberedSequence as Chain


def assumed(chain: Chain, choices: Sequence[LayerConvention], input_shape: tuple[int, ...]) -> str:
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


def doubt(
    chain: Chain,
    input_shape: tuple[int, ...],
    file: str,
    found: Sequence[tuple[LayerConvention, ...]],
) -> str:
    """Why none of these ways (two, or none) is taken."""
    if not chain.convolutions:
        first = chain.weighted[0]
        return (
            f"{file} takes {first.shape[1]} inputs, but these examples have {flat(input_shape)[0]}."
        )
    if len(input_shape) != 3:
        return f"{file} takes images, but these examples are vectors."
    if input_shape[0] != chain.weighted[0].shape[1]:
        return (
            f"{file} takes images with {chain.weighted[0].shape[1]} channels, but these have "
            f"{input_shape[0]}."
        )
    inputs = chain.weighted[chain.convolutions]
    what = f"from {_sides(input_shape)} to the {inputs.shape[1]:,} inputs of layer {inputs.name}"
    if not found:
        return (
            f"{file} is a numbered sequence, but no usual padding, stride and pooling lead {what}; "
            "name the network with --net."
        )
    one, other = (_ways(chain, choices) for choices in found)
    return (
        f"{file} is a numbered sequence, and more than one usual padding, stride and pooling lead "
        f"{what} ({one}; or {other}): name the network with --net."
    )


def _sides(shape: tuple[int, ...]) -> str:
    return "×".join(str(side) for side in shape)


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
