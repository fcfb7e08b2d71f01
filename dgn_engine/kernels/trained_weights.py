"""Which weights a tangent kernel is over, in words: for panels, files and printed results."""

from __future__ import annotations

from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import NormParameters


def trained_weights(network: GatedNetwork, folded: bool = False) -> str:
    """One sentence, 'K = K^V + K^F, over Θ^v and Θ^f.', for `tangent_kernels(network, …)`."""
    trains = network.trains or ("value", "feature")
    given = not network.own_gates
    soft = network.gate.soft
    over_feature = given and soft and "feature" in trains and not network.drawn_gates
    over_value = not given or "value" in trains
    parts = ["K^V"] * over_value + ["K^F"] * (over_feature or (soft and not given))
    parts += ["K^X"] * (soft and not given)
    stacks = [network.value] * over_value + [network.feature] * over_feature
    names = "Θ" if not given else " and ".join(["Θ^v"] * over_value + ["Θ^f"] * over_feature)
    words = f"K = {' + '.join(parts)}, over {names}"
    layers = [layer for stack in stacks for layer in stack.layer_parameters()]
    if any(layer.norms or layer.scale is not None for layer in layers):
        words += _of_layers([norm for layer in layers for norm in layer.norms], folded)
    if any(stack.frozen for stack in stacks):
        words += ", without those that are frozen"
    return words + (", as if all were trained." if network.trains is None else ".")


def _of_layers(norms: list[NormParameters], folded: bool) -> str:
    if folded:
        return ", its folded weights" + (" (BatchNorm is in them)" if norms else "")
    if any(norm.shift for norm in norms):
        return " with γ and shifts of BatchNorm (its statistics are constants)"
    if norms:  # a value network under the gates of another is not normalised
        return " with a γ of each channel"
    return " before their constant factors"
