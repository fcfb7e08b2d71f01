"""A network as events describe it: its gate layers, and how many numbers it learns."""

from __future__ import annotations

from torch import nn

from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.training import LayerInfo


def layer_infos(architecture: Architecture) -> tuple[LayerInfo, ...]:
    pairs = zip(architecture.gate_names, architecture.gated_shapes, strict=True)
    return tuple(
        LayerInfo(index, name, "conv" if len(shape) == 3 else "dense", shape)
        for index, (name, shape) in enumerate(pairs)
    )


def count_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
