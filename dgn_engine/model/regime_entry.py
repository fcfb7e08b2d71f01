"""What entering a regime does to the weights (THEORY §1, 'Swapping in mid-run')."""

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
    """Names of the groups ('value weights', 'feature weights') and what happened to each.

    A group that was redrawn or copied loses its optimiser state.
    """

    kept: tuple[str, ...]
    frozen: tuple[str, ...]
    redrawn: tuple[str, ...]
    copied: tuple[str, ...]


def enter(
    network: GatedNetwork,
    before: Regime | None,
    after: Regime,
    draw: Callable[[Stack], None],
    restart_value: bool = False,
) -> RegimeChange:
    """Set the network into a regime. `before` is None at the start of a run.

    At the start both networks have just been drawn, so that nothing needs redrawing but what a
    regime ties together. `draw` fills a stack with fresh random weights.
    """
    fresh = before is None
    redrawn: list[str] = []
    copied: list[str] = []
    check_entry(network, before, after)  # before anything is redrawn
    if _keeps_own(before, after):
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
    return _described(after, tuple(redrawn), tuple(copied))


def check_entry(network: GatedNetwork, before: Regime | None, after: Regime) -> None:
    """Raise `UserError` where one network would take weights of the other and they differ in
    width."""
    copies = _keeps_own(before, after) or after.on_entry == "share-redrawn"
    if copies and network.value.architecture != network.feature.architecture:
        raise UserError(
            "The gates are tiled, so that the value network is wider than the feature network: "
            "neither can take the other's weights; choose FR-II or DL, or begin a run without "
            "tiling.",
            kind="tiled",
        )


def _keeps_own(before: Regime | None, after: Regime) -> bool:
    return before is not None and before.own_gates and after.on_entry == "keep"


def configure_for(network: GatedNetwork, regime: Regime) -> None:
    """Whose gates, of which kind, and what is trained; no weight is touched."""
    network.own_gates = regime.own_gates
    network.drawn_gates = regime.drawn_gates
    network.gate = replace(network.gate, soft=regime.soft, open=regime.open_gates)
    network.feature_activation = "linear" if regime.linear_features else "relu"
    network.trains = regime.trains
    network.feature.requires_grad_(regime.trains_feature)
    network.value.requires_grad_(regime.trains_value)
    if network.value.normalisation is not None:
        network.value.normalisation.active = regime.own_gates


def _described(after: Regime, redrawn: tuple[str, ...], copied: tuple[str, ...]) -> RegimeChange:
    kept = [] if VALUE in redrawn else [VALUE]
    if FEATURE not in redrawn and not copied:
        kept.append(f"{FEATURE} (aside)" if after.on_entry == "aside" else FEATURE)
    frozen = [] if after.trains_feature or after.on_entry == "aside" else [FEATURE]
    if not after.trains_value:
        frozen.append(VALUE)
    return RegimeChange(tuple(kept), tuple(frozen), redrawn, copied)


def copy_weights(source: Stack, target: Stack) -> None:
    """Θ_target := Θ_source; a target with biases that the source lacks gets zeros."""
    for theirs, ours in zip(source.weights, target.weights, strict=True):
        ours.data.copy_(theirs.data)
    if source.normalisation is not None and target.normalisation is not None:
        target.normalisation.take(source.normalisation.state_dict())
    for place, ours in enumerate(target.biases):
        if len(source.biases):
            ours.data.copy_(source.biases[place].data)
        else:
            ours.data.zero_()
