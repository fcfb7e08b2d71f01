"""C4GAP of [DUAL], experiment 1: four 3×3 convolutions, global average pooling, one dense layer.

128 filters, stride 1, zero padding; arXiv:2110.03403 §5.
"""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine.model.architecture import Architecture, Dense, GlobalAveragePool
from dgn_engine.model.nets._net import Net, conv_chain, image_channels
from dgn_engine.plugins import OptionValue, PluginOption


def build(
    input_shape: tuple[int, ...], classes: int, options: Mapping[str, OptionValue]
) -> Architecture:
    """Build the architecture.

    Args:
        input_shape: Shape of the images, (C, H, W).
        classes: Number of logits.
        options: 'channels' and 'stride'.

    Returns:
        The architecture.
    """
    channels, stride = int(options["channels"]), int(options["stride"])
    convs = conv_chain(image_channels("cnn4", input_shape), (channels,) * 4, stride)
    head = (GlobalAveragePool(), Dense(channels, classes, gated=False))
    return Architecture(input_shape, (*convs, *head))


NET = Net(
    title="4 convolutions + pooling",
    build=build,
    options=(
        PluginOption("channels", "channels", 32, least=1, most=4096),  # 128 in the paper
        PluginOption("stride", "stride", 1, least=1, most=4),
    ),
)
