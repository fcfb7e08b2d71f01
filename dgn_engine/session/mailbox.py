"""Commands, events and the newest frame between the engine's thread and the viewer's."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.runs import SAMPLES


class Mailbox:
    """Commands and events are lossless and in order; of frames only the newest is kept."""

    def __init__(self) -> None:
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self.cancelled = threading.Event()  # whatever reads data now is to end
        self._events: deque[Event] = deque()
        self._frame: Frame | None = None
        self._tell: Callable[[], None] = lambda: None  # whoever wants news asks
        self._told = False  # and nobody has asked since
        self._lock = threading.Lock()

    def notify(self, tell: Callable[[], None]) -> None:
        """Viewer side: call this, in the engine's thread, when something has arrived, but not once
        more before the frame was asked for. Whoever was called before is called no more."""
        with self._lock:
            self._tell, self._told = tell, False
            if self._events or self._frame is not None:
                self._arrived()

    def emit(self, event: Event) -> None:
        """Engine side: append an event."""
        with self._lock:
            self._events.append(event)
            if not isinstance(event, SAMPLES):  # those are soon enough with the next frame
                self._arrived()

    def publish(self, frame: Frame) -> None:
        """Engine side: replace the frame that waits, if one does."""
        with self._lock:
            self._frame = frame
            self._arrived()

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
            self._told = False
        return frame

    def _arrived(self) -> None:
        """With the lock held, so that nobody is called who has been taken off."""
        if not self._told:
            self._told = True
            self._tell()
