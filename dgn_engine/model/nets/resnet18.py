"""ResNet-18 for small images: torchvision's blocks, with a gate after each addition.

He et al. 2015, arXiv:1512.03385, without BatchNorm: a 3×3 convolution, then stages of two blocks;
from the second stage on the first block halves the sides and doubles the width (its skip is a 1×1
convolution), then global average pooling. The published width is 64. Without BatchNorm a sum of
two branches has twice the variance of one; γ_post = 1/√2 compensates without moving any gate.
"""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine.model import architecture as arch
from dgn_engine.model.nets._net import Net, image_channels
from dgn_engine.plugins import OptionValue, PluginOption


def build(
    input_shape: tuple[int, ...], classes: int, options: Mapping[str, OptionValue]
) -> arch.Architecture:
    """Build the architecture, with 1 + 4·stages gate layers, 2·stages of them after an addition.

    Args:
        input_shape: Shape of the images, (C, H, W).
        classes: Number of logits.
        options: 'width', 'stages' and 'post' (γ_post).

    Returns:
        The architecture.
    """
    width, stages = int(options["width"]), int(options["stages"])
    nodes: list[arch.Node] = [arch.Conv(image_channels("resnet18", input_shape), width)]
    for stage in range(stages):
        before, width = width, width * (2 if stage else 1)
        stride = 2 if stage else 1
        nodes += _block(before, width, stride, float(options["post"]))
        nodes += _block(width, width, 1, float(options["post"]))
    return arch.Architecture(
        input_shape, (*nodes, arch.GlobalAveragePool(), arch.Dense(width, classes, gated=False))
    )


def _block(inputs: int, width: int, stride: int, post: float) -> tuple[arch.Node, ...]:
    branch = (arch.Conv(inputs, width, stride=stride), arch.Conv(width, width, gated=False))
    skip: tuple[arch.Node, ...] = ()
    if stride > 1:
        skip = (
            arch.Skip(),
            arch.Conv(inputs, width, kernel=1, stride=stride, padding=0, gated=False),
        )
    return (arch.Fork(), *branch, *skip, arch.Merge(post=post), arch.Gating())


NET = Net(
    title="ResNet-18 for small images",
    build=build,
    options=(
        PluginOption("width", "width of first stage (published: 64)", 16, least=1, most=1024),
        PluginOption("stages", "stages of two blocks (published: 4)", 4, least=1, most=4),
        PluginOption("post", "γ_post (1/√2 preserves variance)", 0.5**0.5, least=0.001, most=10.0),
    ),
)
