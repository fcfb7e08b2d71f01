"""The gate layers of a network as its events describe them."""

from __future__ import annotations

from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.training import LayerInfo


def layer_infos(architecture: Architecture) -> tuple[LayerInfo, ...]:
    """Return name, kind and shape of each gate layer, in order."""
    pairs = zip(architecture.gate_names, architecture.gated_shapes, strict=True)
    return tuple(
        LayerInfo(index, name, "conv" if len(shape) == 3 else "dense", shape)
        for index, (name, shape) in enumerate(pairs)
    )
