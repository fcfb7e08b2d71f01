"""GCONV of [NPF]: conv 64, 64, 128, 128, global average pooling, two gated dense 256, output."""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine.model.architecture import Architecture, GlobalAveragePool
from dgn_engine.model.nets._net import Net, conv_chain, dense_chain, image_channels
from dgn_engine.plugins import OptionValue, PluginOption


def build(
    input_shape: tuple[int, ...], classes: int, options: Mapping[str, OptionValue]
) -> Architecture:
    """Build the architecture.

    Args:
        input_shape: Shape of the images, (C, H, W).
        classes: Number of logits.
        options: 'stride'.

    Returns:
        The architecture.
    """
    inputs = image_channels("gconv", input_shape)
    convs = conv_chain(inputs, (64, 64, 128, 128), int(options["stride"]))
    head = dense_chain(128, 256, 2, classes)
    return Architecture(input_shape, (*convs, GlobalAveragePool(), *head))


NET = Net(
    title="GCONV (pooling, 2 × dense 256)",
    build=build,
    options=(PluginOption("stride", "stride", 1, least=1, most=4),),
)
