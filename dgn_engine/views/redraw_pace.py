"""The drawing pace of panels during training, and the time that the window's thread takes.

The engine budgets its own rounds: what it reads is drawn as soon as it arrives. Here only what
changes in between (curves, refined readings) is limited to the time between two rounds.
"""

from __future__ import annotations

import os

from dgn_engine.protocol.frames import Watching
from dgn_engine.protocol.watching import ReportWindow

CREDIT = 0.06  # seconds of drawing allowed at once before pictures have to wait
WINDOW = "window"  # entry in the ledger if the window delays training
SHORTEST = 1 / 30  # seconds between two drawings of one panel
EARLY = 0.5  # share of the time between rounds: an early round is not delayed
YOUNG = 0.1  # of the age of a picture: the longest time until it is drawn again, at least …
FIRST_INTERVAL = 0.25  # … seconds
REPORT_EVERY = 1.0  # seconds


# Limits how often past steps are drawn while a network trains in the same process. Python runs one
# thread at a time: no step is taken while panels are drawn. Dragging along the time axis shows
# pictures as often as the watching share allows; on release the step is drawn at once.
class LookBackPace:
    """Drawing earns `share` seconds a second, up to `CREDIT`, and spends what it takes."""

    def __init__(self) -> None:
        self._share = 0.0  # 0: drawing delays nothing
        self._credit = CREDIT
        self._earned = 0.0  # time of the last update

    def update_share(self, watching: Watching | None, paced: bool) -> None:
        """Take the share from the engine; a `paced` run waits between its steps anyway."""
        delays = watching is not None and WINDOW in watching.parts and not paced
        self._share = watching.share if watching is not None and delays else 0.0

    def record_drawing(self, cost: float, now: float) -> None:
        """Subtract the processor seconds of drawing a panel.

        The debt is at most the credit, so that a slow picture does not block others for minutes.
        """
        self._earn_credit(now)
        self._credit = max(self._credit - cost, -CREDIT)

    def seconds_until_next(self, now: float) -> float:
        """Return the seconds until the next picture may be drawn; 0: at once."""
        if not self._share:
            return 0.0
        self._earn_credit(now)
        return max(-self._credit / self._share, 0.0)

    def _earn_credit(self, now: float) -> None:
        # Earn `share` seconds of drawing per second, up to the cap.
        share = self._share or 1.0
        self._credit = min(self._credit + share * max(now - self._earned, 0.0), CREDIT)
        self._earned = now


class RedrawPace:
    """The time between two drawings, set by the newest frame; and the window's own costs."""

    def __init__(self) -> None:
        self._every = 0.0
        self._drawing = 0.0  # seconds since the last report
        self._elsewhere = 0.0  # … of other threads
        self._reported: tuple[float, float] | None = None  # wall and CPU time of the last report

    def update_interval(self, watching: Watching | None) -> None:
        """Take the interval from the engine; None: nothing trains, and drawing delays nothing."""
        self._every = 0.0 if watching is None else watching.every
        if watching is None:
            self._reported = None

    @property
    def redraw_interval(self) -> float:
        """Seconds between two drawings of what changes all the time."""
        return max(self._every, SHORTEST)

    def interval_at(self, age: float, paced: bool) -> float:
        """Return the seconds until a panel may be drawn again.

        A young picture is drawn again when it is a tenth older: some forty times in its first
        minute, whatever the time between two rounds.

        Args:
            age: Seconds from the panel's first picture of the run to its last drawing.
            paced: Whether the engine paces what it shows.
        """
        interval = max(EARLY * self._every, SHORTEST) if paced else self.redraw_interval
        return min(interval, max(YOUNG * age, FIRST_INTERVAL))

    def record_drawing(self, cost: float) -> None:
        """Add the processor seconds of drawing new readings.

        Drawing past steps counts as the rest of the window instead.
        """
        self._drawing += cost

    def record_other_thread(self, cost: float) -> None:
        """Add processor seconds that another thread spent for the window."""
        self._elsewhere += cost

    def report_costs(self, wall: float, busy: float) -> ReportWindow | None:
        """Report the thread's costs since the last report, at most once a second.

        Args:
            wall: Current time in seconds.
            busy: Total processor seconds of the thread.
        """
        previous = self._reported
        if previous is not None and wall - previous[0] < REPORT_EVERY:
            return None
        drawing, self._drawing, self._reported = self._drawing, 0.0, (wall, busy)
        elsewhere, self._elsewhere = self._elsewhere, 0.0
        if previous is None:  # what was drawn until now delayed nothing
            return None
        rest = max(busy - previous[1] - drawing, 0.0) + elsewhere
        return ReportWindow(drawing, rest, os.getpid())
