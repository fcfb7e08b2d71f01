"""The description of a network plug-in: its options and how to build its architecture."""

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
    """A network plug-in.

    Attributes:
        title: Title in menus.
        build: Function (input_shape, classes, options) that returns the architecture, for images
          (C, H, W) or vectors.
        options: Its options.
        stackable: Whether sweeps can train many copies as one stack.
    """

    title: str
    build: Build
    options: tuple[PluginOption, ...] = ()
    stackable: bool = False  # a plain chain of dense layers, which sweeps train many of as a stack


def dense_chain(inputs: int, width: int, hidden: int, classes: int) -> tuple[Node, ...]:
    """Return gated dense layers and an output layer.

    Args:
        inputs: Number of inputs.
        width: Width of the hidden layers.
        hidden: Number of gated layers.
        classes: Number of logits.

    Returns:
        The nodes.
    """
    sizes = (inputs, *[width] * hidden)
    gated = [Dense(a, b) for a, b in pairwise(sizes)]
    return (*gated, Dense(sizes[-1], classes, gated=False))


def conv_chain(inputs: int, channels: tuple[int, ...], stride: int) -> tuple[Node, ...]:
    """Return gated 3×3 convolutions with zero padding 1.

    Args:
        inputs: Input channels.
        channels: Output channels of each layer.
        stride: Stride of all layers.

    Returns:
        The nodes.
    """
    sizes = (inputs, *channels)
    return tuple(Conv(a, b, stride=stride) for a, b in pairwise(sizes))


def image_channels(name: str, input_shape: tuple[int, ...]) -> int:
    """Return the number of channels of images.

    Args:
        name: Name of the network, for the message.
        input_shape: Shape of one example.

    Returns:
        C of (C, H, W).

    Raises:
        UserError: The examples are vectors.
    """
    if len(input_shape) != 3:
        raise UserError(
            f"Network '{name}' needs images, but the data are vectors; use 'fc' instead.",
            kind="not-images",
        )
    return input_shape[0]
