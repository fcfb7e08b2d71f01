"""`dgn` as a child process, so that its errors cannot affect the window or its run.

The child watches its standard input, a pipe: when the pipe is closed, or the window ends in any
way, the child stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from dgn_engine.confinement.child_process import DEVNULL, PIPE, ChildProcess, module_command
from dgn_engine.errors import UserError
from dgn_engine.experiments.report import reproduction_progress
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress

EVERY = 250  # polling interval, milliseconds
PATIENCE = 8.0  # seconds to save its state and exit


class DgnProcess(QObject):
    """Runs one `dgn` command at a time.

    `progressed` carries the progress; `ended` the exit code and the last line of stderr.
    """

    progressed = Signal(object)
    ended = Signal(int, str)

    def __init__(
        self, parent: QObject | None = None, program: Sequence[str] = (), every: int = EVERY
    ) -> None:
        """`program`: replaces `dgn`, in front of the arguments. `every`: polling interval in ms."""
        super().__init__(parent)
        self._program = program
        self._folder = Path()
        self._child: ChildProcess | None = None
        self._timer = QTimer(self, interval=every)
        self._timer.timeout.connect(self._poll_process)
        self._last: ReproductionProgress | None = None

    @property
    def pid(self) -> int | None:
        """Process id, or None if no process is running."""
        return None if self._child is None else self._child.pid

    @property
    def is_running(self) -> bool:
        return self._child is not None

    def start(self, arguments: Sequence[str], folder: Path) -> None:
        """Start `dgn ARGUMENTS`, which writes its result to `folder`."""
        assert not self.is_running
        self._folder, self._last = folder, _read_earlier_progress(folder)
        program = self._program or module_command("dgn_engine.cli._attached")
        try:
            self._child = ChildProcess(
                [*program, *arguments, "--quiet"],
                stdin=PIPE,
                stdout=DEVNULL,
                keep_errors=True,
                own_group=False,  # Ctrl-C reaches it too, and it saves its work
            )
        except OSError as error:
            self.ended.emit(1, f"Could not start dgn: {error.strerror}.")
            return
        self._timer.start()

    def stop(self) -> None:
        """Ask the process to save its state and exit; it can be resumed."""
        if self._child is not None:
            self._child.close_input()

    def close(self) -> None:
        """Stop the process and wait; kill it if it does not exit in time."""
        self._timer.stop()
        if self._child is not None:
            self._child.close(PATIENCE)
            self._child = None

    def _poll_process(self) -> None:
        self.report_progress()
        child = self._child
        if child is None or child.exit_code is None:
            return
        code, error = child.exit_code, child.last_error_line()
        self.close()
        self.ended.emit(abs(code), error)  # a signal is reported as a negative code

    def report_progress(self) -> None:
        """Emit `progressed` if there is new progress."""
        try:
            now = reproduction_progress.read_progress(self._folder)
        except UserError:  # nothing written yet: it is loading torch
            return
        if now != self._last and now.state == "running":
            self._last = now
            self.progressed.emit(now)


def _read_earlier_progress(folder: Path) -> ReproductionProgress | None:
    """Return the progress that an earlier process left in the folder, which is to be ignored."""
    try:
        return reproduction_progress.read_progress(folder)
    except UserError:
        return None
