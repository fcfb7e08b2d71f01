"""The gated layers of a network as the viewer is told of them."""

from __future__ import annotations

from dgn_engine.architecture import Architecture, Conv, Weighted
from dgn_engine.protocol.events import LayerInfo


def layer_infos(architecture: Architecture) -> tuple[LayerInfo, ...]:
    """One for each gate layer, in order."""

    def kind(layer: Weighted) -> str:
        return "conv" if isinstance(layer, Conv) else "dense"

    pairs = zip(architecture.weighted, architecture.gated_shapes, strict=False)
    return tuple(
        LayerInfo(index, f"{kind(layer)} {index + 1}", kind(layer), shape)
        for index, (layer, shape) in enumerate(pairs)
    )
