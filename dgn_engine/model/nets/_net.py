"""What a network plug-in offers: its form and how it becomes an architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture, Conv, Dense, Node
from dgn_engine.plugins import OptionValue, PluginOption

Build = Callable[[tuple[int, ...], int, Mapping[str, OptionValue]], Architecture]


@dataclass(frozen=True)
class Net:
    """A network: `build(input_shape, classes, options)` for images of (C, H, W) or vectors."""

    title: str
    build: Build
    options: tuple[PluginOption, ...] = ()
    stackable: bool = False  # a plain chain of dense layers: sweeps train many as one stack


def dense_chain(inputs: int, width: int, hidden: int, classes: int) -> tuple[Node, ...]:
    """`hidden` gated dense layers of `width`, then the output layer."""
    sizes = (inputs, *[width] * hidden)
    gated = [Dense(a, b) for a, b in pairwise(sizes)]
    return (*gated, Dense(sizes[-1], classes, gated=False))


def conv_chain(inputs: int, channels: tuple[int, ...], stride: int) -> tuple[Node, ...]:
    """Gated 3×3 convolutions with zero padding 1."""
    sizes = (inputs, *channels)
    return tuple(Conv(a, b, stride=stride) for a, b in pairwise(sizes))


def image_channels(name: str, input_shape: tuple[int, ...]) -> int:
    """The channels of (C, H, W) images; refuses vectors."""
    if len(input_shape) != 3:
        raise UserError(
            f"Network '{name}' needs images, but the data are vectors; choose 'fc'.",
            kind="not-images",
        )
    return input_shape[0]
