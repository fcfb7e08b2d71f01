"""Steps a second: measured over the last seconds, and held to a pace where one is set."""

from __future__ import annotations

import time
from collections import deque

WINDOW = 2.0  # seconds


class StepRate:
    """Counts steps as they happen."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()
        self._began = time.monotonic()
        self._next = self._began

    def tick(self, pace: float) -> None:
        """A step was taken; `pace`: steps a second at most, 0 for no limit."""
        now = time.monotonic()
        self._times.append(now)
        while self._times[0] < now - WINDOW:
            self._times.popleft()
        # Steps that were missed are not made up for: a pause is no debt.
        self._next = max(self._next + 1.0 / pace, now) if pace > 0.0 else now

    def per_second(self) -> float:
        """Steps a second over the last `WINDOW` seconds."""
        now = time.monotonic()
        steps = sum(1 for t in self._times if t >= now - WINDOW)
        return steps / min(WINDOW, max(now - self._began, 1e-3))

    def wait(self) -> float:
        """Seconds until the next step may be taken."""
        return max(0.0, self._next - time.monotonic())
