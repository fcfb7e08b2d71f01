"""Commands, events and the newest frame between the engine's thread and the viewer's."""

from __future__ import annotations

import queue
import threading
from collections import deque

from dgn_engine.protocol.commands import Command
from dgn_engine.protocol.events import Event
from dgn_engine.protocol.frames import Frame


class Mailbox:
    """Commands and events are lossless and in order; of frames only the newest is kept."""

    def __init__(self) -> None:
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self.cancelled = threading.Event()  # whatever reads data now is to end
        self._events: deque[Event] = deque()
        self._frame: Frame | None = None
        self._lock = threading.Lock()

    def emit(self, event: Event) -> None:
        """Engine side: append an event."""
        with self._lock:
            self._events.append(event)

    def publish(self, frame: Frame) -> None:
        """Engine side: replace the frame that waits, if one does."""
        with self._lock:
            self._frame = frame

    def drain(self) -> list[Event]:
        """Viewer side: every event since the last call, in order."""
        with self._lock:
            events = list(self._events)
            self._events.clear()
        return events

    def latest(self) -> Frame | None:
        """Viewer side: the newest frame that was not taken yet."""
        with self._lock:
            frame, self._frame = self._frame, None
        return frame
