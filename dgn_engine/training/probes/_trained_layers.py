"""The weight layers that a run trains, network by network, and what a pass through them costs."""

from __future__ import annotations

from math import prod

from torch import Tensor

from dgn_engine.model.architecture import Architecture, Conv
from dgn_engine.model.network import GatedNetwork


def trained_layers(network: GatedNetwork) -> dict[str, list[Tensor]]:
    """The weights (without biases) of 'value' and 'feature', as far as steps change them; the
    feature network that is kept aside while the other one gates itself is not among them."""
    parts = {"value": network.value}
    if not network.own_gates and not network.drawn_gates:
        parts["feature"] = network.feature
    found = {name: list(stack.weights) for name, stack in parts.items()}
    return {name: each for name, each in found.items() if each[0].requires_grad}


def pass_cost(architecture: Architecture, examples: int) -> float:
    """Floating-point operations of one forward pass of one network."""
    cost = 0.0
    for node, shape in architecture.shapes():
        if isinstance(node, Conv):
            weights = node.outputs * node.inputs * node.kernel**2
            cost += 2.0 * examples * weights * prod(shape[1:])
    for layer in architecture.weighted:
        if not isinstance(layer, Conv):
            cost += 2.0 * examples * layer.inputs * layer.outputs
    return cost
