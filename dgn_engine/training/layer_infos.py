"""Describe a network for events: its gate layers and its number of parameters."""

from __future__ import annotations

from torch import nn

from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.training import LayerInfo


def layer_infos(architecture: Architecture) -> tuple[LayerInfo, ...]:
    """Return the gate layers of a network.

    Args:
        architecture: Architecture of the network.

    Returns:
        Index, name, kind and shape of each.
    """
    pairs = zip(architecture.gate_names, architecture.gated_shapes, strict=True)
    return tuple(
        LayerInfo(index, name, "conv" if len(shape) == 3 else "dense", shape)
        for index, (name, shape) in enumerate(pairs)
    )


def count_parameters(network: nn.Module) -> int:
    """Return the number of parameters.

    Args:
        network: Any module.

    Returns:
        Numbers in all its parameters.
    """
    return sum(parameter.numel() for parameter in network.parameters())
