"""The gated layers of a network as the viewer is told of them."""

from __future__ import annotations

from dgn_engine.model.architecture import Architecture, Gating
from dgn_engine.protocol.events import LayerInfo


def layer_infos(architecture: Architecture) -> tuple[LayerInfo, ...]:
    """One for each gate layer, in order; 'sum' is the gate after an addition."""
    pairs = zip(architecture.gated, architecture.gated_shapes, strict=True)
    infos = []
    for index, (node, shape) in enumerate(pairs):
        kind = "conv" if len(shape) == 3 else "dense"
        word = "sum" if isinstance(node, Gating) else kind
        infos.append(LayerInfo(index, f"{word} {index + 1}", kind, shape))
    return tuple(infos)
