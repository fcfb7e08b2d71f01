"""DavidNet, the 9-layer ResNet with batch normalisation of [COMP].

As published by D. Page (github.com/davidcpage/cifar10-fast): conv-bn-ReLU, two residual blocks,
global max pooling, logits × 0.125.
"""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine.model import architecture as arch
from dgn_engine.model.nets._net import Net, image_channels
from dgn_engine.plugins import OptionValue, PluginOption

LOGITS = 0.125


def build(
    input_shape: tuple[int, ...], classes: int, options: Mapping[str, OptionValue]
) -> arch.Architecture:
    """Build the architecture, with widths w, 2w, 4w, 8w.

    Three max poolings halve the maps, so images need at least 8×8 pixels.

    Args:
        input_shape: Shape of the images, (C, H, W).
        classes: Number of logits.
        options: 'width'.

    Returns:
        The architecture.
    """
    w = int(options["width"])
    nodes = (
        arch.Conv(image_channels("davidnet", input_shape), w, normal=True),
        arch.Conv(w, 2 * w, normal=True),
        arch.MaxPool(),
        *_residual(2 * w),
        arch.Conv(2 * w, 4 * w, normal=True),
        arch.MaxPool(),
        arch.Conv(4 * w, 8 * w, normal=True),
        arch.MaxPool(),
        *_residual(8 * w),
        arch.GlobalMaxPool(),
        arch.Dense(8 * w, classes, gated=False, factor=LOGITS),
    )
    return arch.Architecture(input_shape, nodes)


def _residual(channels: int) -> tuple[arch.Node, ...]:
    """Return a block z + two gated layers of z, without a gate after the addition."""
    layer = arch.Conv(channels, channels, normal=True)
    return (arch.Fork(), layer, layer, arch.Merge())


NET = Net(
    title="DavidNet (ResNet-9, batch normalisation)",
    build=build,
    options=(PluginOption("width", "width (published: 64)", 64, least=1, most=1024),),
)
