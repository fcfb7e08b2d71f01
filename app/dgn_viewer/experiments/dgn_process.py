"""`dgn` as a child process: a fault in it leaves the window and its run untouched.

Its standard input is a pipe whose end it watches: closing that stops it, and so does the end of the
window, however that comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from dgn_engine.confinement.child import module_command, python_environment
from dgn_engine.errors import UserError
from dgn_engine.experiments.report import reproduction_progress
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress

EVERY = 500  # milliseconds between two readings of its progress
PATIENCE = 8000  # milliseconds that it has to save what it is at


class DgnProcess(QObject):
    """One command at a time. `progressed`: how far it is; `ended`: exit code and stderr."""

    progressed = Signal(object)
    ended = Signal(int, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = Path()
        self._process = QProcess(self)
        self._process.setStandardOutputFile(QProcess.nullDevice())
        self._process.finished.connect(self._on_finished)
        self._process.errorOccurred.connect(self._on_error)
        self._timer = QTimer(self)
        self._timer.setInterval(EVERY)
        self._timer.timeout.connect(self._read_progress)
        self._last: ReproductionProgress | None = None

    @property
    def running(self) -> bool:
        return self._process.state() != QProcess.ProcessState.NotRunning

    def start(self, arguments: Sequence[str], folder: Path) -> None:
        """`dgn ARGUMENTS`, whose result will lie in `folder`."""
        assert not self.running
        self._folder = folder
        self._last = _left_behind(folder)
        environment = QProcessEnvironment()
        for name, value in python_environment().items():
            environment.insert(name, value)
        self._process.setProcessEnvironment(environment)
        program, *words = module_command("dgn_engine.cli._attached")
        self._process.start(program, [*words, *arguments, "--quiet"])
        self._timer.start()

    def stop(self) -> None:
        """Ask it to save what it is at and to end, so that it can be continued."""
        if self.running:
            self._process.closeWriteChannel()

    def close(self) -> None:
        """Stop it and wait; one that does not end is killed, and loses its last seconds."""
        self._timer.stop()
        if not self.running:
            return
        self._process.blockSignals(True)
        self._process.closeWriteChannel()
        if not self._process.waitForFinished(PATIENCE):
            self._process.kill()
            self._process.waitForFinished(PATIENCE)
        self._process.blockSignals(False)

    def _read_progress(self) -> None:
        try:
            now = reproduction_progress.read(self._folder)
        except UserError:  # it is loading torch
            return
        if now != self._last and now.state == "running":
            self._last = now
            self.progressed.emit(now)

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._timer.stop()
        said = bytes(self._process.readAllStandardError().data()).decode("utf-8", "replace").strip()
        if status == QProcess.ExitStatus.CrashExit:
            code = code or 1
        self.ended.emit(code, said)

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._timer.stop()
            self.ended.emit(1, f"dgn could not be started: {self._process.errorString()}.")


def _left_behind(folder: Path) -> ReproductionProgress | None:
    """What an earlier process wrote there: it says nothing of the one that begins."""
    try:
        return reproduction_progress.read(folder)
    except UserError:
        return None
