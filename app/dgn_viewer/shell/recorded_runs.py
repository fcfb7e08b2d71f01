"""Recorded runs and session files in the window: opened, saved, offered after a crash."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QMainWindow

from dgn_engine.protocol.commands import (
    Command,
    ContinueRun,
    ListRuns,
    OpenSession,
    Resume,
    SaveSession,
    ShowRun,
)
from dgn_engine.protocol.events import (
    DiscardConfirmation,
    EngineReady,
    Event,
    RunShown,
    RunsListed,
    RunStarted,
    SessionSaved,
)
from dgn_engine.protocol.recorded import RecordedRun
from dgn_viewer.notices import Notice, NoticeButton
from dgn_viewer.scene.relative_time import ago
from dgn_viewer.settings import Settings

SESSIONS = "Sessions (*.dgn);;All files (*)"


class RecordedRuns(QObject):
    """Asks for files, sends commands and tells what came of them.

    `look_wanted(look)`: the window of a session that is on show, as JSON. `list_wanted`: the list
    of runs shall be opened. `aside`: the folder of the run that ended for the one on show.
    """

    look_wanted = Signal(str)
    list_wanted = Signal()

    def __init__(
        self,
        window: QMainWindow,
        send: Callable[[Command], None],
        settings: Settings,
        tell: Callable[[Notice], None],
        look: Callable[[], str],
        save_weights: Callable[[], object],
    ) -> None:
        super().__init__(window)
        self._window = window
        self._send = send
        self._settings = settings
        self._tell = tell
        self._look = look
        self._save_weights = save_weights
        self._offered = False
        self.aside = ""

    def open_run(self) -> None:
        """The list of the user's runs."""
        self.list_wanted.emit()
        self._send(ListRuns())

    def open_session(self) -> None:
        """Ask for a session file; the engine reads it."""
        dialog = self._dialog("Open session")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda path: self._send(OpenSession(path)))
        dialog.open()

    def save_session(self) -> None:
        """Ask for a file; the engine writes the run there, and the window as it looks now."""
        look = self._look()
        dialog = self._dialog("Save session")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("dgn")
        dialog.selectFile("session.dgn")
        dialog.fileSelected.connect(lambda path: self._send(SaveSession(path, look)))
        dialog.open()

    def go_back(self) -> None:
        """Go on with the run that ended for the one on show."""
        if self.aside:
            self._send(ContinueRun(self.aside))

    def on_event(self, event: Event) -> None:
        """Follow the engine."""
        match event:
            case EngineReady() if not self._offered:
                self._send(ListRuns())
            case RunsListed(runs=runs) if not self._offered:
                self._offered = True
                self._offer(runs)
            case RunStarted():
                self.aside = ""
            case RunShown():
                self.aside = event.aside
                if event.look != "null":
                    self.look_wanted.emit(event.look)
                self._tell(self._shown(event))
            case DiscardConfirmation():
                self._tell(self._asked(event))
            case SessionSaved(step=step, path=path):
                self._settings.export_folder = str(Path(path).parent)
                self._tell(Notice("info", f"Session of step {step:,} saved as {path}."))
            case _:
                pass

    def _offer(self, runs: tuple[RecordedRun, ...]) -> None:
        """After a crash: what was interrupted last, once; it is not put aside by looking away."""
        refused = self._settings.dismissed
        lost = [
            run
            for run in runs
            if run.status == "interrupted" and run.resumable and run.name not in refused
        ]
        if not lost:
            return
        run, more = lost[0], len(lost) - 1
        others = f" {more} more: File, Open run…" if more else ""
        self._tell(
            Notice(
                "info",
                f"The run {run.name} was interrupted at step {run.step:,}, "
                f"{ago(time.time() - run.touched)}.{others}",
                offers=(
                    NoticeButton("Continue", lambda: self._send(ContinueRun(run.folder))),
                    NoticeButton("Show", lambda: self._send(ShowRun(run.folder))),
                    NoticeButton("Dismiss", lambda: self._dismiss(tuple(one.name for one in lost))),
                ),
            )
        )

    def _dismiss(self, names: tuple[str, ...]) -> None:
        self._settings.dismissed = (*self._settings.dismissed, *names)
        self._settings.save()

    def _shown(self, shown: RunShown) -> Notice:
        if shown.file_name:
            date = shown.saved[:16].replace("T", " ")
            words = f"{shown.file_name} shows {shown.name} at step {shown.step:,}, saved {date}."
        else:
            words = f"{shown.name} is shown as it was at step {shown.step:,}: {shown.status}."
        offers = [NoticeButton("Continue", lambda: self._send(Resume()))]
        if shown.aside:
            words += f" The run before is not lost: it is recorded as {Path(shown.aside).name}."
            offers.append(NoticeButton("Back to it", self.go_back))
        return Notice("info", words, offers=tuple(offers))

    def _asked(self, ends: DiscardConfirmation) -> Notice:
        """Before a run is lost that nobody can bring back."""
        act = f"showing {ends.name}" if ends.shown else f"going on with {ends.name}"
        words = "Show it and lose the run" if ends.shown else "Go on with it and lose the run"
        return Notice(
            "refused",
            f"The run in progress is not recorded: {act} ends it for good at step {ends.step:,}.",
            offers=(
                NoticeButton("Keep the run", lambda: None),
                NoticeButton("Save its weights…", self._save_weights),
                NoticeButton(words, lambda: self._send(ends.anyway)),
            ),
        )

    def _dialog(self, title: str) -> QFileDialog:
        dialog = QFileDialog(self._window, title, self._settings.export_folder, SESSIONS)
        dialog.finished.connect(dialog.deleteLater)
        return dialog
