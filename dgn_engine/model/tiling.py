"""Tiling: a value network with k times as many units per layer as the feature network."""

from __future__ import annotations

from dataclasses import replace

from dgn_engine.errors import UserError, Where
from dgn_engine.model.architecture import Architecture, Conv, Dense, Fork, Gating, Node, Skip


def tile_architecture(architecture: Architecture, tiling: tuple[int, ...]) -> Architecture:
    """Widen the gated layers of an architecture.

    The papers mention 'arbitrary tiling' without defining it; this is our definition (theory §1).

    Args:
        architecture: The feature network.
        tiling: Factor of the units (channels) of each gate layer.

    Returns:
        The value network.

    Raises:
        UserError: The factors do not fit the layers, or a skip ties two different widths.
    """
    layers = len(architecture.gated_shapes)
    if len(tiling) != layers or min(tiling, default=1) < 1:
        raise UserError(
            Where("gating.tiling")
            + f" is {list(tiling)}; expected one integer ≥ 1 for each of the {layers} gate layers.",
            kind="wrong-length",
            value=list(tiling),
        )
    nodes: list[Node] = []
    fork_tilings: list[int] = []
    before, layer = 1, 0
    for node in architecture.nodes:
        if isinstance(node, Fork):
            fork_tilings.append(before)
        elif isinstance(node, Skip):
            before = fork_tilings.pop()
        elif isinstance(node, Gating):
            if tiling[layer] != before:  # the sum has as many units as its summands
                raise UserError(
                    f"gating.tiling is {tiling[layer]} for gate layer {layer + 1}, but {before} "
                    "for the layers that are added before it; the numbers must be equal.",
                    kind="tiled",
                )
            layer += 1
        elif isinstance(node, (Dense, Conv)):
            after = tiling[layer] if node.gated else 1
            node = replace(node, inputs=node.inputs * before, outputs=node.outputs * after)
            layer += node.gated
            before = after
        nodes.append(node)
    return replace(architecture, nodes=tuple(nodes))
