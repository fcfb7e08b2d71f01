"""The inspector's page of recorded runs: a table; open, go on, compare, draw, note, delete."""

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
    trouble_in_words,
    words_of,
)
from dgn_viewer.style.stylesheet import icon
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import column, plain_label, push_button, row
from dgn_viewer.widgets.message_line import MessageLine

_ROW = 26


class RunsView(QTableView):
    """The table of runs: which of its rows are chosen, and what is done to the current one."""

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
        self.sortByColumn(-1, Qt.SortOrder.AscendingOrder)  # as listed: the newest first
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
        """Show these runs; the one that was chosen stays chosen, else the first is."""
        chosen = self.current()
        self.runs.show_runs(runs, time.time())
        for index, item in enumerate(COLUMNS):
            if item.number:  # '3…5' would be another number
                wide = self.sizeHintForColumn(index) + 1
                self.setColumnWidth(index, max(self.columnWidth(index), wide))
        known = {run.folder for run in self.runs.runs}
        if chosen is not None and chosen.folder in known:
            self.choose(chosen.folder)
        else:
            self.choose_first()

    def search(self, text: str) -> None:
        self.shown.search(text)
        if not self.currentIndex().isValid():
            self.choose_first()

    def current(self) -> RecordedRun | None:
        index = self.shown.mapToSource(self.currentIndex())
        return self.runs.runs[index.row()] if index.isValid() else None

    def selected(self) -> tuple[RecordedRun, ...]:
        """The selected rows, from the top."""
        rows = self.selectionModel().selectedRows(NAME)
        pairs = sorted((index.row(), self.shown.mapToSource(index).row()) for index in rows)
        return tuple(self.runs.runs[source] for _, source in pairs)

    def choose(self, folder: str) -> None:
        """Make this run the chosen one, where it is in sight."""
        for row_of_run, run in enumerate(self.runs.runs):
            if run.folder == folder:
                index = self.shown.mapFromSource(self.runs.index(row_of_run, NAME))
                current = self.currentIndex().row() == index.row()
                selected = bool(self.selected())  # nothing is, in a list that was read anew
                if index.isValid() and not (current and selected):
                    self.setCurrentIndex(index)

    def choose_first(self) -> None:
        if self.shown.rowCount():
            self.setCurrentIndex(self.shown.index(0, NAME))

    def rename_current(self) -> None:
        index = self.currentIndex()
        if index.isValid():
            self.edit(index.siblingAtColumn(NAME))

    def tick_current(self) -> None:
        """Draw the curves of the current run, or draw them no more."""
        index = self.currentIndex()
        if index.isValid():
            role = Qt.ItemDataRole.CheckStateRole
            at = index.siblingAtColumn(NAME)
            ticked = at.data(role) == Qt.CheckState.Checked
            state = Qt.CheckState.Unchecked if ticked else Qt.CheckState.Checked
            self.shown.setData(at, state.value, role)


