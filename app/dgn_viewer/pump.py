"""The one place where the engine's thread and Qt meet: it carries events and frames.

The engine tells that something has arrived; scores alone wait for the next frame, or the next tick,
and come together: a small network has hundreds of them a second. While nothing arrives nobody is
woken: each time the window wakes up it takes the interpreter from the thread that trains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Event, Stopped
from dgn_engine.protocol.runs import SAMPLES

TICK_MS = 500  # between two looks at what nobody has told of


def _nobody() -> None:
    """Told of news that are not wanted any more."""


class EngineClient(Protocol):
    """The side of a session that the viewer sees; a spawned process offers the same."""

    def start(self) -> None:
        """Begin the engine's thread."""

    def send(self, command: Command) -> None:
        """Queue a command; returns at once."""

    def notify(self, tell: Callable[[], None]) -> None:
        """Call this, in any thread, when a frame or an event that is no score has arrived; once
        until they are taken. Whoever was to be called before is called no more."""

    def drain(self) -> list[Event]:
        """All events since the last call, in order."""

    def latest(self) -> Frame | None:
        """The newest frame that was not yet taken."""

    def close(self, timeout: float) -> bool:
        """Shut down and wait at most this many seconds; whether it has ended."""


class Pump(QObject):
    """Takes what the engine has, in the GUI thread: every event in order, of the frames only the
    newest."""

    event_arrived = Signal(object)
    samples_arrived = Signal(object)  # a tuple of scores and scalars that came one after the other
    frame_arrived = Signal(object)
    _news = Signal()

    def __init__(
        self, engine: EngineClient, parent: QObject | None = None, every: int = TICK_MS
    ) -> None:
        """`every`: milliseconds between two looks at what nobody has told of."""
        super().__init__(parent)
        self._engine = engine
        self._timer = QTimer(self, timerType=Qt.TimerType.PreciseTimer, interval=every)
        self._timer.timeout.connect(self.tick)
        # Queued: it comes from the engine's thread.
        self._news.connect(self.tick, Qt.ConnectionType.QueuedConnection)
        self.stopped = False  # the engine said its last word

    def start(self) -> None:
        self._engine.notify(self._news.emit)
        self._timer.start()

    def take_over(self, engine: EngineClient) -> None:
        self._engine.notify(_nobody)
        self._engine = engine
        self.stopped = False
        engine.notify(self._news.emit)

    def stop(self) -> None:
        """Take no more; what has arrived until now is still delivered."""
        self._engine.notify(_nobody)
        self._timer.stop()
        self.tick()

    def send(self, command: Command) -> None:
        self._engine.send(command)

    def tick(self) -> None:
        """Deliver what has arrived. Events come first: a frame may belong to a run they announce.

        The frame is taken before the events are drained, so that the events behind it are
        delivered no later than it.
        """
        frame = self._engine.latest()
        samples: list[Event] = []
        for event in self._engine.drain():
            if isinstance(event, SAMPLES):
                samples.append(event)
                continue
            self._deliver(samples)
            if isinstance(event, Stopped):
                self.stopped = True
            self.event_arrived.emit(event)
        self._deliver(samples)
        if frame is not None:
            self.frame_arrived.emit(frame)

    def _deliver(self, samples: list[Event]) -> None:
        if samples:
            together = tuple(samples)
            samples.clear()
            self.samples_arrived.emit(together)
