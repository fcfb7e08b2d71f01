"""A watched run in the user's TensorBoard: its scalars at once, its panels now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from dgn_engine.figures.tensorboard_log import (
    SummaryWriter,
    drawable_panels,
    write_event,
    write_panels,
)
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import RunStarted
from dgn_engine.training.readings.watch_budget import WatchBudget
from dgn_engine.views.history import History

PREFIX = "dgn/"  # of all tags, so that they do not mix with the user's own
SHARE = 0.2  # part of the share of watching that pictures may take
EXPENSE = "tensorboard"


class TensorBoardMirror:
    """Writes what is recorded of a watched run to a `SummaryWriter` as well.

    An error of the writer ends the mirroring with one warning, and neither the watching nor the
    user's loop.

    Args:
        writer: The user's writer; it is flushed, and never closed.
        probes: The names of the probes that are watched.
        budget: What watching may take; the time spent here is charged to it.
        opening: The event that opened the run.
        warn: Called with a sentence.
    """

    def __init__(
        self,
        writer: SummaryWriter,
        probes: Iterable[str],
        budget: WatchBudget,
        opening: RunStarted,
        warn: Callable[[str], None],
    ) -> None:
        self._writer: SummaryWriter | None = writer
        self._budget, self._warn = budget, warn
        self._specs = drawable_panels(probes)
        self._history = History()
        self._history.on_event(opening)
        self._next_pictures = 0.0

    def add_event(self, event: Event) -> None:
        """Write the scalars of an event.

        Args:
            event: The event.
        """
        self._history.on_event(event)
        self._write(lambda writer: write_event(writer, event, prefix=PREFIX))

    def add_frame(self, frame: Frame, last: bool = False) -> None:
        """Write pictures of the panels, if their part of the share allows.

        Args:
            frame: The newest readings.
            last: Whether it is the last frame, whose pictures are always written.
        """
        self._history.on_frame(frame)
        began = time.monotonic()
        if not last and (began < self._next_pictures or not self._budget.has_credit):
            return
        view = self._history.view({})
        self._write(lambda writer: write_panels(writer, view, self._specs, PREFIX))
        spent = time.monotonic() - began
        self._next_pictures = began + spent / (SHARE * self._budget.share)

    def _write(self, write: Callable[[SummaryWriter], object]) -> None:
        if self._writer is None:
            return
        began = self._budget.busy()
        try:
            write(self._writer)
        except Exception as error:  # of the user's writer, or of its disk
            self._writer = None
            self._warn(
                f"Nothing more is written to TensorBoard: {type(error).__name__}: {error}. "
                "Watching continues."
            )
        self._budget.charge(EXPENSE, self._budget.busy() - began)
