"""Experiments in the window: begun, stopped, gone on with, opened again, watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QMainWindow

from dgn_engine.errors import UserError
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.result_layout import REPORT
from dgn_engine.protocol.catalogue import ExperimentEntry
from dgn_engine.protocol.commands import Command, StartRun
from dgn_engine.protocol.run_state import RunState
from dgn_engine.storage.runs.folder_layout import CONFIG, results_root
from dgn_viewer.experiments.dgn_process import DgnProcess
from dgn_viewer.experiments.live_unit import to_watch
from dgn_viewer.experiments.reproduce_request import ReproduceRequest
from dgn_viewer.experiments.results_panel import ResultsPanel
from dgn_viewer.notices import Notice, NoticeButton
from dgn_viewer.settings import Settings
from dgn_viewer.shell.file_dialogs import CHECKPOINTS

BUSY = "An experiment is running; stop it, or wait for its end."
_INTERRUPTED = 130
_EPOCHS = 20  # of the value networks where the run in the window has no end


class ExperimentRunner(QObject):
    """Owns the child process and fills the panel. `wanted`: the panel shall be seen."""

    wanted = Signal()
    changed = Signal()

    def __init__(
        self,
        window: QMainWindow,
        panel: ResultsPanel,
        send: Callable[[Command], None],
        settings: Settings,
        tell: Callable[[Notice], None],
        run_state: Callable[[], RunState],
    ) -> None:
        super().__init__(window)
        self._window = window
        self._panel = panel
        self._send = send
        self._settings = settings
        self._tell = tell
        self._run_state = run_state
        self._folder = Path()
        self._command: tuple[str, ...] = ()
        self._title = ""
        self.child = DgnProcess(self)
        self.child.told.connect(panel.show_standing)
        self.child.ended.connect(self._on_ended)
        panel.stop_wanted.connect(self.stop)
        panel.go_on_wanted.connect(self._go_on)
        panel.watch_wanted.connect(self.watch)
        panel.report_wanted.connect(self._open_report)

    @property
    def running(self) -> bool:
        """Whether one is being carried out."""
        return self.child.running

    def begin(self, entry: ExperimentEntry, wish: ReproduceRequest) -> str:
        """Start it; why not, in one sentence, or ''."""
        if self.running:
            return BUSY
        self._start(wish.arguments, wish.folder, entry.title, f"{entry.paper} · {entry.id}")
        return ""

    def stop(self) -> None:
        """It puts away what it is at."""
        self.child.stop()

    def watch(self) -> None:
        """Train its next run in the window's own session, beside the child."""
        try:
            unit, config = to_watch(self._folder)
        except UserError as refusal:
            self._tell(Notice("refused", str(refusal)))
            return
        self._send(StartRun(config))
        self._tell(Notice("info", f"{unit} of '{self._title}' is trained here too."))

    def open_result(self) -> None:
        """Ask for a folder and show the result in it."""
        dialog = QFileDialog(self._window, "Open result", str(results_root()))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(lambda path: self.show_folder(Path(path)))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def show_folder(self, folder: Path) -> None:
        """Show what lies there; what is running goes on and is shown again at its end."""
        try:
            found = document.read(folder)
        except UserError as refusal:
            self._tell(Notice("refused", str(refusal)))
            return
        if self.running:
            self._tell(Notice("refused", BUSY))
            return
        self._folder, self._command, self._title = folder, found.command, found.title
        self.wanted.emit()
        self._panel.show_document(found)

    def gate_information(self) -> None:
        """Ask for a checkpoint and measure what its gates know."""
        dialog = QFileDialog(
            self._window, "Gate information of a checkpoint", self._settings.export_folder,
            CHECKPOINTS,
        )  # fmt: skip
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda path: self.measure(Path(path)))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def measure(self, file: Path) -> None:
        """Value networks are trained as the run in the window is, on its data."""
        config = self._run_state().current_config()
        if config is None or self.running:
            self._tell(Notice("refused", BUSY if self.running else "There is no run to go by."))
            return
        epochs = config.training.epochs or _EPOCHS
        folder = results_root() / f"gate-information-{file.stem}-{config.data.name}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            asked = folder / f"asked-{CONFIG}"
            asked.write_text(config.to_toml(), encoding="utf-8")
        except OSError as error:
            self._tell(Notice("refused", f"{folder} cannot be written: {error.strerror}."))
            return
        command = ("gate-information", str(file), str(asked), "--epochs", str(epochs))
        title = f"Gate information of {file.name}"
        self._start((*command, "--out", str(folder)), folder, title, "[NPF] Definition 5.1")

    def close(self) -> None:
        """End the child, so that it can be gone on with."""
        self.child.close()

    def _start(self, command: Sequence[str], folder: Path, title: str, paper: str) -> None:
        self._folder, self._command, self._title = folder, tuple(command), title
        self.wanted.emit()
        self._panel.show_beginning(title, paper)
        self.child.start(command, folder)
        self.changed.emit()

    def _go_on(self) -> None:
        if not self.running and self._command:
            self._start(self._command, self._folder, self._title, self._panel.paper.text())

    def _on_ended(self, code: int, said: str) -> None:
        trouble = "" if code in (0, _INTERRUPTED) else said or f"It ended with exit code {code}."
        trouble = trouble.strip().splitlines()[-1] if trouble else ""
        try:
            found = document.read(self._folder)
        except UserError:
            self._panel.show_trouble(trouble or "It was stopped before it had begun.")
        else:
            self._panel.show_document(found, trouble)
            if code == 0 and not self._panel.isVisible():
                show = NoticeButton("Show", self.wanted.emit)
                self._tell(Notice("info", f"{self._title} is done.", offers=(show,)))
        if trouble:
            self._tell(Notice("refused", trouble))
        self.changed.emit()

    def _open_report(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folder / f"{REPORT}.html")))
