"""Tiling: the value network with k times as many units in a layer as the feature network has."""

from __future__ import annotations

from dataclasses import replace

from dgn_engine.errors import UserError, Where
from dgn_engine.model.architecture import Architecture, Conv, Dense, Fork, Gating, Node, Skip


def tiled(architecture: Architecture, tiling: tuple[int, ...]) -> Architecture:
    """Gated layer l with tiling[l] times its units (channels); the layers around it follow.

    The papers say 'arbitrary tiling' and do not define it; this is our definition (THEORY §1).
    Raises `UserError` where the numbers do not fit the layers, or a skip ties two widths together.
    """
    layers = len(architecture.gated_shapes)
    if len(tiling) != layers or min(tiling, default=1) < 1:
        raise UserError(
            Where("gating.tiling")
            + f" is {list(tiling)}; it needs a whole number of at least 1 for each of the {layers} "
            "gate layers.",
            kind="wrong-length",
            value=list(tiling),
        )
    nodes: list[Node] = []
    kept: list[int] = []
    before, place = 1, 0
    for node in architecture.nodes:
        if isinstance(node, Fork):
            kept.append(before)
        elif isinstance(node, Skip):
            before = kept.pop()
        elif isinstance(node, Gating):
            if tiling[place] != before:  # it has the units of the layers that are added
                raise UserError(
                    f"gating.tiling gives gate layer {place + 1} the number {tiling[place]}, but "
                    f"it stands behind an addition of layers with {before}; the numbers must be "
                    "equal.",
                    kind="tiled",
                )
            place += 1
        elif isinstance(node, (Dense, Conv)):
            after = tiling[place] if node.gated else 1
            node = replace(node, inputs=node.inputs * before, outputs=node.outputs * after)
            place += node.gated
            before = after
        nodes.append(node)
    return replace(architecture, nodes=tuple(nodes))
