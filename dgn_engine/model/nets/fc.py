"""Fully connected: d weight layers, d − 1 gated hidden layers of w units (theory §1)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from dgn_engine.model.architecture import Architecture
from dgn_engine.model.nets._net import Net, dense_chain
from dgn_engine.plugins import OptionValue, PluginOption


def build(
    input_shape: tuple[int, ...], classes: int, options: Mapping[str, OptionValue]
) -> Architecture:
    """Build the architecture on the flattened input.

    Args:
        input_shape: Shape of one example.
        classes: Number of logits.
        options: 'width' w and 'depth' d.

    Returns:
        The architecture.
    """
    width, depth = int(options["width"]), int(options["depth"])
    inputs = prod(input_shape)
    return Architecture((inputs,), dense_chain(inputs, width, depth - 1, classes))


NET = Net(
    title="Fully connected",
    build=build,
    options=(
        PluginOption("width", "width", 128, least=1, most=65536),
        PluginOption("depth", "depth (weight layers)", 6, least=2, most=200),
    ),
    stackable=True,
)
