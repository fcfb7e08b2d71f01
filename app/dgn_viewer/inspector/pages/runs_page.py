"""The page of recorded runs: open, continue, compare, overlay, annotate and delete them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QAction, QFocusEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTableView,
    QToolButton,
    QWidget,
)

from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import (
    ContinueRun,
    DeleteRun,
    NoteRun,
    ReadCurves,
    RecordedRun,
    RunsListed,
    ShowRun,
)
from dgn_engine.scene.theme import Theme
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_viewer.inspector.pages.run_table import (
    COLUMNS,
    NAME,
    RunFilter,
    RunTable,
    describe_run,
    trouble_in_words,
)
from dgn_viewer.style.stylesheet import themed_icon
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import make_column, make_row, plain_label, push_button
from dgn_viewer.widgets.message_line import MessageLine

_ROW = 26


class RunsView(QTableView):
    """The table view of recorded runs, with selection and actions on the current run."""

    def __init__(self, runs: RunTable) -> None:
        super().__init__()
        self.runs = runs
        self.shown = RunFilter(runs, self)
        self.setModel(self.shown)
        self.setAccessibleName("Recorded runs")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setSortingEnabled(True)
        self.sortByColumn(-1, Qt.SortOrder.AscendingOrder)  # unsorted: newest first
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked
            | QAbstractItemView.EditTrigger.EditKeyPressed
        )
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setTabKeyNavigation(False)  # Tab leaves the table
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(_ROW)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        for index, item in enumerate(COLUMNS):
            header.resizeSection(index, item.width)
        header.setStretchLastSection(True)

    def show_runs(self, runs: tuple[RecordedRun, ...]) -> None:
        """Show these runs, keeping the current one if possible, else selecting the first."""
        selected_run = self.current_run()
        self.runs.show_runs(runs, time.time())
        for index, item in enumerate(COLUMNS):
            if item.number:  # never elide a number
                width = self.sizeHintForColumn(index) + 1
                self.setColumnWidth(index, max(self.columnWidth(index), width))
        listed_folders = {run.folder for run in self.runs.runs}
        if selected_run is not None and selected_run.folder in listed_folders:
            self.choose_run(selected_run.folder)
        else:
            self.choose_first()

    def filter_rows(self, text: str) -> None:
        self.shown.set_search_words(text)
        if not self.currentIndex().isValid():
            self.choose_first()

    def current_run(self) -> RecordedRun | None:
        index = self.shown.mapToSource(self.currentIndex())
        return self.runs.runs[index.row()] if index.isValid() else None

    def selected_runs(self) -> tuple[RecordedRun, ...]:
        """Return the selected runs, from top to bottom."""
        rows = self.selectionModel().selectedRows(NAME)
        pairs = sorted((index.row(), self.shown.mapToSource(index).row()) for index in rows)
        return tuple(self.runs.runs[source] for _, source in pairs)

    def choose_run(self, folder: str) -> None:
        """Select this run, unless it is filtered out."""
        for row_index, run in enumerate(self.runs.runs):
            if run.folder == folder:
                index = self.shown.mapFromSource(self.runs.index(row_index, NAME))
                current = self.currentIndex().row() == index.row()
                selected = bool(self.selected_runs())  # a model reset clears the selection
                if index.isValid() and not (current and selected):
                    self.setCurrentIndex(index)

    def choose_first(self) -> None:
        if self.shown.rowCount():
            self.setCurrentIndex(self.shown.index(0, NAME))

    def rename_current(self) -> None:
        index = self.currentIndex()
        if index.isValid():
            self.edit(index.siblingAtColumn(NAME))

    def toggle_current_tick(self) -> None:
        """Tick or untick the current run, to overlay its curves or remove them."""
        index = self.currentIndex()
        if index.isValid():
            role = Qt.ItemDataRole.CheckStateRole
            name_index = index.siblingAtColumn(NAME)
            ticked = name_index.data(role) == Qt.CheckState.Checked
            state = Qt.CheckState.Unchecked if ticked else Qt.CheckState.Checked
            self.shown.setData(name_index, state.value, role)


class NotesField(QPlainTextEdit):
    """The notes of the current run, saved when the field loses focus."""

    def __init__(self, runs: RunTable, send: Callable[[Command], None]) -> None:
        super().__init__()
        self._runs, self._send = runs, send
        self._noted: RecordedRun | None = None  # the run whose notes are shown
        self.setAccessibleName("Notes on the selected run")
        self.setPlaceholderText("Notes on the selected run")
        self.setFixedHeight(56)
        self.setTabChangesFocus(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.save_notes()
        super().focusOutEvent(event)

    def save_notes(self) -> None:
        """Send edited notes to the engine."""
        run, text = self._noted, self.toPlainText().strip()
        if run is not None and text != run.notes:
            listed_runs = {listed_run.folder: listed_run for listed_run in self._runs.runs}
            name = (
                listed_runs[run.folder].given_name if run.folder in listed_runs else run.given_name
            )
            self._noted = replace(run, notes=text)
            self._send(NoteRun(run.folder, name, text))

    def show_notes(self, run: RecordedRun | None) -> None:
        """Show the notes of a run; edits in progress for the same run are kept."""
        before = self._noted
        if run is None or before is None or run.folder != before.folder:
            self.save_notes()
            self._noted = run
            self.setPlainText(run.notes if run is not None else "")
        elif self.toPlainText().strip() == before.notes:
            self._noted = run
            if run.notes != before.notes:
                self.setPlainText(run.notes)
        self.setEnabled(run is not None)


class DeleteQuestion(QWidget):
    """An inline question whether to delete runs.

    Signals: `trash_wanted(folders)` to move them to the trash, and `answered` when it closes.
    """

    trash_wanted = Signal(tuple)
    answered = Signal()

    def __init__(self, send: Callable[[Command], None]) -> None:
        super().__init__()
        self._send = send
        self._runs: tuple[RecordedRun, ...] = ()
        self._for_good = False
        self.sentence = plain_label()
        self.yes = push_button("Delete", self._delete_runs)
        self.no = push_button("Cancel", self._dismiss_question)
        make_column(self.sentence, make_row(self.yes, self.no, 1, spacing=8), into=self, spacing=8)
        self.hide()

    def ask_deletion(self, runs: tuple[RecordedRun, ...], for_good: bool) -> None:
        """Ask whether to delete runs, permanently if there is no trash for them."""
        size = bytes_in_words(sum(run.bytes for run in runs))
        name = runs[0].shown_name if len(runs) == 1 else f"{len(runs)} runs"
        prefix = "No trash available for" if for_good else "Move"
        suffix = f" ({size}). Delete forever?" if for_good else f" ({size}) to the trash?"
        self.sentence.setText(f"{prefix} {name}{suffix}")
        self.yes.setText("Delete forever" if for_good else "Move to trash")
        self._runs, self._for_good = runs, for_good
        self.show()
        self.no.setFocus()

    def _delete_runs(self) -> None:
        runs, for_good = self._runs, self._for_good
        self._dismiss_question()
        if for_good:
            for run in runs:
                self._send(DeleteRun(run.folder))
        else:
            self.trash_wanted.emit(tuple(run.folder for run in runs))

    def _dismiss_question(self) -> None:
        self._runs = ()
        self.hide()
        self.answered.emit()


class RunsPage(QWidget):
    """The page of recorded runs, which only changes once the engine has answered.

    `export_wanted(run)` and `trash_wanted(folders)` are left to the window, because they need a
    file dialog and the platform's trash.
    """

    title = "Recorded runs"
    wanted_width = 640  # pixels
    export_wanted = Signal(object)
    trash_wanted = Signal(tuple)

    def __init__(self, send: Callable[[Command], None], theme: Theme) -> None:
        super().__init__()
        self._send = send
        self._root: str | None = None  # None until the engine has answered
        self._awaited = False  # a new list was requested
        self._outdated = ""  # why the displayed list is outdated, or ''
        self.runs = RunTable(theme, self)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Filter: name, network, data, regime, notes")
        self.search.setAccessibleName("Filter the recorded runs")
        self.search.setClearButtonEnabled(True)
        for clear_button in self.search.findChildren(QToolButton):
            clear_button.setAccessibleName("Clear the filter")
        self.table = RunsView(self.runs)
        self.message = MessageLine("Reading the runs folder…")
        self.notes = NotesField(self.runs, send)
        about = "Continue training from its last checkpoint"
        self.go_on = push_button("Continue", self._continue_run, "primary", about)
        about = "Show its curves and last readings, without training"
        self.show_run = push_button("Open", self._show_run, about=about)
        about = "Compare its scores and network with the current run"
        self.compare = push_button("Compare", self._compare_run, about=about)
        about = "Remove all overlaid curves from the current run"
        self.untick = push_button("Untick all", self.runs.untick_all, about=about)
        self.more = QToolButton()
        self._drawn = ElidedLabel(least=120)
        self.deletion = DeleteQuestion(send)
        self._lay_out()
        self._connect_signals()
        self.set_theme(theme)
        self._update_buttons()

    def show_runs(self, listed: RunsListed) -> None:
        self._root = listed.root
        self._awaited, self._outdated = False, ""
        self.table.show_runs(listed.runs)
        self._update_buttons()

    def await_list(self, working: str) -> None:
        """Expect a new list; `working` is what the engine is busy with, or ''."""
        self._awaited = True
        if working:
            self.show_work(working)

    def show_work(self, sentence: str) -> None:
        """Show what the engine is busy with before it can list the runs."""
        if self._root is None:
            self.message.show_message(f"Runs will be listed when the engine is ready: {sentence}.")
        elif self._awaited:
            self._outdated = f"This list will be updated when the engine is ready: {sentence}."
            self._update_buttons()

    def set_theme(self, theme: Theme) -> None:
        self.runs.set_theme(theme)
        self.more.setIcon(themed_icon("more", theme))

    def ask_to_delete_permanently(self, folders: tuple[str, ...]) -> None:
        """Ask whether to delete these runs permanently, because there is no trash for them."""
        self._ask_unless_running(
            tuple(run for run in self.runs.runs if run.folder in folders), for_good=True
        )

    def prepare_to_close(self) -> None:
        self.notes.save_notes()

    def _update_buttons(self) -> None:
        run, many = self.table.current_run(), len(self.table.selected_runs()) > 1
        why = reason_not_continuable(run) if run is not None else ""
        is_single = run is not None and not many
        self.show_run.setEnabled(is_single and run.status not in ("damaged", "running"))  # type: ignore[union-attr]
        self.compare.setEnabled(is_single and run.status != "damaged")  # type: ignore[union-attr]
        self.go_on.setEnabled(is_single and not why)
        self.more.setEnabled(run is not None)
        count = len(self.runs.ticked)
        self._drawn.show_text(f"{count} overlaid on the current run")
        for part in (self._drawn, self.untick):
            part.setVisible(bool(count))
        self._show_status(run, many, why)
        self.notes.show_notes(run)

    def _show_status(self, run: RecordedRun | None, many: bool, why: str) -> None:
        if self._root is None:
            return
        if self._outdated:
            self.message.show_message(self._outdated)
        elif not self.runs.runs:
            no_runs = f"There are no runs in {self._root}."
            self.message.show_message(no_runs if self._root else "Runs are not recorded.")
        elif run is None:
            self.message.show_message("No run matches the filter.")
        elif many:
            self.message.show_message(f"{len(self.table.selected_runs())} runs selected.")
        else:
            self.message.show_message(why or ", ".join(describe_run(run, time.time())))

    # Actions

    def _show_run(self) -> None:
        run = self.table.current_run()
        if run is not None and self.show_run.isEnabled():
            self._send(ShowRun(run.folder))

    def _continue_run(self) -> None:
        run = self.table.current_run()
        if run is not None and self.go_on.isEnabled():
            self._send(ContinueRun(run.folder))

    def _compare_run(self) -> None:
        run = self.table.current_run()
        if run is not None:
            self._send(CompareRun(run.folder))

    def _export_run(self) -> None:
        run = self.table.current_run()
        if run is not None:
            self.export_wanted.emit(run)

    def ask_to_delete(self) -> None:
        self._ask_unless_running(self.table.selected_runs(), for_good=False)

    def _ask_unless_running(self, runs: tuple[RecordedRun, ...], for_good: bool) -> None:
        """Ask about these runs, unless one of them is still being recorded."""
        running = [run for run in runs if run.status == "running"]
        if running:
            self.message.show_refusal(
                f"{running[0].shown_name} is still being recorded; nothing was deleted."
            )
        elif runs:
            self.deletion.ask_deletion(runs, for_good)

    # Private

    def _connect_signals(self) -> None:
        self.search.textChanged.connect(self._on_search)
        self.table.selectionModel().currentRowChanged.connect(self._update_buttons)
        self.table.selectionModel().selectionChanged.connect(self._update_buttons)
        self.table.doubleClicked.connect(
            lambda index: self._show_run() if index.column() != NAME else None
        )
        self.table.customContextMenuRequested.connect(self._open_menu)
        self.runs.ticked_changed.connect(lambda folders: self._send(ReadCurves(folders)))
        self.runs.ticked_changed.connect(self._update_buttons)
        self.runs.renamed.connect(
            lambda run, name: self._send(NoteRun(run.folder, name, run.notes))
        )
        self.runs.refused.connect(self.message.show_refusal)
        self.deletion.trash_wanted.connect(self.trash_wanted)
        self.deletion.answered.connect(self.table.setFocus)

    def _on_search(self, text: str) -> None:
        self.table.filter_rows(text)
        self._update_buttons()

    def _open_menu(self, place: QPoint) -> None:
        self.menu.popup(self.table.viewport().mapToGlobal(place))

    def _lay_out(self) -> None:
        self.menu = QMenu(self)
        for text, keys, callback in (
            ("Open", "", self._show_run),
            ("Continue", "", self._continue_run),
            ("Compare", "", self._compare_run),
            ("Overlay its curves", "", self.table.toggle_current_tick),
            ("Rename", "", self.table.rename_current),
            ("Export…", "", self._export_run),
            ("Delete…", "Del", self.ask_to_delete),
        ):
            action = QAction(text, self.menu)
            action.triggered.connect(callback)
            if keys:
                action.setShortcut(keys)
                action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
                self.table.addAction(action)
            self.menu.addAction(action)
        self.more.setMenu(self.menu)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setAccessibleName("More actions")
        self.more.setToolTip("Export, rename, delete, overlay curves")
        buttons = make_row(self.go_on, self.show_run, self.compare, self.more, 1, spacing=8)
        drawn = make_row((self._drawn, 1), self.untick, spacing=8)
        parts = (self.search, (self.table, 1), drawn, self.message, self.deletion, self.notes)
        make_column(*parts, buttons, into=self, margins=(16, 4, 16, 12), spacing=8)


def reason_not_continuable(run: RecordedRun) -> str:
    """Return why a run cannot be continued, or ''."""
    if run.status == "running":
        return "This run is still being recorded, here or by another program."
    if run.status == "damaged":
        return f"This run is damaged: {trouble_in_words(run)}."
    return ""
