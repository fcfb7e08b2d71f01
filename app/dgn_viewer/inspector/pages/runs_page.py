"""The inspector's page of recorded runs: a table; open, go on, compare, draw, note, delete."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QAction
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
        self._noted: RecordedRun | None = None  # whose notes are in the field
        self.runs = RunTable(theme, self)
        self.shown = RunFilter(self.runs, self)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Filter: name, network, data, regime, notes")
        self.search.setAccessibleName("Filter the recorded runs")
        self.search.setClearButtonEnabled(True)
        for clear in self.search.findChildren(QToolButton):
            clear.setAccessibleName("Clear the filter")
        self.table = _table(self.shown)
        self.message = MessageLine("Reading the folder of runs…")
        self.notes = QPlainTextEdit()
        self.notes.setAccessibleName("Notes on the chosen run")
        self.notes.setPlaceholderText("Notes on the chosen run")
        self.notes.setFixedHeight(56)
        self.notes.setTabChangesFocus(True)
        self.notes.installEventFilter(self)
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
        self._question = plain_label()
        self._yes = push_button("Delete", self._answer)
        self._no = push_button("Keep", self._forget_question)
        self._asked: tuple[RecordedRun, ...] = ()
        self._for_good = False
        self._lay_out()
        self._connect()
        self.set_theme(theme)
        self._refresh()

    def show_runs(self, listed: RunsListed) -> None:
        chosen = self._chosen()
        self._root = listed.root
        self._awaited, self._outdated = False, ""
        self.runs.show_runs(listed.runs, time.time())
        for place, one in enumerate(COLUMNS):
            if one.number:  # '3…5' would be another number
                wide = self.table.sizeHintForColumn(place) + 1
                self.table.setColumnWidth(place, max(self.table.columnWidth(place), wide))
        known = {run.folder for run in self.runs.runs}
        if chosen is not None and chosen.folder in known:
            self.choose(chosen.folder)
        elif self.shown.rowCount():
            self.table.setCurrentIndex(self.shown.index(0, NAME))
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

    def choose(self, folder: str) -> None:
        """Make this run the chosen one, where it is in sight."""
        for place, run in enumerate(self.runs.runs):
            if run.folder == folder:
                index = self.shown.mapFromSource(self.runs.index(place, NAME))
                current = self.table.currentIndex().row() == index.row()
                selected = bool(self.selected())  # nothing is, in a list that was read anew
                if index.isValid() and not (current and selected):
                    self.table.setCurrentIndex(index)

    def ask_for_good(self, folders: tuple[str, ...]) -> None:
        """There is no trash for these: ask whether they are to be deleted for good."""
        self._ask(tuple(run for run in self.runs.runs if run.folder in folders), for_good=True)

    def leave(self) -> None:
        """Keep what was written into the field of notes."""
        self._keep_notes()

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Notes are kept when the field is left."""
        if watched is self.notes and event.type() == QEvent.Type.FocusOut:
            self._keep_notes()
        return False

    # What is chosen

    def _chosen(self) -> RecordedRun | None:
        index = self.shown.mapToSource(self.table.currentIndex())
        return self.runs.runs[index.row()] if index.isValid() else None

    def selected(self) -> tuple[RecordedRun, ...]:
        """The selected rows, from the top."""
        rows = self.table.selectionModel().selectedRows(NAME)
        places = sorted((index.row(), self.shown.mapToSource(index).row()) for index in rows)
        return tuple(self.runs.runs[place] for _, place in places)

    def _refresh(self) -> None:
        run, many = self._chosen(), len(self.selected()) > 1
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
        self._follow_notes(run)

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
            self.message.say(f"{len(self.selected())} runs are selected.")
        else:
            self.message.say(why or ", ".join(words_of(run, time.time())))

    # What is done

    def _show_run(self) -> None:
        run = self._chosen()
        if run is not None and self.show_run.isEnabled():
            self._send(ShowRun(run.folder))

    def _continue(self) -> None:
        run = self._chosen()
        if run is not None and self.go_on.isEnabled():
            self._send(ContinueRun(run.folder))

    def _compare(self) -> None:
        run = self._chosen()
        if run is not None:
            self._send(CompareRun(run.folder))

    def _export(self) -> None:
        run = self._chosen()
        if run is not None:
            self.export_wanted.emit(run)

    def _rename(self) -> None:
        index = self.table.currentIndex()
        if index.isValid():
            self.table.edit(index.siblingAtColumn(NAME))

    def _note(self, run: RecordedRun, name: str) -> None:
        self._send(NoteRun(run.folder, name, run.notes))

    def _keep_notes(self) -> None:
        run, text = self._noted, self.notes.toPlainText().strip()
        if run is not None and text != run.notes:
            known = {one.folder: one for one in self.runs.runs}
            name = known[run.folder].given_name if run.folder in known else run.given_name
            self._noted = replace(run, notes=text)
            self._send(NoteRun(run.folder, name, text))

    def _follow_notes(self, run: RecordedRun | None) -> None:
        """Show the notes of another run, and what came of ours; what is being typed stays."""
        before = self._noted
        if run is None or before is None or run.folder != before.folder:
            self._keep_notes()
            self._noted = run
            self.notes.setPlainText(run.notes if run is not None else "")
        elif self.notes.toPlainText().strip() == before.notes:
            self._noted = run
            if run.notes != before.notes:
                self.notes.setPlainText(run.notes)
        self.notes.setEnabled(run is not None)

    def _tick_chosen(self) -> None:
        index = self.table.currentIndex()
        if index.isValid():
            role = Qt.ItemDataRole.CheckStateRole
            at = index.siblingAtColumn(NAME)
            ticked = at.data(role) == Qt.CheckState.Checked
            state = Qt.CheckState.Unchecked if ticked else Qt.CheckState.Checked
            self.shown.setData(at, state.value, role)

    # Deletion asks in place

    def _ask_to_delete(self) -> None:
        self._ask(self.selected(), for_good=False)

    def _ask(self, runs: tuple[RecordedRun, ...], for_good: bool) -> None:
        written = [run for run in runs if run.status == "running"]
        if written:
            self.message.refuse(f"{written[0].shown_name} is being written; nothing was deleted.")
            return
        if not runs:
            return
        size = bytes_in_words(sum(run.bytes for run in runs))
        what = runs[0].shown_name if len(runs) == 1 else f"{len(runs)} runs"
        where = "There is no trash for" if for_good else "Move"
        rest = f" ({size}). Delete for good?" if for_good else f" ({size}) to the trash?"
        self._question.setText(f"{where} {what}{rest}")
        self._yes.setText("Delete for good" if for_good else "Move to trash")
        self._asked, self._for_good = runs, for_good
        self._show_question(True)
        self._no.setFocus()

    def _answer(self) -> None:
        runs, for_good = self._asked, self._for_good
        self._forget_question()
        if for_good:
            for run in runs:
                self._send(DeleteRun(run.folder))
        else:
            self.trash_wanted.emit(tuple(run.folder for run in runs))

    def _forget_question(self) -> None:
        self._asked = ()
        self._show_question(False)
        self.table.setFocus()

    def _show_question(self, asked: bool) -> None:
        for part in (self._question, self._yes, self._no):
            part.setVisible(asked)

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
        self.runs.renamed.connect(self._note)
        self.runs.refused.connect(self.message.refuse)

    def _on_search(self, text: str) -> None:
        self.shown.search(text)
        if not self.table.currentIndex().isValid() and self.shown.rowCount():
            self.table.setCurrentIndex(self.shown.index(0, NAME))
        self._refresh()

    def _open_menu(self, place: QPoint) -> None:
        self.menu.popup(self.table.viewport().mapToGlobal(place))

    def _lay_out(self) -> None:
        self.menu = QMenu(self)
        for text, keys, do_it in (
            ("Open", "", self._show_run),
            ("Continue", "", self._continue),
            ("Compare", "", self._compare),
            ("Draw its curves over the current run", "", self._tick_chosen),
            ("Rename", "", self._rename),
            ("Export…", "", self._export),
            ("Delete…", "Del", self._ask_to_delete),
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
        answers = row(self._yes, self._no, 1, spacing=8)
        parts = (
            self.search,
            (self.table, 1),
            drawn,
            self.message,
            self._question,
            answers,
            self.notes,
        )
        column(*parts, buttons, into=self, margins=(16, 4, 16, 12), spacing=8)
        self._show_question(False)


def why_not(run: RecordedRun) -> str:
    """Why a run cannot be continued; empty where it can."""
    if run.status == "running":
        return "This run is being written now, here or by another program."
    if run.status == "damaged":
        return f"This run is damaged: {trouble_in_words(run)}."
    return ""


def _table(model: RunFilter) -> QTableView:
    table = QTableView()
    table.setModel(model)
    table.setAccessibleName("Recorded runs")
    table.setFrameShape(QFrame.Shape.NoFrame)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setSortingEnabled(True)
    table.sortByColumn(-1, Qt.SortOrder.AscendingOrder)  # as listed: the newest first
    table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
    table.setEditTriggers(
        QAbstractItemView.EditTrigger.DoubleClicked | QAbstractItemView.EditTrigger.EditKeyPressed
    )
    table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    table.setTabKeyNavigation(False)  # Tab leaves the table
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(_ROW)
    header = table.horizontalHeader()
    header.setHighlightSections(False)
    header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
    for place, one in enumerate(COLUMNS):
        header.resizeSection(place, one.width)
    header.setStretchLastSection(True)
    return table
