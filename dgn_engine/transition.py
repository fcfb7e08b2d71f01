"""What entering a regime does to the weights (THEORY §1, 'Swapping in mid-run')."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dgn_engine.network import GatedNetwork
from dgn_engine.regimes import Regime
from dgn_engine.stack import Stack

VALUE, FEATURE = "value weights", "feature weights"


@dataclass(frozen=True)
class Change:
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
) -> Change:
    """Set the network into a regime. `before` is None at the start of a run.

    At the start both networks have just been drawn, so that nothing needs redrawing but what a
    regime ties together. `draw` fills a stack with fresh random weights.
    """
    fresh = before is None
    redrawn: list[str] = []
    copied: list[str] = []
    if before is not None and before.own_gates and after.on_entry == "keep":
        copy_weights(network.value, network.feature)
        copied.append(f"{FEATURE} (from the value network)")
    if after.on_entry == "redraw" and not fresh:
        draw(network.feature)
        redrawn.append(FEATURE)
    if (after.on_entry == "share-redrawn" or (after.offers_restart and restart_value)) and not (
        fresh
    ):
        draw(network.value)
        redrawn.append(VALUE)
    if after.on_entry == "share-redrawn":
        copy_weights(network.value, network.feature)
        copied.append(f"{FEATURE} (from the value network)")
    network.own_gates = after.own_gates
    network.gate = replace(network.gate, soft=after.soft)
    network.feature.requires_grad_(after.trains_feature)
    network.value.requires_grad_(True)
    return _described(after, tuple(redrawn), tuple(copied))


def _described(after: Regime, redrawn: tuple[str, ...], copied: tuple[str, ...]) -> Change:
    kept = [] if VALUE in redrawn else [VALUE]
    if FEATURE not in redrawn and not copied:
        kept.append(f"{FEATURE} (aside)" if after.own_gates else FEATURE)
    frozen = () if after.trains_feature or after.own_gates else (FEATURE,)
    return Change(tuple(kept), frozen, redrawn, copied)


def copy_weights(source: Stack, target: Stack) -> None:
    """Θ_target := Θ_source; a target with biases that the source lacks gets zeros."""
    for theirs, ours in zip(source.weights, target.weights, strict=True):
        ours.data.copy_(theirs.data)
    for place, ours in enumerate(target.biases):
        if len(source.biases):
            ours.data.copy_(source.biases[place].data)
        else:
            ours.data.zero_()
