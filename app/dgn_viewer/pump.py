"""The one place where the engine's thread and Qt meet: a 16 ms tick carries events and frames."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from dgn_engine.protocol.commands import Command
from dgn_engine.protocol.events import Event, Stopped
from dgn_engine.protocol.frames import Frame

TICK_MS = 16


class EngineClient(Protocol):
    """The side of a session that the viewer sees; a spawned process offers the same."""

    def start(self) -> None:
        """Begin the engine's thread."""

    def send(self, command: Command) -> None:
        """Queue a command; returns at once."""

    def drain(self) -> list[Event]:
        """All events since the last call, in order."""

    def latest(self) -> Frame | None:
        """The newest frame that was not yet taken."""

    def close(self, timeout: float) -> bool:
        """Shut down and wait at most this many seconds; whether it has ended."""


class Pump(QObject):
    """Polls the engine from the GUI thread: every event in order, of the frames only the newest."""

    event_arrived = Signal(object)
    frame_arrived = Signal(object)

    def __init__(self, engine: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self.tick)
        self.stopped = False  # the engine said its last word

    def start(self) -> None:
        self._timer.start()

    def take_over(self, engine: EngineClient) -> None:
        """Poll this engine from now on."""
        self._engine = engine
        self.stopped = False

    def stop(self) -> None:
        """Poll no more; what has arrived until now is still delivered."""
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
        for event in self._engine.drain():
            if isinstance(event, Stopped):
                self.stopped = True
            self.event_arrived.emit(event)
        if frame is not None:
            self.frame_arrived.emit(frame)
