"""Recorded runs and session files: open, save, export, move to trash, offer after a crash."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from dgn_engine.protocol.messages import EngineReady, Event
from dgn_engine.protocol.runs import (
    ContinueRun,
    DiscardConfirmation,
    ExportRun,
    KeepRun,
    ListRuns,
    RecordedRun,
    RunContinued,
    RunShown,
    RunsListed,
    SaveSession,
    SessionSaved,
    ShowRun,
    ThinRuns,
)
from dgn_engine.protocol.training import Resume
from dgn_engine.scene.run_text import format_age, name_in_words
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.views.event_notices import Notice, NoticeButton
from dgn_viewer.rail.rail_bar import RailBar
from dgn_viewer.shell.file_dialogs import ask_new_file
from dgn_viewer.shell.remote_run import RemoteRun
from dgn_viewer.shell.run_bin import RunBin
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.shell.window_layout import WindowLayout

SESSIONS = "Sessions (*.dgn);;All files (*)"
EXPORTS = "Whole run (*.dgn);;Scores (*.csv)"


class RecordedRuns(QObject):
    """Asks for files, sends commands and reports their results.

    `settings_wanted`: show the storage limits. `branch_page_wanted(step)`: show the page of
    branches with this step.
    """

    settings_wanted = Signal()
    branch_page_wanted = Signal(int)

    def __init__(
        self,
        context: WindowContext,
        bar: RailBar,
        layouts: WindowLayout,
        save_weights: Callable[[], object],
    ) -> None:
        """`save_weights` asks for a file and saves the weights."""
        super().__init__(context.window)
        self._context = context
        self._bar, self._layouts = bar, layouts
        self.bin = RunBin(context)
        bar.rail.export_wanted.connect(self.export_run)
        bar.rail.branch_wanted.connect(self.prepare_branch)
        bar.rail.trash_wanted.connect(self.bin.delete_runs)
        bar.rail.undo_wanted.connect(self.bin.undo_last)
        self.bin.refused.connect(bar.rail.ask_to_delete_permanently)
        self.bin.changed.connect(lambda: bar.rail.set_can_undo(self.bin.can_undo))
        self._save_weights = save_weights
        self._offered = False
        self._continued = set[str]()  # folders of the runs that this window has continued
        self._over = 0  # the exceeded limit that has been reported
        self.remote = RemoteRun(context)

    def open_run(self) -> None:
        """Unfold the list of runs, to find one with its filter."""
        self._bar.open()

    def save_session(self) -> None:
        """Ask for a file; the engine writes run and window layout there."""
        layout = self._layouts.layout_json()
        ask_new_file(
            self._context,
            "Save session",
            SESSIONS,
            "session.dgn",
            lambda path: self._context.send(SaveSession(path, layout)),
        )

    def export_run(self, run: RecordedRun) -> None:
        """Ask for a file; the engine writes the run, or its scores, there."""
        ask_new_file(
            self._context,
            "Export run",
            EXPORTS,
            f"{run.name}.dgn",
            lambda path: self._context.send(ExportRun(run.folder, path)),
        )

    def prepare_branch(self, run: RecordedRun) -> None:
        """Show the run, and the page that branches it, at its best step."""
        self._context.send(ShowRun(run.folder))
        self.branch_page_wanted.emit(run.best_step)

    def return_to_previous_run(self) -> None:
        """Continue the run that was replaced by the one on show."""
        shown = self._context.run_state().recorded
        if shown is not None and shown.replaced:
            self._context.send(ContinueRun(shown.replaced))

    def on_event(self, event: Event) -> None:
        if isinstance(event, RunsListed):
            self._check_total_size(event)
        match event:
            case EngineReady() if not self._offered:
                self._context.send(ListRuns())
            case RunsListed(runs=runs) if not self._offered:
                self._offered = True
                self._offer_interrupted_run(runs)
            case RunContinued(folder=folder):
                self._continued.add(folder)
            case RunShown():
                if event.window != "null":
                    self._layouts.apply_session_layout(event.window)
                self._context.notify(self._shown_notice(event))
            case DiscardConfirmation():
                self._context.notify(self._confirmation_notice(event))
            case SessionSaved(step=step, path=path):
                self._context.settings.export_folder = str(Path(path).parent)
                message = f"Session at step {step:,} saved as {path}."
                self._context.notify(Notice("info", message, about="session-saved"))

    def _offer_interrupted_run(self, runs: tuple[RecordedRun, ...]) -> None:
        """Offer to continue the last interrupted run, once, unless it was dismissed."""
        dismissed = self._context.settings.dismissed
        lost = [
            run
            for run in runs
            if run.status == "interrupted" and run.resumable and run.name not in dismissed
        ]
        if not lost:
            return
        run, other_count = lost[0], len(lost) - 1
        others = f" File ▸ Recorded runs… lists {other_count} more." if other_count else ""

        def is_lost() -> bool:
            return run.folder not in self._continued

        self._context.notify(
            Notice(
                "info",
                f"The run {name_in_words(run.shown_name)} was interrupted at step {run.step:,}, "
                f"{format_age(time.time() - run.touched)}.{others}",
                offers=(
                    NoticeButton(
                        "Continue", lambda: self._context.send(ContinueRun(run.folder)), is_lost
                    ),
                    NoticeButton("Show", lambda: self._context.send(ShowRun(run.folder)), is_lost),
                    NoticeButton(
                        "Dismiss",
                        lambda: self._dismiss_runs(tuple(lost_run.name for lost_run in lost)),
                        is_lost,
                    ),
                ),
                about="interrupted",
            )
        )

    def _check_total_size(self, listed: RunsListed) -> None:
        """Report once that the runs exceed their limit, until they no longer do or it changes."""
        total = sum(run.bytes for run in listed.runs)
        if not total > listed.limit > 0:
            self._over = 0
        elif self._over != listed.limit:
            self._over = listed.limit
            used, limit = binary_size_in_words(total), binary_size_in_words(listed.limit)
            offers = (
                NoticeButton(
                    "Thin out oldest", lambda: self._context.send(ThinRuns()), self._is_over
                ),
                NoticeButton("Settings…", self.settings_wanted.emit, self._is_over),
            )
            self._context.notify(
                Notice(
                    "refused",
                    f"Recorded runs use {used}, more than the limit of {limit}.",
                    "Nothing has been deleted. Thinning out deletes seven eighths of the frames of "
                    "the oldest runs, and of their checkpoints saved before changes. Runs with a "
                    "name or notes are kept complete, as are logs, scores, last checkpoints and "
                    "weights.",
                    offers=offers,
                    about="too-large",
                )
            )

    def _is_over(self) -> bool:
        return self._over > 0

    def _dismiss_runs(self, names: tuple[str, ...]) -> None:
        self._context.settings.dismissed = (*self._context.settings.dismissed, *names)
        self._context.settings.save()

    def _shown_notice(self, shown: RunShown) -> Notice:
        if shown.file_name:
            date = shown.saved[:16].replace("T", " ")
            text = f"{shown.file_name}: run {shown.name} at step {shown.step:,}, saved {date}."
        else:
            text = f"Showing {name_in_words(shown.name)} at step {shown.step:,}: {shown.status}."
        if shown.is_live:
            text = (
                f"{name_in_words(shown.name)} is being recorded by another process and shown live."
            )

        def on_show() -> bool:
            return self._context.run_state().recorded == shown

        continue_button = NoticeButton("Continue", lambda: self._context.send(Resume()), on_show)
        run = self._context.run_state().run
        offers = [] if shown.is_live or (run is not None and run.watched) else [continue_button]
        if shown.replaced:
            text += f" Your previous run is {name_in_words(Path(shown.replaced).name)}."
            offers.append(NoticeButton("Return to it", self.return_to_previous_run, on_show))
        return Notice("info", text, offers=tuple(offers), about="run-shown")

    def _confirmation_notice(self, ends: DiscardConfirmation) -> Notice:
        """Ask before an unrecorded run is replaced."""
        act = f"showing {ends.name}" if ends.shown else f"continuing {ends.name}"
        asked = self._context.run_state().run

        def is_still_asked() -> bool:
            return self._context.run_state().run is asked

        def record_first() -> None:
            self._context.send(KeepRun())
            self._context.send(ends.anyway)

        discard_text = "Show and discard run" if ends.shown else "Continue and discard run"
        rescue = NoticeButton("Save weights…", self._save_weights, is_still_asked)
        if self._context.run_state().unrecorded:  # recording it saves everything
            rescue = NoticeButton("Record it first", record_first, is_still_asked)
        return Notice(
            "refused",
            f"The current run is not recorded; {act} discards it at step {ends.step:,}.",
            offers=(
                NoticeButton("Keep run", lambda: None, is_still_asked),
                rescue,
                NoticeButton(discard_text, lambda: self._context.send(ends.anyway), is_still_asked),
            ),
            asks=True,
            about="not-recorded",
        )
