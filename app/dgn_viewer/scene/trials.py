"""What 'What am I seeing' offers to try next on the live run; each can be undone."""

from __future__ import annotations

from dgn_engine.protocol.commands import Command, Rewire, SetValueInput, SwapRegime
from dgn_viewer.scene.panel_spec import Trial, View


def swap_to(regime: str, label: str, watch: str) -> Trial:
    """Change the regime; nothing where it is in force, or where no run can change it."""

    def commands(view: View) -> tuple[Command, ...]:
        if not _trains(view) or view.regime == regime:
            return ()
        return (SwapRegime(regime),)

    return Trial(label, watch, commands)


def reverse_layers(watch: str) -> Trial:
    """Let the value layers use the gate layers in reverse order."""

    def commands(view: View) -> tuple[Command, ...]:
        sizes = {layer.shape for layer in view.run.layers} if view.run is not None else set()
        if not _trains(view) or len(view.wiring) < 2 or len(sizes) > 1:
            return ()
        return (Rewire(view.wiring[::-1]),)

    return Trial("Reverse the gate layers", watch, commands)


def blind_value_network(watch: str) -> Trial:
    """Give the value network ones instead of images: what it knows then comes through gates."""

    def commands(view: View) -> tuple[Command, ...]:
        return (SetValueInput("ones"),) if _trains(view) and view.wiring else ()

    return Trial("Show the value network ones instead of images", watch, commands)


def _trains(view: View) -> bool:
    """Whether there is a run whose network changes: not one that is inspected or looked back at."""
    return view.run is not None and not view.run.inspected and view.cursor is None
