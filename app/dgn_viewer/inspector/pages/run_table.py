"""The table model of recorded runs: one row per run, with sorting, filter, ticks and renaming."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor

from dgn_engine.protocol.runs import RecordedRun
from dgn_engine.scene.elements import OVERLAYS
from dgn_engine.scene.number_style import rewrite_numbers
from dgn_engine.scene.run_text import format_age
from dgn_engine.scene.theme import Theme
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.text.printable import printable, printable_name
from dgn_engine.text.written_numbers import format_duration, format_percent
from dgn_viewer.style.stylesheet import wrapping_tip

Index = QModelIndex | QPersistentModelIndex
NAME, NOTES = 0, 9
SORT = int(Qt.ItemDataRole.UserRole)
_ROOT = QModelIndex()


@dataclass(frozen=True)
class RunColumn:
    """A column: its title, the text of a cell, the sort key, and the layout."""

    title: str
    text: Callable[[RecordedRun], str]
    key: Callable[[RecordedRun], str | float]
    width: int
    about: str = ""
    number: bool = False


def best_in_words(run: RecordedRun) -> str:
    """Return '96.1 % at 1,200', or '' if no test accuracy is known."""
    return "" if math.isnan(run.best) else f"{format_percent(run.best)} at {run.best_step:,}"


COLUMNS: tuple[RunColumn, ...] = (
    RunColumn("name", lambda run: run.shown_name, lambda run: run.shown_name.casefold(), 180,
              "Double-click or press F2 to rename; the folder keeps its name"),
    RunColumn("network", lambda run: run.net, lambda run: run.net, 76),
    RunColumn("data", lambda run: run.data, lambda run: run.data, 80),
    RunColumn("regime", lambda run: run.regime, lambda run: run.regime, 60),
    RunColumn("best", best_in_words, lambda run: -1.0 if math.isnan(run.best) else run.best, 130,
              "Best test accuracy in the last regime, and the step that first reached it", True),
    RunColumn("steps", lambda run: f"{run.step:,}", lambda run: run.step, 60, "", True),
    RunColumn("time", lambda run: format_duration(run.seconds), lambda run: run.seconds, 54,
              "Recording time, excluding breaks between sessions",
              True),
    RunColumn("size", lambda run: bytes_in_words(run.bytes), lambda run: run.bytes, 62,
              "Total size of its files", True),
    RunColumn("status", lambda run: run.status, lambda run: run.status, 80),
    RunColumn("notes", lambda run: " ".join(run.notes.split()),
              lambda run: run.notes.casefold(), 160),
)  # fmt: skip


def trouble_in_words(run: RecordedRun) -> str:
    """Return why a damaged run cannot be read, or how to repair it, without a full stop."""
    repair = f"'dgn runs repair {run.name}' recovers the intact part"
    return run.trouble.removesuffix(".") or repair


def describe_run(run: RecordedRun, now: float) -> tuple[str, str]:
    """Return headline and status: ('DL · fc · digits · seed 0', 'stopped at step 1,200 · …')."""
    if run.status == "damaged":
        return run.name, f"damaged: {trouble_in_words(run)}"
    headline = f"{run.regime} · {run.net} · {run.data} · seed {run.seed}"
    total = f" of {run.total_steps:,}" if run.total_steps else ""
    best = f" · best {format_percent(run.best)}" if run.best == run.best else ""
    age = "now" if run.status == "running" else format_age(now - run.touched)
    problem = f" · {run.trouble}" if run.trouble else ""
    return headline, f"{run.status} at step {run.step:,}{total}{best} · {age}{problem}"


class RunTable(QAbstractTableModel):
    """The model of recorded runs, which only changes when the engine has confirmed it.

    Signals: `ticked_changed(folders)` in the order of ticking, `renamed(run, name)` as a request,
    and `refused(reason)` with a sentence.
    """

    ticked_changed = Signal(tuple)
    renamed = Signal(object, str)
    refused = Signal(str)

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._now = 0.0
        self.runs: tuple[RecordedRun, ...] = ()
        self.ticked: tuple[str, ...] = ()

    def show_runs(self, runs: tuple[RecordedRun, ...], now: float) -> None:
        """Show a new list, without a model reset if it has the same folders."""
        same_folders = [recorded.folder for recorded in self.runs] == [
            recorded.folder for recorded in runs
        ]
        self._now = now
        if same_folders:
            self.runs = runs
            self._emit_all_changed()
        else:
            self.beginResetModel()
            self.runs = runs
            self.endResetModel()
        listed_folders = {run.folder for run in runs}
        self._set_ticked_folders(
            tuple(folder for folder in self.ticked if folder in listed_folders)
        )

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._emit_all_changed()

    def untick_all(self) -> None:
        self._set_ticked_folders(())

    # Qt

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self.runs)

    def columnCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = COLUMNS[section]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return column.title
            case Qt.ItemDataRole.ToolTipRole:
                return column.about or None
            case Qt.ItemDataRole.TextAlignmentRole:
                return _cell_alignment(column)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        if index.column() == NAME:
            flags |= Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsEditable
        return flags

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        run, column = self.runs[index.row()], COLUMNS[index.column()]
        if role == SORT:
            return column.key(run)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _cell_alignment(column)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            is_known = run.status != "damaged" or column.title in (
                "name",
                "size",
                "status",
                "notes",
            )
            text = column.text(run) if is_known else ""
            if role == Qt.ItemDataRole.DisplayRole:
                text = printable_name(text)
            return rewrite_numbers(text, self._theme.numbers) if column.number else text
        if role == Qt.ItemDataRole.ToolTipRole:
            return wrapping_tip(self._tooltip_text(run, index.column()))
        return self._tick_data(run, role) if index.column() == NAME else None

    def setData(self, index: Index, value: object, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Set a tick, or request a new name, which is shown once the engine has confirmed it."""
        run = self.runs[index.row()]
        if role == Qt.ItemDataRole.CheckStateRole:
            return self._set_ticked(run, Qt.CheckState(value) == Qt.CheckState.Checked)
        if role == Qt.ItemDataRole.EditRole and isinstance(value, str):
            name = "" if value.strip() == run.name else value.strip()
            if name != run.given_name:
                self.renamed.emit(run, name)
        return False

    # Private

    def _tooltip_text(self, run: RecordedRun, column: int) -> str:
        if column == NOTES and run.notes:
            return run.notes
        headline, status = describe_run(run, self._now)
        return f"{headline}, {status}. {run.folder}"

    def _tick_data(self, run: RecordedRun, role: int) -> object:
        ticked = run.folder in self.ticked
        if role == Qt.ItemDataRole.CheckStateRole:
            return Qt.CheckState.Checked if ticked else Qt.CheckState.Unchecked
        if role == Qt.ItemDataRole.ForegroundRole and ticked:
            return QColor(self._theme.role_colour(OVERLAYS[self.ticked.index(run.folder)]))
        if role == Qt.ItemDataRole.AccessibleTextRole:
            overlaid = ", curves overlaid" if ticked else ""
            return printable(
                f"{run.shown_name}, {', '.join(describe_run(run, self._now))}{overlaid}"
            )
        return None

    def _set_ticked(self, run: RecordedRun, ticked: bool) -> bool:
        others = tuple(folder for folder in self.ticked if folder != run.folder)
        if ticked and len(others) >= len(OVERLAYS):
            self.refused.emit(f"At most {len(OVERLAYS)} runs can be overlaid: untick one first.")
            return False
        if ticked and run.status == "damaged":
            self.refused.emit(f"{run.shown_name} is damaged: its curves cannot be read.")
            return False
        self._set_ticked_folders((*others, run.folder) if ticked else others)
        return True

    def _set_ticked_folders(self, folders: tuple[str, ...]) -> None:
        if folders != self.ticked:
            self.ticked = folders
            self._emit_all_changed()
            self.ticked_changed.emit(folders)

    def _emit_all_changed(self) -> None:
        if self.runs:
            last = self.index(len(self.runs) - 1, len(COLUMNS) - 1)
            self.dataChanged.emit(self.index(0, 0), last)


class RunFilter(QSortFilterProxyModel):
    """A filter for rows that contain every search word; sorts by value instead of text."""

    def __init__(self, source: RunTable, parent: QObject) -> None:
        super().__init__(parent)
        self._source = source
        self._words: tuple[str, ...] = ()
        self.setSortRole(SORT)
        self.setSourceModel(source)

    def set_search_words(self, text: str) -> None:
        search_words = tuple(text.casefold().split())
        if search_words != self._words:
            self._words = search_words
            self.invalidate()

    def filterAcceptsRow(self, source_row: int, source_parent: Index) -> bool:
        if not self._words:
            return True
        run = self._source.runs[source_row]
        parts = (run.name, run.given_name, run.net, run.data, run.regime, run.status, run.notes)
        text = " ".join((*parts, f"seed {run.seed}")).casefold()
        return all(word in text for word in self._words)


def _cell_alignment(column: RunColumn) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column.number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
