"""Tiling: the value network with k times as many units in a layer as the feature network has."""

from __future__ import annotations

from dataclasses import replace

from dgn_engine.architecture import Architecture, Conv, Dense, Node
from dgn_engine.refusal import Refusal


def widened(architecture: Architecture, tiling: tuple[int, ...]) -> Architecture:
    """Gated layer l with tiling[l] times its units (channels); the layers around it follow.

    The papers say 'arbitrary tiling' and do not define it; this is our definition (THEORY §1).
    Raises `Refusal` where the numbers do not fit the layers, or a skip ties two widths together.
    """
    layers = len(architecture.gated_shapes)
    if len(tiling) != layers or min(tiling, default=1) < 1:
        raise Refusal(
            f"gating.tiling is {list(tiling)}; it needs a whole number of at least 1 for each of "
            f"the {layers} gate layers."
        )
    nodes: list[Node] = []
    before, place = 1, 0
    for node in architecture.nodes:
        if isinstance(node, (Dense, Conv)):
            after = tiling[place] if node.gated else 1
            node = replace(node, inputs=node.inputs * before, outputs=node.outputs * after)
            place += node.gated
            before = after
        nodes.append(node)
    return replace(architecture, nodes=tuple(nodes))
