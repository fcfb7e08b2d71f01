"""The weight layers that a run trains, and the cost of a pass through a network."""

from __future__ import annotations

from math import prod

from torch import Tensor

from dgn_engine.model.architecture import Architecture, Conv
from dgn_engine.model.network import GatedNetwork


def trained_layers(network: GatedNetwork) -> dict[str, list[Tensor]]:
    """Return the weights, without biases, that training steps change.

    The feature network does not count while the value network makes its own gates.

    Args:
        network: The network.

    Returns:
        Weights per layer under 'value' and 'feature', without frozen networks.
    """
    parts = {"value": network.value}
    if not network.own_gates and not network.drawn_gates:
        parts["feature"] = network.feature
    weights = {name: list(stack.weights) for name, stack in parts.items()}
    return {name: layers for name, layers in weights.items() if layers[0].requires_grad}


def pass_cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of a forward pass of one network.

    Args:
        architecture: Architecture of the network.
        examples: Number of examples.

    Returns:
        FLOP.
    """
    cost = 0.0
    for node, shape in architecture.shapes():
        if isinstance(node, Conv):
            weights = node.outputs * node.inputs * node.kernel**2
            cost += 2.0 * examples * weights * prod(shape[1:])
    for layer in architecture.weight_layers:
        if not isinstance(layer, Conv):
            cost += 2.0 * examples * layer.inputs * layer.outputs
    return cost
