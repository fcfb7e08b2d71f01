"""`dgn` as a child process: a fault in it leaves the window and its run untouched.

Its standard input is a pipe whose end it watches: closing that stops it, and so does the end of the
window, however that comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from dgn_engine.confinement.child_process import DEVNULL, PIPE, ChildProcess, module_command
from dgn_engine.errors import UserError
from dgn_engine.experiments.report import reproduction_progress
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress

EVERY = 250  # milliseconds between two looks at its progress and at whether it has ended
PATIENCE = 8.0  # seconds that it has to save what it is at


class DgnProcess(QObject):
    """One command at a time. `progressed`: how far it is; `ended`: exit code, last line of
    stderr."""

    progressed = Signal(object)
    ended = Signal(int, str)

    def __init__(
        self, parent: QObject | None = None, program: Sequence[str] = (), every: int = EVERY
    ) -> None:
        """`program`: what is started with the arguments, in the place of `dgn`.
        `every`: milliseconds between two looks at it."""
        super().__init__(parent)
        self._program = program
        self._folder = Path()
        self._child: ChildProcess | None = None
        self._timer = QTimer(self, interval=every)
        self._timer.timeout.connect(self._poll)
        self._last: ReproductionProgress | None = None

    @property
    def pid(self) -> int | None:
        """The number of the process, where one runs."""
        return None if self._child is None else self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None

    def start(self, arguments: Sequence[str], folder: Path) -> None:
        """`dgn ARGUMENTS`, whose result will lie in `folder`."""
        assert not self.running
        self._folder, self._last = folder, _left_behind(folder)
        program = self._program or module_command("dgn_engine.cli._attached")
        try:
            self._child = ChildProcess(
                [*program, *arguments, "--quiet"],
                stdin=PIPE,
                stdout=DEVNULL,
                keep_errors=True,
                own_group=False,  # it saves its work on Ctrl-C, as the window does
            )
        except OSError as error:
            self.ended.emit(1, f"dgn could not be started: {error.strerror}.")
            return
        self._timer.start()

    def stop(self) -> None:
        """Ask it to save what it is at and to end, so that it can be continued."""
        if self._child is not None:
            self._child.close_input()

    def close(self) -> None:
        """Stop it and wait; one that does not end is killed, and loses its last seconds."""
        self._timer.stop()
        if self._child is not None:
            self._child.close(PATIENCE)
            self._child = None

    def _poll(self) -> None:
        self.look()
        child = self._child
        if child is None or child.code is None:
            return
        code, trouble = child.code, child.last_error_line()
        self.close()
        self.ended.emit(abs(code), trouble)  # of a signal its number

    def look(self) -> None:
        """Tell how far it is, where that is further than before."""
        try:
            now = reproduction_progress.read(self._folder)
        except UserError:  # it is loading torch
            return
        if now != self._last and now.state == "running":
            self._last = now
            self.progressed.emit(now)


def _left_behind(folder: Path) -> ReproductionProgress | None:
    """What an earlier process wrote there: it says nothing of the one that begins."""
    try:
        return reproduction_progress.read(folder)
    except UserError:
        return None
