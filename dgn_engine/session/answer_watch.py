"""Finds out whether the engine's process still answers, from how long nothing was heard of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dgn_engine.protocol.engine_events import EngineAnswered, EngineSilent

LOADING = 90.0  # seconds of silence while torch is loaded, which holds the interpreter up
SILENT = 10.0  # … and afterwards; a process that lives sends something every second
_NAP = 1.0  # seconds between two looks; more, and it was we who slept


class AnswerWatch:
    """`heard` by the thread that reads, `look` now and then by the one that shows."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._looked = clock()
        self._silence = 0.0
        self._limit = LOADING
        self._told = False
        self._lasted = 0.0

    def begin(self) -> None:
        """Begin anew with a process that has just been started."""
        with self._lock:
            self._silence, self._limit = 0.0, LOADING

    def heard(self, ready: bool = False) -> None:
        """Something came; `ready`: torch is loaded there."""
        with self._lock:
            self._silence = 0.0
            if ready:
                self._limit = SILENT

    def look(self) -> EngineSilent | EngineAnswered | None:
        """An event when the silence has become too long, and when it has ended."""
        now = self._clock()
        with self._lock:
            passed, self._looked = min(now - self._looked, _NAP), now
            self._silence += passed
            if not self._told and self._silence > self._limit:
                self._told, self._lasted = True, self._silence
                return EngineSilent(self._silence)
            if self._told and self._silence < self._lasted:
                self._told = False
                return EngineAnswered(self._lasted)
            self._lasted = self._silence
        return None
