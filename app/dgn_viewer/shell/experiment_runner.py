"""Experiments in the window: start, stop, resume, open and watch."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices

from dgn_engine.cli import ended_by_signal
from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.errors import UserError
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.reproduce_request import ReproduceRequest, find_results
from dgn_engine.experiments.report.result_layout import PLAN, REPORT, measurement_folder
from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.training import StartRun
from dgn_engine.storage.plain_data import from_plain
from dgn_engine.storage.regular_files import read_text
from dgn_engine.storage.runs.folder_layout import CONFIG, results_root
from dgn_engine.sweep.unit import Training, Unit, unit_folder
from dgn_engine.views.event_notices import Notice, NoticeButton
from dgn_viewer.experiments.dgn_process import DgnProcess
from dgn_viewer.experiments.results_panel import ResultsDock, ResultsPanel
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.experiment_page import ExperimentPage
from dgn_viewer.rail.runs_rail import RunsRail
from dgn_viewer.shell.file_dialogs import CHECKPOINTS, ask_file
from dgn_viewer.shell.window_context import WindowContext

_NEEDS = "weights.safetensors"
BUSY = "An experiment is running; stop it or wait until it is done."


def find_run_to_watch(folder: Path) -> tuple[str, RunConfig]:
    """Return the first unfinished training whose requirements are met, else the first of all.

    Raises:
        UserError: The experiment has no plan yet.
    """
    units = [unit for unit in _read_plan(folder) if isinstance(unit, Training)]
    ready = [unit for unit in units if all(_is_finished(folder, need) for need in unit.needs)]
    if not ready:
        raise UserError("The experiment has no run to watch yet; try again in a moment.")
    unfinished = [unit for unit in ready if not _is_finished(folder, unit.id)]
    chosen = (unfinished or ready)[0]
    return chosen.id, chosen.resolve_paths(folder)


def _read_plan(folder: Path) -> list[Unit]:
    try:
        tree = json.loads(read_text(folder / PLAN))
        return [from_plain(Unit, unit) for unit in tree.values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UserError("The experiment has no plan yet; try again in a moment.") from None


def _is_finished(folder: Path, unit: str) -> bool:
    """Return whether a run has finished, that is, written its weights."""
    return (unit_folder(folder, unit) / _NEEDS).exists()


class ExperimentRunner(QObject):
    """Owner of the `dgn` process; fills its column. `changed`: it started or ended."""

    changed = Signal()

    def __init__(self, context: WindowContext, results: ResultsDock, inspector: Inspector) -> None:
        super().__init__(context.window)
        self._context = context
        self.results = results
        results.made.connect(self._connect_panel)
        self._inspector = inspector
        self.data_root = ""  # folder of the data sets; empty: default folders
        self._folder = Path()
        self._command: tuple[str, ...] = ()
        self._title = ""
        self._name = ""  # the experiment that was started last, by its id
        self._measured: Path | None = None  # checkpoint whose gates are being measured
        self._process = DgnProcess(self)
        self._process.ended.connect(self._on_ended)
        self.changed.connect(self._update_page)

    @property
    def _panel(self) -> ResultsPanel:
        return self.results.panel

    def _connect_panel(self, panel: ResultsPanel) -> None:
        self._process.progressed.connect(panel.show_progress)
        self._process.progressed.connect(panel.list.show_progress)
        panel.stop_wanted.connect(self.stop)
        panel.go_on_wanted.connect(self._continue_experiment)
        panel.watch_wanted.connect(self.watch_next_run)
        panel.report_wanted.connect(self._open_report)
        panel.again_wanted.connect(self._open_page_again)
        panel.list_wanted.connect(self.show_list)
        panel.list.opened.connect(self.open_experiment)

    def connect_reports(self, inspector: Inspector, rail: RunsRail) -> None:
        """Write the reports that the page of a file and the list of runs ask for."""
        inspector.report_wanted.connect(self.report_file)
        rail.report_wanted.connect(lambda run: self.report_run(run.folder))

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    def show_list(self) -> None:
        """Show the list of all experiments with their newest results."""
        self._panel.show_list()
        self._refresh_list()
        self.results.open()

    def show_results(self) -> None:
        """Show the running experiment or the last result, or else the list."""
        self._panel.show_current()
        if self._panel.is_showing_list:
            self.show_list()
        else:
            self.results.open()

    def open_experiment(self, entry: ExperimentEntry) -> None:
        """Show the progress or the newest result of an experiment, or the page that starts it."""
        result = self._panel.list.results.get(entry.id)
        if self.is_running and entry.id == self._name:
            self._panel.show_current()
        elif result is None or self.is_running:
            self.open_page(entry)
        else:
            self.show_folder(result.folder)

    def _refresh_list(self) -> None:
        catalogue = self._context.run_state().catalogue
        entries = catalogue.experiments if catalogue is not None else ()
        self._panel.list.offer_experiments(entries)
        found = find_results(results_root(), [entry.id for entry in entries])
        self._panel.list.show_results(found, self._name if self.is_running else "")

    def _open_page_again(self) -> None:
        if self._panel.name in self._panel.list.cards:
            self.open_page(self._panel.list.cards[self._panel.name].entry)

    def open_page(self, entry: ExperimentEntry) -> None:
        catalogue = self._context.run_state().catalogue or Catalogue((), (), (), (), ())
        self._inspector.show_page(
            ExperimentPage(entry, catalogue, self.start_experiment, self._busy_text())
        )

    def _busy_text(self) -> str:
        return BUSY if self.is_running else ""

    def _update_page(self) -> None:
        if isinstance(self._inspector.page, ExperimentPage):
            self._inspector.page.show_busy(self._busy_text())

    def start_experiment(self, entry: ExperimentEntry, request: ReproduceRequest) -> str:
        """Start an experiment and close its page; return why that is not possible, or ''."""
        if self.is_running:
            return BUSY
        request = replace(request, data_root=self.data_root)
        title, paper = entry.title, f"{entry.paper} · {entry.id}"
        self._start_command(request.arguments, request.folder, title, paper, entry.id)
        self._inspector.close_page()
        return ""

    def stop(self) -> None:
        """Stop the experiment; it saves its state and can be resumed."""
        self._process.stop()

    def watch_next_run(self) -> None:
        """Train its next run in the window's session too; the process continues."""
        try:
            unit, config = find_run_to_watch(self._folder)
        except UserError as refusal:
            self._context.notify_refusal(str(refusal))
            return
        self._context.send(StartRun(config))
        self._context.notify(Notice("info", f"Also training {unit} of '{self._title}' here."))

    def show_folder(self, folder: Path) -> None:
        """Show the result in a folder, unless an experiment is running."""
        try:
            result = document.read_document(folder)
        except UserError as refusal:
            self._context.notify_refusal(str(refusal))
            return
        if self.is_running:
            self._context.notify_refusal(BUSY)
            return
        if not document.can_resume_in(result, folder):  # a command from elsewhere is not trusted
            result = replace(result, command=())
        self._folder, self._command, self._title = folder, result.command, result.title
        self.results.open()
        self._panel.show_document(result)

    def ask_checkpoint(self) -> None:
        ask_file(
            self._context,
            "Gate information of a checkpoint",
            CHECKPOINTS,
            lambda path: self.measure_checkpoint_gates(Path(path)),
        )

    def measure_checkpoint_gates(self, file: Path) -> None:
        """Measure the gate information of a checkpoint.

        Value networks are trained with the data and settings of the current run, but for as long as
        they need: epochs of 0 leave that to the command. The file is read as specified on its page.
        """
        config = self._context.run_state().current_config()
        if config is None or self.is_running:
            self._context.notify_refusal(
                BUSY if self.is_running else "Start a run first: its data and settings are used."
            )
            return
        training = replace(config.training, epochs=0, patience=0, keep_epochs=(), until=0.0)
        text = replace(config, training=training, seed=0).to_toml()
        options = self._inspector.files.said.get(str(file), FileReading()).command_options
        name = f"gate-information-{file.stem}-{config.data.name}"
        folder = measurement_folder(name, file, f"{text}{options}")
        config_file = self._write_settings(folder, text)
        if config_file is None:
            return
        command = ("gate-information", str(file), str(config_file), *shlex.split(options))
        title = f"Gate information of {file.name}"
        self._start_command((*command, "--out", str(folder)), folder, title, "[NPF] Definition 5.1")
        self._measured = file

    def report_file(self, path: str, data: DataConfig, reading: FileReading) -> None:
        """Write a report of a checkpoint's network on these data, read as on its page."""
        if self.is_running:
            self._context.notify_refusal(BUSY)
            return
        file = Path(path)
        text = RunConfig(data=data).to_toml()
        options = reading.command_options
        folder = measurement_folder(f"report-{file.stem}-{data.name}", file, f"{text}{options}")
        if (config_file := self._write_settings(folder, text)) is not None:
            words = ("report", path, *shlex.split(options), "--config", str(config_file))
            self._start_report(words, folder, file.name)

    def report_run(self, run: str) -> None:
        """Write a report of a recorded run at its newest checkpoint, on its own data."""
        if self.is_running:
            self._context.notify_refusal(BUSY)
            return
        folder = measurement_folder(f"report-{Path(run).name}", Path(run), "")
        self._start_report(("report", run), folder, Path(run).name)

    def _start_report(self, words: tuple[str, ...], folder: Path, name: str) -> None:
        command = (*words, "--out", str(folder))
        self._start_command(command, folder, f"Report of {name}", "its gates, kernels and accuracy")

    def _write_settings(self, folder: Path, text: str) -> Path | None:
        """Write a configuration for a command to read; refuse and return None if it fails."""
        config_file = folder / f"asked-{CONFIG}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            config_file.write_text(text, encoding="utf-8")
        except OSError as error:
            self._context.notify_refusal(f"Cannot write {folder}: {error.strerror}.")
            return None
        return config_file

    def close(self) -> None:
        """End the process; the experiment can be resumed."""
        self._process.close()

    def _start_command(
        self, command: Sequence[str], folder: Path, title: str, paper: str, name: str = ""
    ) -> None:
        """`name`: the experiment of the list that runs, or ''."""
        self._folder, self._command, self._title = folder, tuple(command), title
        self._name = name
        self._measured = None
        self.results.open()
        self._panel.show_beginning(title, paper)
        self._process.start(command, folder)
        self.changed.emit()

    def _continue_experiment(self) -> None:
        if not self.is_running and self._command:
            paper, name = self._panel.paper.text(), self._panel.name
            self._start_command(self._command, self._folder, self._title, paper, name)

    def _on_ended(self, code: int, said: str) -> None:
        is_fault = bool(code) and not ended_by_signal(code)
        error = (said or f"The experiment failed with exit code {code}.") if is_fault else ""
        error = error.strip().splitlines()[-1] if error else ""
        was_list = self._panel.is_showing_list
        try:
            result = document.read_document(self._folder)
        except UserError:
            self._panel.show_trouble(error or "Stopped before it started.")
        else:
            self._panel.show_document(result, error)
            if code == 0 and not self._panel.isVisible():
                show = NoticeButton("Show", self.results.open)
                self._context.notify(Notice("info", f"{self._title} is done.", offers=(show,)))
        if error:
            self._context.notify(Notice("refused", error, offers=self._trouble_offers()))
        if was_list:
            self._panel.show_list()
            self._refresh_list()
        self.changed.emit()

    def _trouble_offers(self) -> tuple[NoticeButton, ...]:
        """Offer to open the file, whose page asks for what the file does not specify."""
        if self._measured is None:
            return ()
        ask = OpenFile(str(self._measured), "network")
        return (NoticeButton("Open file", lambda: self._context.send(ask)),)

    def _open_report(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folder / f"{REPORT}.html")))
