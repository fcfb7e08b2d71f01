"""The exchange between the engine's thread and the viewer's: commands, events, the newest frame."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.runs import SAMPLES


class Mailbox:
    """Commands and events are in order, and none is lost; of frames only the newest is kept."""

    def __init__(self) -> None:
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self.cancelled = threading.Event()  # stops data that are being read
        self._events: deque[Event] = deque()
        self._frame: Frame | None = None
        self._tell: Callable[[], None] = lambda: None
        self._told = False  # it was called, and no frame was taken since
        self._lock = threading.Lock()

    def set_wakeup(self, tell: Callable[[], None]) -> None:
        """Set the callback for news, replacing the previous one. Called by the viewer.

        It is called in the engine's thread when something arrives, and then not again before the
        frame has been taken.
        """
        with self._lock:
            self._tell, self._told = tell, False
            if self._events or self._frame is not None:
                self._wake_viewer()

    def emit(self, event: Event) -> None:
        """Append an event. Called by the engine."""
        with self._lock:
            self._events.append(event)
            if not isinstance(event, SAMPLES):  # these can wait for the next frame
                self._wake_viewer()

    def publish(self, frame: Frame) -> None:
        """Replace the waiting frame, if any. Called by the engine."""
        with self._lock:
            self._frame = frame
            self._wake_viewer()

    def drain_events(self) -> list[Event]:
        """Return every event since the last call, in order. Called by the viewer."""
        with self._lock:
            events = list(self._events)
            self._events.clear()
        return events

    def take_latest_frame(self) -> Frame | None:
        """Return the newest frame, once. Called by the viewer."""
        with self._lock:
            frame, self._frame = self._frame, None
            self._told = False
        return frame

    def _wake_viewer(self) -> None:
        """Wake the viewer; with the lock held, so that a replaced callback is never called."""
        if not self._told:
            self._told = True
            self._tell()
