"""Start and pause training: the first buttons of the toolbar."""

from __future__ import annotations

from dgn_engine.protocol.files import TrainOn
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Advance, Pause, Paused, Resume
from dgn_viewer.shell.window_context import WindowContext


class RunControl:
    """Remembers that an epoch is to be finished while the run is being paused for it."""

    def __init__(self, context: WindowContext) -> None:
        self._context = context
        self._finishing_epoch = False

    def toggle_training(self) -> None:
        self._context.send(Pause() if self._context.run_state().is_running else Resume())

    def train_on(self, place: int) -> None:
        """Train the inspected network in the regime with this index."""
        offered = self._context.run_state().training
        if offered is not None and place < len(offered.regimes):
            self._context.send(TrainOn(offered.regimes[place]))

    def finish_epoch(self) -> None:
        """Train to the end of the epoch; a running run is paused first, to know its step."""
        if self._context.run_state().is_running:
            self._finishing_epoch = True
            self._context.send(Pause())
        else:
            self._context.send(Advance(self._context.run_state().epoch_steps))

    def on_event(self, event: Event) -> None:
        """Finish the epoch once the run is paused."""
        if self._finishing_epoch and isinstance(event, Paused):
            self._finishing_epoch = False
            self.finish_epoch()
