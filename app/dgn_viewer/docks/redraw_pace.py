"""How often each panel is drawn while a run trains, and what the window's thread takes for it.

The engine's budget of watching divides rounds: what it reads is drawn as soon as it comes. Here
only what changes in between (curves, readings that sharpen) is held to the time between two rounds.
"""

from __future__ import annotations

import os

from dgn_engine.protocol.commands import ReportWindow
from dgn_engine.protocol.frames import Watching

SHORTEST = 1 / 30  # seconds between two drawings of one panel
EARLY = 0.5  # of the time between two rounds: a round that comes early is not held up
REPORT_EVERY = 1.0  # seconds


class RedrawPace:
    """The time between two drawings, as the newest frame has it; and the window's own expenses."""

    def __init__(self) -> None:
        self._every = 0.0
        self._drawing = 0.0  # seconds since the last report
        self._reported: tuple[float, float] | None = None  # wall and processor time then

    def follow(self, watching: Watching | None) -> None:
        """Take over what the engine says; None: nothing trains, and drawing delays nothing."""
        self._every = 0.0 if watching is None else watching.every
        if watching is None:
            self._reported = None

    @property
    def every(self) -> float:
        """Seconds between two drawings of what changes all the time."""
        return max(self._every, SHORTEST)

    @property
    def spacing(self) -> float:
        """Seconds between two drawings of what the engine paces."""
        return max(EARLY * self._every, SHORTEST)

    def drawn(self, cost: float) -> None:
        """A drawing took so many seconds of processor time."""
        self._drawing += cost

    def report(self, wall: float, busy: float) -> ReportWindow | None:
        """Once a second while a run trains: what the thread took since the last time, in all
        `busy` processor seconds so far."""
        before = self._reported
        if before is not None and wall - before[0] < REPORT_EVERY:
            return None
        drawing, self._drawing, self._reported = self._drawing, 0.0, (wall, busy)
        if before is None:  # what was drawn until now delayed nothing
            return None
        return ReportWindow(drawing, max(busy - before[1] - drawing, 0.0), os.getpid())
