"""Who looks at a run without a window."""

from __future__ import annotations

import math


class NoWatcher:
    """Looks at nothing, and never interrupts."""

    def on_step(self, step: int) -> None: ...

    def on_event(self, event: object) -> None: ...


class StopAt(NoWatcher):
    """Interrupts a run at a step; without one it is not interrupted."""

    def __init__(self, step: float = math.inf) -> None:
        self._step, self._now = step, 0

    def on_step(self, step: int) -> None:
        self._now = step

    def __call__(self) -> bool:
        return self._now >= self._step
