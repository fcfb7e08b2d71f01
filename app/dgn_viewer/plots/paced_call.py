"""A call that is made once in a frame, however often it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

FRAME_MS = 33
TRAINING_MS = 80  # while a network trains at full speed: it waits for each call, and its painting


class PacedCall(QObject):
    """Made at once when it is asked for after a pause, and then once in `every` milliseconds; the
    last one asked for is never lost."""

    def __init__(self, call: Callable[[], None], parent: QObject, every: int = FRAME_MS) -> None:
        super().__init__(parent)
        self._call = call
        self._wanted = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(every)
        self._timer.timeout.connect(self._over)

    def space(self, every: int) -> None:
        """From the next call on, so many milliseconds lie between two."""
        self._timer.setInterval(every)

    def ask(self) -> None:
        """Make the call now, or with the next frame."""
        self._wanted = True
        if not self._timer.isActive():
            self._over()

    def now(self) -> None:
        """Make it now, whatever was asked for."""
        self._wanted = False
        self._call()

    def catch_up(self) -> None:
        """Make it now where it was asked for and has not been made."""
        if self._wanted:
            self.now()

    def _over(self) -> None:
        if self._wanted:
            self.now()
            self._timer.start()
