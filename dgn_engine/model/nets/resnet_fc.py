"""Residual blocks of dense layers, z ← γ_post·(γ_pre·block(z) + z), b times ([COMP], theory §3).

Each block has d_blk gated layers; one precedes the b blocks with a skip and one follows them, with
d_blk − 1 gated layers and the output layer. H is then a sum over 2^b sub-networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from dgn_engine.model.architecture import Architecture, Dense, Fork, Merge, Node
from dgn_engine.model.nets._net import Net, dense_chain
from dgn_engine.plugins import OptionValue, PluginOption


def build(
    input_shape: tuple[int, ...], classes: int, options: Mapping[str, OptionValue]
) -> Architecture:
    """Build the architecture, with (b + 2)·d_blk weight layers on the flattened input.

    Args:
        input_shape: Shape of one example.
        classes: Number of logits.
        options: 'blocks' b, 'depth' d_blk, 'width', 'pre' (γ_pre) and 'post' (γ_post).

    Returns:
        The architecture.
    """
    blocks, depth, width = (int(options[name]) for name in ("blocks", "depth", "width"))
    merge = Merge(float(options["pre"]), float(options["post"]))
    inputs = prod(input_shape)
    inner = (Dense(width, width),) * depth
    block: tuple[Node, ...] = (Fork(), *inner, merge)
    nodes: tuple[Node, ...] = (
        Dense(inputs, width),
        *inner[1:],
        *block * blocks,
        *dense_chain(width, width, depth - 1, classes),
    )
    return Architecture((inputs,), nodes)


NET = Net(
    title="ResNet of dense blocks",
    build=build,
    options=(
        PluginOption("blocks", "residual blocks", 4, least=1, most=64),
        PluginOption("depth", "layers per block", 2, least=1, most=32),
        PluginOption("width", "width", 128, least=1, most=65536),
        PluginOption("pre", "γ_pre (before the addition)", 1.0, least=0.0, most=1000.0),
        PluginOption("post", "γ_post (after the addition)", 1.0, least=0.001, most=1000.0),
    ),
)
