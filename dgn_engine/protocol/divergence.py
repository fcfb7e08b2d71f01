"""Going back from a run that has diverged: the command, and what is said beside it."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.protocol.commands import Command


@dataclass(frozen=True)
class GoBack(Command):
    """Put a diverged run back to its newest finite state: weights, optimiser, regime, wiring and
    settings. The steps count on, and the run is paused."""

    title = "go back to the last finite state"
    steers = True
