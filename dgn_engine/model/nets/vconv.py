"""VCONV of [NPF]: conv 64, 64, 128, 128, flatten, two gated dense 256, output."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from dgn_engine.model.architecture import Architecture, Dense, Flatten, GlobalAveragePool
from dgn_engine.model.nets._net import Net, conv_chain, dense_chain, image_channels
from dgn_engine.plugins import OptionValue, PluginOption


def build(
    input_shape: tuple[int, ...], classes: int, options: Mapping[str, OptionValue]
) -> Architecture:
    """Build GCONV with flattening instead of pooling; the stride is an option (theory §8).

    Args:
        input_shape: Shape of the images, (C, H, W).
        classes: Number of logits.
        options: 'stride'.

    Returns:
        The architecture.
    """
    inputs = image_channels("vconv", input_shape)
    convs = conv_chain(inputs, (64, 64, 128, 128), int(options["stride"]))
    probe = Architecture(input_shape, (*convs, GlobalAveragePool(), Dense(128, 1, gated=False)))
    flattened = prod(probe.gated_shapes[-1])
    head = dense_chain(flattened, 256, 2, classes)
    return Architecture(input_shape, (*convs, Flatten(), *head))


NET = Net(
    title="VCONV (flatten, 2 × dense 256)",
    build=build,
    options=(PluginOption("stride", "stride", 1, least=1, most=4),),
)
