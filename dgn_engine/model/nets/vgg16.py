"""VGG-16 for small images: 13 convolutions with batch normalisation, then one dense layer.

Simonyan & Zisserman 2014 (arXiv:1409.1556), configuration D, with the three dense layers replaced
by one, as usual for CIFAR. [DUAL] compares it as DNN, DGN and DLGN. Its maxima would be one more
gate, and a feature network with linear features would not be linear, so pooling takes means; the
fifth pooling is the global one.
"""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine.model import architecture as arch
from dgn_engine.model.nets._net import Net, image_channels
from dgn_engine.plugins import OptionValue, PluginOption

STAGES = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))  # widths in multiples of the first; convolutions


def build(
    input_shape: tuple[int, ...], classes: int, options: Mapping[str, OptionValue]
) -> arch.Architecture:
    """Build the architecture; maps of a single row or column are not pooled further.

    Args:
        input_shape: Shape of the images, (C, H, W).
        classes: Number of logits.
        options: 'width'.

    Returns:
        The architecture.
    """
    inputs, side = image_channels("vgg16", input_shape), min(input_shape[1:])
    nodes: list[arch.Node] = []
    for stage, (multiple, convolutions) in enumerate(STAGES):
        if stage and side > 1:
            nodes.append(arch.AveragePool())
            side //= 2
        outputs = multiple * int(options["width"])
        for _ in range(convolutions):
            nodes.append(arch.Conv(inputs, outputs, normal=True))
            inputs = outputs
    head = (arch.GlobalAveragePool(), arch.Dense(inputs, classes, gated=False))
    return arch.Architecture(input_shape, (*nodes, *head))


NET = Net(
    title="VGG-16 for small images (batch normalisation)",
    build=build,
    options=(PluginOption("width", "width of first stage (published: 64)", 64, least=1, most=512),),
)