class NotesField(QPlainTextEdit):
    """The notes of the chosen run; what was written is kept when the field is left."""

    def __init__(self, runs: RunTable, send: Callable[[Command], None]) -> None:
        super().__init__()
        self._runs, self._send = runs, send
        self._noted: RecordedRun | None = None  # whose notes are in the field
        self.setAccessibleName("Notes on the chosen run")
        self.setPlaceholderText("Notes on the chosen run")
        self.setFixedHeight(56)
        self.setTabChangesFocus(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.keep()
        super().focusOutEvent(event)

    def keep(self) -> None:
        """Have the engine note what was written."""
        run, text = self._noted, self.toPlainText().strip()
        if run is not None and text != run.notes:
            known = {other.folder: other for other in self._runs.runs}
            name = known[run.folder].given_name if run.folder in known else run.given_name
            self._noted = replace(run, notes=text)
            self._send(NoteRun(run.folder, name, text))

    def show_notes(self, run: RecordedRun | None) -> None:
        """Show the notes of another run, and what came of ours; what is being typed stays."""
        before = self._noted
        if run is None or before is None or run.folder != before.folder:
            self.keep()
            self._noted = run
            self.setPlainText(run.notes if run is not None else "")
        elif self.toPlainText().strip() == before.notes:
            self._noted = run
            if run.notes != before.notes:
                self.setPlainText(run.notes)
        self.setEnabled(run is not None)


class DeleteQuestion(QWidget):
    """Whether runs are to be deleted, asked in place.

    `trash_wanted(folders)`: they are to be moved to the trash; `answered`: nothing is asked now.
    """

    trash_wanted = Signal(tuple)
    answered = Signal()

    def __init__(self, send: Callable[[Command], None]) -> None:
        super().__init__()
        self._send = send
        self._runs: tuple[RecordedRun, ...] = ()
        self._for_good = False
        self.sentence = plain_label()
        self.yes = push_button("Delete", self._delete)
        self.no = push_button("Keep", self._forget)
        column(self.sentence, row(self.yes, self.no, 1, spacing=8), into=self, spacing=8)
        self.hide()

    def ask(self, runs: tuple[RecordedRun, ...], for_good: bool) -> None:
        """`for_good`: there is no trash for them."""
        size = bytes_in_words(sum(run.bytes for run in runs))
        what = runs[0].shown_name if len(runs) == 1 else f"{len(runs)} runs"
        where = "There is no trash for" if for_good else "Move"
        rest = f" ({size}). Delete for good?" if for_good else f" ({size}) to the trash?"
        self.sentence.setText(f"{where} {what}{rest}")
        self.yes.setText("Delete for good" if for_good else "Move to trash")
        self._runs, self._for_good = runs, for_good
        self.show()
        self.no.setFocus()

    def _delete(self) -> None:
        runs, for_good = self._runs, self._for_good
        self._forget()
        if for_good:
            for run in runs:
                self._send(DeleteRun(run.folder))
        else:
            self.trash_wanted.emit(tuple(run.folder for run in runs))

    def _forget(self) -> None:
        self._runs = ()
        self.hide()
        self.answered.emit()


class RunsPage(QWidget):
    """The engine is asked; nothing changes before it answers.

    `export_wanted(run)`, `trash_wanted(folders)`: who opened the page sees to these, which need
    a file dialog and the platform.
    """

    title = "Recorded runs"
    wanted_width = 640  # pixels
    export_wanted = Signal(object)
    trash_wanted = Signal(tuple)

    def __init__(self, send: Callable[[Command], None], theme: Theme) -> None:
        super().__init__()
        self._send = send
        self._root: str | None = None  # None: the engine has not answered yet
        self._awaited = False  # asked for again since the last list
        self._outdated = ""  # why the list on show is of before
        self.runs = RunTable(theme, self)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Filter: name, network, data, regime, notes")
        self.search.setAccessibleName("Filter the recorded runs")
        self.search.setClearButtonEnabled(True)
        for clear in self.search.findChildren(QToolButton):
            clear.setAccessibleName("Clear the filter")
        self.table = RunsView(self.runs)
        self.message = MessageLine("Reading the folder of runs…")
        self.notes = NotesField(self.runs, send)
        about = "Train on from its last checkpoint"
        self.go_on = push_button("Continue", self._continue, "primary", about)
        about = "Its curves and its last readings, without training"
        self.show_run = push_button("Open", self._show_run, about=about)
        about = "Its scores and its network beside those of the current run"
        self.compare = push_button("Compare", self._compare, about=about)
        about = "Draw no other run over the current one any more"
        self.untick = push_button("Untick all", self.runs.untick_all, about=about)
        self.more = QToolButton()
        self._drawn = ElidedLabel(least=120)
        self.deletion = DeleteQuestion(send)
        self._lay_out()
        self._connect()
        self.set_theme(theme)
        self._refresh()

    def show_runs(self, listed: RunsListed) -> None:
        self._root = listed.root
        self._awaited, self._outdated = False, ""
        self.table.show_runs(listed.runs)
        self._refresh()

    def await_list(self, working: str) -> None:
        """The list is asked for again; `working`: what the engine does first, or ''."""
        self._awaited = True
        if working:
            self.show_work(working)

    def show_work(self, sentence: str) -> None:
        """Say what the engine is busy with while the list waits for it."""
        if self._root is None:
            self.message.say(f"The runs are listed when the engine has done this: {sentence}.")
        elif self._awaited:
            self._outdated = f"This list is out of date until the engine has done this: {sentence}."
            self._refresh()

    def set_theme(self, theme: Theme) -> None:
        self.runs.set_theme(theme)
        self.more.setIcon(icon("more", theme))

    def ask_for_good(self, folders: tuple[str, ...]) -> None:
        """There is no trash for these: ask whether they are to be deleted for good."""
        self._ask(tuple(run for run in self.runs.runs if run.folder in folders), for_good=True)

    def leave(self) -> None:
        self.notes.keep()

    def _refresh(self) -> None:
        run, many = self.table.current(), len(self.table.selected()) > 1
        why = why_not(run) if run is not None else ""
        one = run is not None and not many
        self.show_run.setEnabled(one and run.status not in ("damaged", "running"))  # type: ignore[union-attr]
        self.compare.setEnabled(one and run.status != "damaged")  # type: ignore[union-attr]
        self.go_on.setEnabled(one and not why)
        self.more.setEnabled(run is not None)
        count = len(self.runs.ticked)
        self._drawn.say(f"{count} drawn over the current run")
        for part in (self._drawn, self.untick):
            part.setVisible(bool(count))
        self._say(run, many, why)
        self.notes.show_notes(run)

    def _say(self, run: RecordedRun | None, many: bool, why: str) -> None:
        if self._root is None:
            return
        if self._outdated:
            self.message.say(self._outdated)
        elif not self.runs.runs:
            where = f"There are no runs in {self._root}."
            self.message.say(where if self._root else "Runs are not recorded.")
        elif run is None:
            self.message.say("No run has all of these words.")
        elif many:
            self.message.say(f"{len(self.table.selected())} runs are selected.")
        else:
            self.message.say(why or ", ".join(words_of(run, time.time())))

    # What is done

    def _show_run(self) -> None:
        run = self.table.current()
        if run is not None and self.show_run.isEnabled():
            self._send(ShowRun(run.folder))

    def _continue(self) -> None:
        run = self.table.current()
        if run is not None and self.go_on.isEnabled():
            self._send(ContinueRun(run.folder))

    def _compare(self) -> None:
        run = self.table.current()
        if run is not None:
            self._send(CompareRun(run.folder))

    def _export(self) -> None:
        run = self.table.current()
        if run is not None:
            self.export_wanted.emit(run)

    def ask_to_delete(self) -> None:
        self._ask(self.table.selected(), for_good=False)

    def _ask(self, runs: tuple[RecordedRun, ...], for_good: bool) -> None:
        """Ask about these runs, unless one of them is being written."""
        written = [run for run in runs if run.status == "running"]
        if written:
            self.message.refuse(f"{written[0].shown_name} is being written; nothing was deleted.")
        elif runs:
            self.deletion.ask(runs, for_good)

    # Inside

    def _connect(self) -> None:
        self.search.textChanged.connect(self._on_search)
        self.table.selectionModel().currentRowChanged.connect(self._refresh)
        self.table.selectionModel().selectionChanged.connect(self._refresh)
        self.table.doubleClicked.connect(
            lambda index: self._show_run() if index.column() != NAME else None
        )
        self.table.customContextMenuRequested.connect(self._open_menu)
        self.runs.ticked_changed.connect(lambda folders: self._send(ReadCurves(folders)))
        self.runs.ticked_changed.connect(self._refresh)
        self.runs.renamed.connect(
            lambda run, name: self._send(NoteRun(run.folder, name, run.notes))
        )
        self.runs.refused.connect(self.message.refuse)
        self.deletion.trash_wanted.connect(self.trash_wanted)
        self.deletion.answered.connect(self.table.setFocus)

    def _on_search(self, text: str) -> None:
        self.table.search(text)
        self._refresh()

    def _open_menu(self, place: QPoint) -> None:
        self.menu.popup(self.table.viewport().mapToGlobal(place))

    def _lay_out(self) -> None:
        self.menu = QMenu(self)
        for text, keys, do_it in (
            ("Open", "", self._show_run),
            ("Continue", "", self._continue),
            ("Compare", "", self._compare),
            ("Draw its curves over the current run", "", self.table.tick_current),
            ("Rename", "", self.table.rename_current),
            ("Export…", "", self._export),
            ("Delete…", "Del", self.ask_to_delete),
        ):
            action = QAction(text, self.menu)
            action.triggered.connect(do_it)
            if keys:
                action.setShortcut(keys)
                action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
                self.table.addAction(action)
            self.menu.addAction(action)
        self.more.setMenu(self.menu)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setAccessibleName("More for this run")
        self.more.setToolTip("Export, rename, delete, draw its curves")
        buttons = row(self.go_on, self.show_run, self.compare, self.more, 1, spacing=8)
        drawn = row((self._drawn, 1), self.untick, spacing=8)
        parts = (self.search, (self.table, 1), drawn, self.message, self.deletion, self.notes)
        column(*parts, buttons, into=self, margins=(16, 4, 16, 12), spacing=8)


def why_not(run: RecordedRun) -> str:
    """Why a run cannot be continued; empty where it can."""
    if run.status == "running":
        return "This run is being written now, here or by another program."
    if run.status == "damaged":
        return f"This run is damaged: {trouble_in_words(run)}."
    return ""
