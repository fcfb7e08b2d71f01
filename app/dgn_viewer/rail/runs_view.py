"""The view of recorded runs: a list of lines, or a table of columns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from PySide6.QtCore import (
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QPoint,
    Qt,
    Signal,
)
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QPlainTextEdit,
    QTableView,
)

from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import NoteRun, RecordedRun
from dgn_viewer.rail.run_line import (
    HEADING_ROW,
    ROW,
    RunCell,
    RunLine,
    tick_box_of,
)
from dgn_viewer.rail.run_table import COLUMNS, LINE, NAME, RunTable

_TABLE_ROW = 26  # pixels
_LONGEST_MEASURED = 200  # texts of a column whose widths are measured


@dataclass(frozen=True)
class _Kept:
    """The state of a view before its rows change: the current run, its row, what is selected."""

    folder: str = ""
    selected: tuple[str, ...] = ()
    row: int = -1
    scrolled: int = 0
    in_sight: bool = True


class RunsView(QTableView):
    """Recorded runs as a list of painted lines or, `wide`, as a table of columns.

    `open_wanted`: show the current run. `undo_wanted`: restore what was deleted last.
    """

    open_wanted = Signal()
    undo_wanted = Signal()

    def __init__(self, runs: RunTable) -> None:
        super().__init__()
        self.runs = runs
        self.wide = False
        self.setModel(runs)
        self.setAccessibleName("Recorded runs")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setMouseTracking(True)  # hovered rows
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setTabKeyNavigation(False)  # Tab leaves the table
        self.verticalHeader().hide()
        self.verticalHeader().setMinimumSectionSize(HEADING_ROW)
        self.setItemDelegate(RunCell(runs, self))
        self.setItemDelegateForColumn(LINE, RunLine(runs, self))
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        for index, item in enumerate(COLUMNS):
            header.resizeSection(index, item.width)
        header.setStretchLastSection(True)
        header.setSortIndicator(-1, Qt.SortOrder.DescendingOrder)
        header.sortIndicatorChanged.connect(self._on_header)
        self._kept = _Kept()
        self._low_rows: tuple[int, ...] = ()  # rows as high as a heading
        runs.modelAboutToBeReset.connect(self._keep_selection)
        runs.modelReset.connect(self._restore_selection)
        self.show_form(wide=False)

    def show_form(self, wide: bool) -> None:
        """Show all columns, or the list of lines."""
        self.wide = wide
        header = self.horizontalHeader()
        header.setSectionsClickable(wide)
        header.setSortIndicatorShown(wide)
        header.setVisible(wide)
        for column in range(len(COLUMNS)):
            self.setColumnHidden(column, wide == (column == LINE))
        policy = Qt.ScrollBarPolicy
        self.setHorizontalScrollBarPolicy(
            policy.ScrollBarAsNeeded if wide else policy.ScrollBarAlwaysOff
        )
        self.verticalHeader().setDefaultSectionSize(_TABLE_ROW if wide else ROW)
        self.runs.show_days(not wide)
        self._size_rows()

    def show_runs(self, runs: tuple[RecordedRun, ...]) -> None:
        """Show these runs, keeping the current one if possible, else selecting the first."""
        self.runs.show_runs(runs, time.time())
        self._size_rows()
        if self.current_run() is None:
            self.choose_first()

    def filter_rows(self, text: str) -> None:
        self.runs.search(text)
        if self.current_run() is None:
            self.choose_first()

    def sort_by(self, title: str) -> None:
        """Sort by a column or by time, and mark the column in the header."""
        titles = [column.title for column in COLUMNS]
        header = self.horizontalHeader()
        blocked = header.blockSignals(True)
        self.runs.sort_by(title)
        order = Qt.SortOrder
        header.setSortIndicator(
            titles.index(title) if title in titles else -1,
            order.DescendingOrder if self.runs.descending else order.AscendingOrder,
        )
        header.blockSignals(blocked)

    def current_run(self) -> RecordedRun | None:
        return self.runs.run_at(self.currentIndex().row())

    def selected_runs(self) -> tuple[RecordedRun, ...]:
        """Return the selected runs, from top to bottom."""
        rows = sorted(index.row() for index in self.selectionModel().selectedRows(NAME))
        return tuple(run for row in rows if (run := self.runs.run_at(row)) is not None)

    def choose_run(self, folder: str) -> None:
        """Select this run, unless it is filtered out."""
        row = self.runs.row_of(folder)
        chosen = any(run.folder == folder for run in self.selected_runs())
        if row >= 0 and not (self.currentIndex().row() == row and chosen):
            # The view's own setCurrentIndex() extends a selection while Ctrl or Shift is held.
            flags = QItemSelectionModel.SelectionFlag
            index = self.runs.index(row, self._shown_column())
            self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)

    def choose_first(self) -> None:
        if self.runs.shown:
            self.choose_run(self.runs.shown[0].folder)

    def rename_current(self) -> None:
        index = self.currentIndex()
        if index.isValid():
            self.edit(index.siblingAtColumn(self._shown_column()))

    def toggle_current_tick(self) -> None:
        """Tick or untick the current run, to overlay its curves or remove them."""
        index = self.currentIndex()
        if index.isValid():
            role = Qt.ItemDataRole.CheckStateRole
            line = index.siblingAtColumn(LINE)
            ticked = line.data(role) == Qt.CheckState.Checked
            state = Qt.CheckState.Unchecked if ticked else Qt.CheckState.Checked
            self.runs.setData(line, state.value, role)

    def tick_at(self, place: QPoint) -> bool:
        """Tick or untick the run whose tick box is at this place; False if there is none."""
        index = self.indexAt(place)
        if not index.isValid() or self.runs.run_at(index.row()) is None:
            return False
        box = tick_box_of(self.itemDelegateForIndex(index), self.visualRect(index))
        if index.column() != self._shown_column() or not box.adjusted(-5, -5, 5, 5).contains(place):
            return False
        self.setCurrentIndex(index)
        self.toggle_current_tick()
        return True

    # Qt

    def mousePressEvent(self, event: QMouseEvent) -> None:
        left = event.button() == Qt.MouseButton.LeftButton
        if not (left and self.tick_at(event.position().toPoint())):
            super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            super().mouseDoubleClickEvent(event)
        elif not self.tick_at(event.position().toPoint()):
            index = self.indexAt(event.position().toPoint())
            if self.runs.run_at(index.row()) is not None:
                self.setCurrentIndex(index)
                self.open_wanted.emit()

    def event(self, event: QEvent) -> bool:
        """Undo a deletion with the keys of Undo while the list has the focus."""
        is_key = event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent)
        if is_key and event.matches(QKeySequence.StandardKey.Undo) and self.property("can_undo"):  # type: ignore[attr-defined]
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.state() == QAbstractItemView.State.EditingState:
            super().keyPressEvent(event)  # Return ends the editing, and opens no run
        elif event.matches(QKeySequence.StandardKey.Undo) and self.property("can_undo"):
            self.undo_wanted.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.open_wanted.emit()
        elif event.key() == Qt.Key.Key_Space:
            self.toggle_current_tick()
        elif event.key() == Qt.Key.Key_F2:
            self.rename_current()
        else:
            super().keyPressEvent(event)

    # Private

    def _shown_column(self) -> int:
        return NAME if self.wide else LINE

    def _on_header(self, column: int, order: Qt.SortOrder) -> None:
        self.runs.sort(column, order)

    def _size_rows(self) -> None:
        """Make headings lower than runs, and columns of numbers as wide as their numbers."""
        headings = tuple(self.runs.heading_rows())
        height = _TABLE_ROW if self.wide else ROW
        for row in set(self._low_rows) - set(headings):  # a run took the place of a heading
            if row < self.runs.rowCount():
                self.setRowHeight(row, height)
        for row in headings:
            self.setRowHeight(row, HEADING_ROW)
        self._low_rows = headings
        if not self.wide:
            return
        metrics = self.fontMetrics()
        for index, item in enumerate(COLUMNS):
            if item.number:  # never elide a number
                texts = sorted({item.text(run) for run in self.runs.runs}, key=len, reverse=True)
                longest = texts[:_LONGEST_MEASURED]
                width = max(map(metrics.horizontalAdvance, longest), default=0) + 20
                self.setColumnWidth(index, max(self.columnWidth(index), width))

    def _keep_selection(self) -> None:
        current = self.current_run()
        selected = tuple(run.folder for run in self.selected_runs())
        folder = current.folder if current is not None else ""
        shown = self.visualRect(self.currentIndex())
        in_sight = current is None or self.viewport().rect().intersects(shown)
        row = self.currentIndex().row()
        self._kept = _Kept(folder, selected, row, self.verticalScrollBar().value(), in_sight)

    def _restore_selection(self) -> None:
        """Select again what was selected, in sight if it was."""
        self._size_rows()
        kept = self._kept
        if self.runs.is_listed(kept.folder):
            self.choose_run(kept.folder)
        elif kept.folder:  # it was deleted: the one that took its place, or the last
            last = self.runs.rowCount() - 1
            near = (*range(kept.row, last + 1), *range(min(kept.row, last), -1, -1))
            runs = (run for row in near if (run := self.runs.run_at(row)) is not None)
            if (neighbour := next(runs, None)) is not None:
                self.choose_run(neighbour.folder)
        rows = [row for name in kept.selected if (row := self.runs.row_of(name)) >= 0]
        if len(rows) > 1:
            chosen = QItemSelection()
            for row in rows:
                index = self.runs.index(row, NAME)
                chosen.select(index, index)
            flags = QItemSelectionModel.SelectionFlag
            self.selectionModel().select(chosen, flags.Select | flags.Rows)
        self.verticalScrollBar().setValue(kept.scrolled)
        current = self.currentIndex()
        if not kept.in_sight:
            return
        if self.runs.shown and self.current_run() is self.runs.shown[0]:
            self.scrollToTop()  # with the heading above it
        elif current.isValid():
            self.scrollTo(current)


class NotesField(QPlainTextEdit):
    """The notes of the current run, saved when the field loses focus."""

    def __init__(self, runs: RunTable, send: Callable[[Command], None]) -> None:
        super().__init__()
        self._runs, self._send = runs, send
        self._noted: RecordedRun | None = None  # the run whose notes are shown
        self.setAccessibleName("Notes on the selected run")
        self.setPlaceholderText("Notes, and #tags")
        self.setFixedHeight(44)
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
