"""ResNet-110 for CIFAR: three stages of 18 blocks with batch normalisation, a gate after each sum.

He et al. 2015 (arXiv:1512.03385) §4.2: 6n + 2 layers, n = 18. [DUAL] compares it as DNN, DGN and
DLGN. Skips that change the width are 1×1 convolutions (their option B). A value network under the
gates of another has no BatchNorm: with γ_pre = 1 its 54 blocks make logits of 10³ to 10⁸ at
initialisation. They are of order 1 with 0.3; if the gates are shuffled, and so independent in
successive sums, with 1/√2, for which ½(1 + 2γ²) = 1. Where there is BatchNorm, γ learns it.
"""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine.model import architecture as arch
from dgn_engine.model.nets._net import Net, image_channels
from dgn_engine.plugins import OptionValue, PluginOption

STAGES = 3


def build(
    input_shape: tuple[int, ...], classes: int, options: Mapping[str, OptionValue]
) -> arch.Architecture:
    """Build the architecture, with widths w, 2w, 4w and 1 + 6n gate layers.

    Args:
        input_shape: Shape of the images, (C, H, W).
        classes: Number of logits.
        options: 'width', 'blocks' (n per stage) and 'pre' (γ_pre).

    Returns:
        The architecture.
    """
    width, pre = int(options["width"]), float(options["pre"])
    channels = image_channels("resnet110", input_shape)
    nodes: list[arch.Node] = [arch.Conv(channels, width, normal=True)]
    for stage in range(STAGES):
        for block in range(int(options["blocks"])):
            before, width = width, width * (2 if stage and not block else 1)
            nodes += _block(before, width, pre)
    head = (arch.GlobalAveragePool(), arch.Dense(width, classes, gated=False))
    return arch.Architecture(input_shape, (*nodes, *head))


def _block(inputs: int, width: int, pre: float) -> tuple[arch.Node, ...]:
    stride = 2 if width > inputs else 1
    branch = (
        arch.Conv(inputs, width, stride=stride, normal=True),
        arch.Conv(width, width, gated=False, normal=True),
    )
    skip: tuple[arch.Node, ...] = ()
    if stride > 1:
        project = arch.Conv(inputs, width, 1, stride, padding=0, gated=False, normal=True)
        skip = (arch.Skip(), project)
    return (arch.Fork(), *branch, *skip, arch.Merge(pre=pre), arch.Gating())


NET = Net(
    title="ResNet-110 for small images (batch normalisation)",
    build=build,
    options=(
        PluginOption("width", "width of first stage (published: 16)", 16, least=1, most=256),
        PluginOption("blocks", "blocks per stage (published: 18)", 18, least=1, most=200),
        PluginOption("pre", "γ_pre (published: 1)", 0.3, 0.001, 10.0),
    ),
)
