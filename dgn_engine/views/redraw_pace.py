"""How often each panel is drawn while a run trains, and what the window's thread takes for it.

The engine's budget of watching divides rounds: what it reads is drawn as soon as it comes. Here
only what changes in between (curves, readings that sharpen) is held to the time between two rounds.
"""

from __future__ import annotations

import os

from dgn_engine.protocol.frames import Watching
from dgn_engine.protocol.watching import ReportWindow

CREDIT = 0.06  # seconds of drawing that may come at once, before pictures have to wait
WINDOW = "window"  # in the ledger where the window holds training up
SHORTEST = 1 / 30  # seconds between two drawings of one panel
EARLY = 0.5  # of the time between two rounds: a round that comes early is not held up
REPORT_EVERY = 1.0  # seconds


# How often a step that is looked back at is drawn while a network trains in the same process.
# Python runs one thread at a time: while panels are drawn no step is taken. Who drags along the
# time sees pictures as often as the share of watching allows; who rests sees the step at once.
class LookBackPace:
    """Drawing earns `share` seconds a second, up to `CREDIT`; what is drawn is taken off."""

    def __init__(self) -> None:
        self._share = 0.0  # 0: drawing delays nothing
        self._credit = CREDIT
        self._earned = 0.0  # when it was counted last

    def follow(self, watching: Watching | None, paced: bool) -> None:
        """Take over what the engine says; a `paced` run waits between its steps anyway."""
        delays = watching is not None and WINDOW in watching.parts and not paced
        self._share = watching.share if watching is not None and delays else 0.0

    def drew(self, cost: float, now: float) -> None:
        """A panel was drawn, for so many seconds of the processor; a debt is no greater than the
        credit, so that a picture that took long is not waited for for minutes."""
        self._earn(now)
        self._credit = max(self._credit - cost, -CREDIT)

    def wait(self, now: float) -> float:
        """Seconds until the next picture may be drawn; 0: at once."""
        if not self._share:
            return 0.0
        self._earn(now)
        return max(-self._credit / self._share, 0.0)

    def _earn(self, now: float) -> None:
        share = self._share or 1.0
        self._credit = min(self._credit + share * max(now - self._earned, 0.0), CREDIT)
        self._earned = now


class RedrawPace:
    """The time between two drawings, as the newest frame has it; and the window's own expenses."""

    def __init__(self) -> None:
        self._every = 0.0
        self._drawing = 0.0  # seconds since the last report
        self._elsewhere = 0.0  # … of another thread
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
        """Drawing new readings took so many seconds of processor time. What is drawn because
        somebody looks back belongs to the rest of the window."""
        self._drawing += cost

    def took_elsewhere(self, cost: float) -> None:
        """Another thread took so many seconds of processor time for the window."""
        self._elsewhere += cost

    def report(self, wall: float, busy: float) -> ReportWindow | None:
        """Once a second while a run trains: what the thread took since the last time, in all
        `busy` processor seconds so far."""
        before = self._reported
        if before is not None and wall - before[0] < REPORT_EVERY:
            return None
        drawing, self._drawing, self._reported = self._drawing, 0.0, (wall, busy)
        elsewhere, self._elsewhere = self._elsewhere, 0.0
        if before is None:  # what was drawn until now delayed nothing
            return None
        rest = max(busy - before[1] - drawing, 0.0) + elsewhere
        return ReportWindow(drawing, rest, os.getpid())
