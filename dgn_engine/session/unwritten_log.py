"""The log of a run that is not recorded, in memory, for when the user decides to keep the run."""

from __future__ import annotations

from collections import deque
from heapq import merge

from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import SAMPLES
from dgn_engine.protocol.training import RunStarted
from dgn_engine.storage.runs.log import is_logged
from dgn_engine.training.recording import Recording

MOST = 200_000  # samples, about 40 MB: 80 minutes at 40 steps per second


class UnwrittenLog:
    """The events that a recording would have logged since the run `started`.

    Beyond `most` samples the oldest are dropped; changes of the run are all kept.
    """

    def __init__(self, started: RunStarted, most: int = MOST) -> None:
        self.started = started
        self._count = 0
        self._samples: deque[tuple[int, Event]] = deque(maxlen=most)
        self._changes: list[tuple[int, Event]] = []

    def on_event(self, event: Event) -> None:
        if is_logged(event):
            kept = self._samples if isinstance(event, SAMPLES) else self._changes
            kept.append((self._count, event))
            self._count += 1

    def write_to(self, recording: Recording) -> None:
        """Log the events in their order."""
        for _, event in merge(self._samples, self._changes, key=lambda numbered: numbered[0]):
            recording.on_event(event)
