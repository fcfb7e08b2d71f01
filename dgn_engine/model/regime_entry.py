"""Changing the regime of a network: which weights are redrawn, copied or frozen (theory §1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dgn_engine.errors import UserError
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.regimes import Regime

VALUE, FEATURE = "value weights", "feature weights"


@dataclass(frozen=True)
class RegimeChange:
    """The effect of a change of regime on each group of weights.

    The groups are 'value weights' and 'feature weights'. A group that was redrawn or copied loses
    its optimiser state.

    Attributes:
        kept: Groups that are unchanged.
        frozen: Groups that are not trained.
        redrawn: Groups that were redrawn.
        copied: Groups that were copied from the other network.
    """

    kept: tuple[str, ...]
    frozen: tuple[str, ...]
    redrawn: tuple[str, ...]
    copied: tuple[str, ...]


def enter_regime(
    network: GatedNetwork,
    before: Regime | None,
    after: Regime,
    draw: Callable[[Stack], None],
    restart_value: bool = False,
) -> RegimeChange:
    """Put a network into a regime.

    At the start of a run both networks have just been initialised, so only what a regime ties
    together is changed.

    Args:
        network: The network.
        before: The current regime; `None` at the start of a run.
        after: The new regime.
        draw: Function that initialises a network with random weights.
        restart_value: Whether to redraw Θ^v in a regime that takes learnt gates.

    Returns:
        What happened to each group of weights.

    Raises:
        UserError: Weights would have to be copied between different networks.
    """
    fresh = before is None
    redrawn: list[str] = []
    copied: list[str] = []
    check_entry(network, before, after)  # before anything changes
    if _copies_own_gates(before, after):
        copy_weights(network.value, network.feature)
        copied.append(f"{FEATURE} (from the value network)")
    if after.on_entry in ("redraw", "redraw-both") and not fresh:
        draw(network.feature)
        redrawn.append(FEATURE)
    restarts = after.on_entry in ("share-redrawn", "redraw-both")
    if (restarts or (after.takes_gates and restart_value)) and not fresh:
        draw(network.value)
        redrawn.append(VALUE)
    if after.on_entry == "share-redrawn":
        copy_weights(network.value, network.feature)
        copied.append(f"{FEATURE} (from the value network)")
    configure_for(network, after)
    return _describe_change(after, tuple(redrawn), tuple(copied))


def check_entry(network: GatedNetwork, before: Regime | None, after: Regime) -> None:
    """Check that a regime can be entered.

    Args:
        network: The network.
        before: The current regime; `None` at the start of a run.
        after: The new regime.

    Raises:
        UserError: Weights would have to be copied between different networks.
    """
    copies = _copies_own_gates(before, after) or after.on_entry == "share-redrawn"
    if copies and network.feature.architecture.is_parallel:
        raise UserError(
            f"Here {after.name} would start with the value weights as feature weights, but "
            "parallel feature layers read the input, not the layer before. Choose FR-II, which "
            "draws them, or start a run with feature layers in a chain.",
            kind="parallel",
        )
    if copies and network.value.architecture != network.feature.architecture:
        raise UserError(
            "With tiled gates the value network is wider than the feature network, so weights "
            "cannot be copied between them; choose FR-II or DL, or start a run without tiling.",
            kind="tiled",
        )


def _copies_own_gates(before: Regime | None, after: Regime) -> bool:
    """Check whether Θ^f becomes a copy of a network that made its own gates."""
    return before is not None and before.own_gates and after.on_entry == "keep"


def configure_for(network: GatedNetwork, regime: Regime) -> None:
    """Set which gates a network uses and what is trained, without changing weights.

    Args:
        network: The network.
        regime: The regime.
    """
    network.own_gates = regime.own_gates
    network.drawn_gates = regime.drawn_gates
    network.gate = replace(network.gate, soft=regime.soft, open=regime.open_gates)
    network.feature_activation = "linear" if regime.linear_features else "relu"
    network.trains = regime.trains
    network.feature.requires_grad_(regime.trains_feature)
    network.value.requires_grad_(regime.trains_value)
    if network.value.normalisation is not None:
        network.value.normalisation.active = regime.own_gates


def _describe_change(
    after: Regime, redrawn: tuple[str, ...], copied: tuple[str, ...]
) -> RegimeChange:
    """List what happened to each group of weights."""
    kept = [] if VALUE in redrawn else [VALUE]
    if FEATURE not in redrawn and not copied:
        kept.append(f"{FEATURE} (aside)" if after.on_entry == "aside" else FEATURE)
    frozen = [] if after.trains_feature or after.on_entry == "aside" else [FEATURE]
    if not after.trains_value:
        frozen.append(VALUE)
    return RegimeChange(tuple(kept), tuple(frozen), redrawn, copied)


def copy_weights(source: Stack, target: Stack) -> None:
    """Copy weights, Θ_target := Θ_source.

    Args:
        source: The network to copy from.
        target: The network to copy to; biases that the source lacks become zero.
    """
    for source_weight, target_tensor in zip(source.weights, target.weights, strict=True):
        target_tensor.data.copy_(source_weight.data)
    if source.normalisation is not None and target.normalisation is not None:
        target.normalisation.load_tensors(source.normalisation.state_dict())
    for layer, target_tensor in enumerate(target.biases):
        if len(source.biases):
            target_tensor.data.copy_(source.biases[layer].data)
        else:
            target_tensor.data.zero_()
