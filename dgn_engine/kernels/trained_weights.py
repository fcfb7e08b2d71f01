"""A sentence that says which weights a tangent kernel is over, for panels, files and output."""

from __future__ import annotations

from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import NormParameters


def trained_weights(network: GatedNetwork, folded: bool = False) -> str:
    """Describe which weights `tangent_kernels(network)` is over.

    Args:
        network: The network.
        folded: As for `tangent_kernels`.

    Returns:
        A sentence such as 'K = K^V + K^F, over Θ^v and Θ^f.'
    """
    trains = network.trains or ("value", "feature")
    given = not network.own_gates
    soft = network.gate.soft
    over_feature = given and soft and "feature" in trains and not network.drawn_gates
    over_value = not given or "value" in trains
    parts = ["K^V"] * over_value + ["K^F"] * (over_feature or (soft and not given))
    parts += ["K^X"] * (soft and not given)
    stacks = [network.value] * over_value + [network.feature] * over_feature
    names = "Θ" if not given else " and ".join(["Θ^v"] * over_value + ["Θ^f"] * over_feature)
    sentence = f"K = {' + '.join(parts)}, over {names}"
    layers = [layer for stack in stacks for layer in stack.layer_parameters()]
    if any(layer.norms or layer.scale is not None for layer in layers):
        sentence += _describe_layers([norm for layer in layers for norm in layer.norms], folded)
    if any(stack.is_partly_frozen for stack in stacks):
        sentence += ", except frozen ones"
    return sentence + (", all assumed trained." if network.trains is None else ".")


def _describe_layers(norms: list[NormParameters], folded: bool) -> str:
    """Describe what is trained besides weights."""
    if folded:
        return ", its folded weights" + (" (including BatchNorm)" if norms else "")
    if any(norm.shift for norm in norms):
        return " with γ and shifts of BatchNorm (statistics held constant)"
    if norms:  # a value network under another network's gates is not normalised
        return " with a γ per channel"
    return " before their constant factors"
