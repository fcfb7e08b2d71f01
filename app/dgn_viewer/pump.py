"""The only place where the engine's thread and Qt meet: transfers events and frames.

The engine signals when something has arrived; samples alone wait for the next frame or tick, and
are delivered together, because a small network produces hundreds of them per second. While nothing
arrives the window sleeps: each time it wakes up it takes the interpreter from the training thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Event, Stopped
from dgn_engine.protocol.runs import SAMPLES

TICK_MS = 2500  # milliseconds without a frame after which unsignalled samples are delivered
SOON_MS, SOON = 100, 4  # milliseconds between deliveries that a user waits for, and their number


def _ignore_news() -> None:
    """Ignore the signal of a replaced engine."""


class EngineClient(Protocol):
    """The part of a session that the viewer uses; implemented for threads and processes."""

    def start(self) -> None:
        """Start the engine."""

    def send(self, command: Command) -> None:
        """Queue a command and return immediately."""

    def set_wakeup(self, tell: Callable[[], None]) -> None:
        """Call `tell`, from any thread, when a frame or an event other than a sample arrives.

        It is called once until the news are fetched, and replaces the previous callback.
        """

    def drain_events(self) -> list[Event]:
        """Return all events since the last call, in order."""

    def take_latest_frame(self) -> Frame | None:
        """Return the newest frame, unless it has already been fetched."""

    def close(self, timeout: float) -> bool:
        """Shut down; wait at most `timeout` seconds. Return whether the engine stopped."""


class Pump(QObject):
    """Fetches from the engine in the GUI thread: every event in order, only the newest frame."""

    event_arrived = Signal(object)
    samples_arrived = Signal(object)  # tuple of consecutive scores and scalars
    frame_arrived = Signal(object)
    _news = Signal()

    def __init__(
        self, engine: EngineClient, parent: QObject | None = None, every: int = TICK_MS
    ) -> None:
        """`every`: milliseconds without a frame after which unsignalled samples are delivered."""
        super().__init__(parent)
        self._engine = engine
        self._timer = QTimer(self, interval=every)
        self._timer.timeout.connect(self.tick)
        self._soon = QTimer(self, interval=SOON_MS)
        self._soon.timeout.connect(self._tick_soon)
        self._soon_left = 0
        # Queued: emitted in the engine's thread.
        self._news.connect(self.tick, Qt.ConnectionType.QueuedConnection)
        self.stopped = False  # the engine has sent its last event

    def start(self) -> None:
        self._engine.set_wakeup(self._news.emit)
        self._timer.start()

    def switch_engine(self, engine: EngineClient) -> None:
        self._engine.set_wakeup(_ignore_news)
        self._engine = engine
        self.stopped = False
        engine.set_wakeup(self._news.emit)

    def stop(self) -> None:
        """Stop fetching, after delivering what has arrived."""
        self._engine.set_wakeup(_ignore_news)
        self._timer.stop()
        self._soon.stop()
        self.tick()

    def send(self, command: Command) -> None:
        self._engine.send(command)

    def fetch_soon(self) -> None:
        """Deliver samples sooner for a moment: they are the first since a user's change."""
        self._soon_left = SOON
        self._soon.start()

    def tick(self) -> None:
        """Deliver what has arrived, events first: a frame may belong to a run they announce.

        The frame is fetched before the events are drained, so that events behind it are not
        delivered later than the frame.
        """
        frame = self._engine.take_latest_frame()
        samples: list[Event] = []
        for event in self._engine.drain_events():
            if isinstance(event, SAMPLES):
                samples.append(event)
                continue
            self._emit_samples(samples)
            if isinstance(event, Stopped):
                self.stopped = True
            self.event_arrived.emit(event)
        self._emit_samples(samples)
        if frame is not None:
            if self._timer.isActive():
                self._timer.start()  # again: the next frame brings the samples before it
            self.frame_arrived.emit(frame)

    def _tick_soon(self) -> None:
        self._soon_left -= 1
        if self._soon_left <= 0:
            self._soon.stop()
        self.tick()

    def _emit_samples(self, samples: list[Event]) -> None:
        if samples:
            batch = tuple(samples)
            samples.clear()
            self.samples_arrived.emit(batch)
