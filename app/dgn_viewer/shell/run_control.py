"""Training and pausing the run: what the first buttons of the toolbar do."""

from __future__ import annotations

from collections.abc import Callable

from dgn_engine.protocol.files import TrainOn
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Advance, Pause, Paused, Resume


class RunControl:
    """Remembers that an epoch is to be finished while a running run is being paused for it."""

    def __init__(self, send: Callable[[Command], None], run_state: Callable[[], RunState]) -> None:
        self._send = send
        self._run_state = run_state
        self._finishing_epoch = False

    def toggle(self) -> None:
        self._send(Pause() if self._run_state().running else Resume())

    def train_on(self, place: int) -> None:
        """Train the network that is inspected, in the regime at this place of those offered."""
        offered = self._run_state().training
        if offered is not None and place < len(offered.regimes):
            self._send(TrainOn(offered.regimes[place]))

    def finish_epoch(self) -> None:
        """Train to the end of this epoch; a run that trains is paused first, to know its step."""
        if self._run_state().running:
            self._finishing_epoch = True
            self._send(Pause())
        else:
            self._send(Advance(self._run_state().epoch_steps))

    def on_event(self, event: Event) -> None:
        """Go on with the epoch once the run is paused."""
        if self._finishing_epoch and isinstance(event, Paused):
            self._finishing_epoch = False
            self.finish_epoch()
