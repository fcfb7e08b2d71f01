"""Things to try next on the live run, offered in 'About this panel'; each can be undone."""

from __future__ import annotations

from collections.abc import Callable

from dgn_engine.protocol.catalogue import RegimeEntry
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import Rewire, SetValueInput, SwapRegime
from dgn_engine.scene.panel_spec import Trial, View


def freeze_random_gates(watch: str) -> Trial:
    """Swap to the first regime whose gates come from a frozen random network."""
    return _swap_trial("Freeze random gates", watch, lambda entry: entry.frozen_noise)


def keep_gates(watch: str) -> Trial:
    """Swap to the regime for copied gates, with the current gates and new values."""
    label = "Keep gates, draw new values"
    return _swap_trial(label, watch, lambda entry: entry.for_copied_gates)


def train_gates_alone(watch: str) -> Trial:
    return _swap_trial("Train the gates alone", watch, lambda entry: entry.gates_alone)


def _swap_trial(label: str, watch: str, wanted: Callable[[RegimeEntry], bool]) -> Trial:
    """Return a trial that swaps the regime, unless it is in force or no run can change."""

    def commands(view: View) -> tuple[Command, ...]:
        regimes = [entry.id for entry in view.regimes if wanted(entry)]
        if not regimes or not _can_change_run(view) or view.regime == regimes[0]:
            return ()
        return (SwapRegime(regimes[0]),)

    return Trial(label, watch, commands)


def reverse_layers(watch: str) -> Trial:
    """Make the value layers use the gate layers in reverse order."""

    def commands(view: View) -> tuple[Command, ...]:
        sizes = {layer.shape for layer in view.run.layers} if view.run is not None else set()
        if not _can_change_run(view) or len(view.wiring) < 2 or len(sizes) > 1:
            return ()
        return (Rewire(view.wiring[::-1]),)

    return Trial("Reverse the gate layers", watch, commands)


def blind_value_network(watch: str) -> Trial:
    """Feed the value network ones instead of images, leaving it only the gates."""

    def commands(view: View) -> tuple[Command, ...]:
        return (SetValueInput("ones"),) if _can_change_run(view) and view.wiring else ()

    return Trial("Ones instead of images", watch, commands)


def _can_change_run(view: View) -> bool:
    """Return whether there is a run that can change: neither inspected nor looked back at."""
    return view.run is not None and not view.run.inspected and view.cursor is None
