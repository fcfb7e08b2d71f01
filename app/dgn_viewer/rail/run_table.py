"""The table model of recorded runs: a row per run and per day, sorted, filtered, ticked, renamed.

10,000 runs are sorted and filtered in Python lists: Qt's proxy model would ask for each row's key
and text one by one.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor

from dgn_engine.protocol.runs import RecordedRun
from dgn_engine.scene.elements import OVERLAYS
from dgn_engine.scene.number_style import rewrite_numbers
from dgn_engine.scene.run_text import format_age, name_day
from dgn_engine.scene.theme import Theme
from dgn_engine.storage.runs.run_search import search_runs, started_at
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.text.printable import printable, printable_name
from dgn_engine.text.written_numbers import format_duration, format_number, format_percent
from dgn_viewer.style.stylesheet import wrapping_tip

Index = QModelIndex | QPersistentModelIndex
LINE, NAME, NOTES = 0, 1, 10
_AUTOMATIC = re.compile(r"\d{8}-\d{6}-")
_ROOT = QModelIndex()


@dataclass(frozen=True)
class RunColumn:
    """A column: its title, the text of a cell, the sort key, and the layout.

    `last_first`: sorted by it, the highest comes first in the list.
    """

    title: str
    text: Callable[[RecordedRun], str]
    key: Callable[[RecordedRun], str | float]
    width: int
    about: str = ""
    number: bool = False
    last_first: bool = False


def own_name(run: RecordedRun) -> str:
    """Return the name that a user gave to the run or its folder; '' if the program named it."""
    return run.given_name or ("" if _AUTOMATIC.match(run.name) else run.name)


def run_title(run: RecordedRun) -> str:
    """Return its name or, if the program named it, when it was started: '26 Nov 22:03'."""
    if name := own_name(run):
        return name
    started = started_at(run)
    if started is None:
        return run.name
    return f"{name_day(started.date(), date.today())} {started:%H:%M}"


def best_in_words(run: RecordedRun) -> str:
    """Return '96.1 % at 1,200', or '' if no test accuracy is known."""
    return "" if math.isnan(run.best) else f"{format_percent(run.best)} at {run.best_step:,}"


COLUMNS: tuple[RunColumn, ...] = (
    RunColumn("run", lambda run: run.shown_name, lambda run: 0.0, 220),  # the whole of the list
    RunColumn("name", lambda run: run_title(run), lambda run: run_title(run).casefold(), 140,
              "Press F2 to rename; the folder keeps its name"),
    RunColumn("network", lambda run: run.net, lambda run: run.net, 76),
    RunColumn("data", lambda run: run.data, lambda run: run.data, 72),
    RunColumn("regime", lambda run: run.regime, lambda run: run.regime, 60),
    RunColumn("best", best_in_words, lambda run: -1.0 if math.isnan(run.best) else run.best, 90,
              "Best test accuracy in the last regime, and the step that first reached it",
              True, True),
    RunColumn("steps", lambda run: f"{run.step:,}", lambda run: run.step, 60, "", True, True),
    RunColumn("time", lambda run: format_duration(run.seconds), lambda run: run.seconds, 54,
              "Recording time, excluding breaks between sessions", True, True),
    RunColumn("size", lambda run: bytes_in_words(run.bytes), lambda run: run.bytes, 62,
              "Total size of its files", True, True),
    RunColumn("status", lambda run: run.status, lambda run: run.status, 92),
    RunColumn("notes", lambda run: " ".join(run.notes.split()),
              lambda run: run.notes.casefold(), 120),
)  # fmt: skip


NEWEST = "time started"
SORTS = (NEWEST, "best", "regime", "name", "size", "steps")  # the titles of columns


_KNOWN_OF_DAMAGED = ("run", "name", "size", "status", "notes")


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


# Made once: Qt asks for the flags of each cell that it paints.
_FLAGS = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemNeverHasChildren
_NAME_FLAGS = _FLAGS | Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsEditable


class RunTable(QAbstractTableModel):
    """The model of recorded runs, which only changes when the engine has confirmed it.

    A row is a run or, sorted by time with `with_days`, the heading of a day.

    Signals: `ticked_changed(folders)` in the order of ticking, `renamed(run, name)` as a request,
    and `refused(reason)` with a sentence.
    """

    ticked_changed = Signal(tuple)
    renamed = Signal(object, str)
    refused = Signal(str)

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.theme = theme
        self._now = 0.0
        self.runs: tuple[RecordedRun, ...] = ()  # all that are listed
        self.shown: list[RecordedRun] = []  # those that match the search, in their order
        self.ticked: tuple[str, ...] = ()
        self.without_spectrum: frozenset[str] = frozenset()  # folders of ticked runs
        self.sorted_by, self.descending = NEWEST, True
        self._search = ""
        self._with_days = False
        self._rows: list[RecordedRun | str] = []
        self._row_of: dict[str, int] = {}  # by folder
        self._started: dict[str, datetime | None] = {}  # by folder
        self._differing: dict[tuple[str, str], tuple[str, ...]] = {}

    def show_runs(self, runs: tuple[RecordedRun, ...], now: float) -> None:
        """Show a new list, without a model reset if the rows are the same."""
        self._now = now
        self.runs = runs
        self._started = {run.folder: started_at(run) for run in runs}
        self._differing = find_differences(runs)
        self._arrange_rows()
        listed_folders = {run.folder for run in runs}
        self._set_ticked_folders(
            tuple(folder for folder in self.ticked if folder in listed_folders)
        )

    def search(self, text: str) -> None:
        """Show only the runs that match these words and terms."""
        if text != self._search:
            self._search = text
            self._arrange_rows()

    def show_days(self, with_days: bool) -> None:
        """Put the heading of each day above its runs, while they are sorted by time."""
        if with_days != self._with_days:
            self._with_days = with_days
            self._arrange_rows()

    def sort_by(self, title: str, descending: bool | None = None) -> None:
        """Sort by a column, or by time; as it is usually read, if no direction is given."""
        column = next((column for column in COLUMNS if column.title == title), None)
        last_first = column is None or column.last_first
        self.sorted_by, self.descending = title, last_first if descending is None else descending
        self._arrange_rows()

    def run_at(self, row: int) -> RecordedRun | None:
        """Return the run in a row; None if it is a heading, or there is no such row."""
        item = self._rows[row] if 0 <= row < len(self._rows) else None
        return item if isinstance(item, RecordedRun) else None

    def row_of(self, folder: str) -> int:
        """Return the row of a run, -1 if it is filtered out."""
        return self._row_of.get(folder, -1)

    def is_listed(self, folder: str) -> bool:
        """Return whether there is such a run, filtered out or not."""
        return folder in self._started

    def heading_rows(self) -> list[int]:
        return [row for row, item in enumerate(self._rows) if isinstance(item, str)]

    def started(self, run: RecordedRun) -> datetime | None:
        return self._started.get(run.folder)

    def differences(self, run: RecordedRun) -> tuple[str, ...]:
        """Return what tells a run from others of its regime and network: 'seed 3', 'lr 0.001'."""
        names = self._differing.get((run.regime, run.net), ())
        parts = ((name, _setting_text(run, name)) for name in names)
        return tuple(text for _, text in parts if text)

    def cell_text(self, run: RecordedRun, column: int) -> str:
        """Return the text of a cell, in the chosen number style."""
        shown = COLUMNS[column]
        if run.status == "damaged" and shown.title not in _KNOWN_OF_DAMAGED:
            return ""
        text = printable_name(shown.text(run))
        return rewrite_numbers(text, self.theme.numbers) if shown.number else text

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self._emit_all_changed()

    def untick_all(self) -> None:
        self._set_ticked_folders(())

    def show_read(self, read: Sequence[str], without_spectrum: frozenset[str]) -> None:
        """Keep the ticks of the runs whose curves were read, so that the colours are theirs."""
        self.without_spectrum = without_spectrum
        if tuple(read) != self.ticked:
            self.ticked = tuple(read)
        self._emit_all_changed()

    def tick_colour(self, run: RecordedRun) -> QColor | None:
        """Return the colour of its overlaid curves; None if it is not ticked."""
        if run.folder not in self.ticked:
            return None
        return QColor(self.theme.role_colour(OVERLAYS[self.ticked.index(run.folder)]))

    # Qt

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self._rows)

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

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort as the header of the table asks; a column of -1 is by time, newest first."""
        if column < 0:
            self.sort_by(NEWEST)
        else:
            self.sort_by(COLUMNS[column].title, order == Qt.SortOrder.DescendingOrder)

    def flags(self, index: Index) -> Qt.ItemFlag:
        if self.run_at(index.row()) is None:
            return Qt.ItemFlag.NoItemFlags
        return _NAME_FLAGS if index.column() in (LINE, NAME) else _FLAGS

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        item, column = self._rows[index.row()], COLUMNS[index.column()]
        if isinstance(item, str):
            texts = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole)
            return item if index.column() == LINE and role in texts else None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _cell_alignment(column)
        if role == Qt.ItemDataRole.EditRole:
            return item.shown_name if index.column() in (LINE, NAME) else column.text(item)
        if role == Qt.ItemDataRole.DisplayRole:
            return self.cell_text(item, index.column())
        if role == Qt.ItemDataRole.ToolTipRole:
            return wrapping_tip(self._tooltip_text(item, index.column()))
        return self._tick_data(item, role) if index.column() in (LINE, NAME) else None

    def setData(self, index: Index, value: object, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """Set a tick, or request a new name, which is shown once the engine has confirmed it."""
        run = self.run_at(index.row())
        if run is None:
            return False
        if role == Qt.ItemDataRole.CheckStateRole:
            return self._set_ticked(run, Qt.CheckState(value) == Qt.CheckState.Checked)
        if role == Qt.ItemDataRole.EditRole and isinstance(value, str):
            name = "" if value.strip() == run.name else value.strip()
            if name != run.given_name:
                self.renamed.emit(run, name)
        return False

    # Private

    def _arrange_rows(self) -> None:
        """Filter, sort and head the rows; reset the model unless they are the same runs."""
        self.shown = self._sorted_runs(search_runs(self._search, self.runs))
        rows: list[RecordedRun | str] = []
        if self._with_days and self.sorted_by == NEWEST:
            heading, today = "", datetime.now().astimezone().date()
            for run in self.shown:
                started = self.started(run)
                day = "Unknown day" if started is None else name_day(started.date(), today)
                if day != heading:
                    rows.append(heading := day)
                rows.append(run)
        else:
            rows.extend(self.shown)
        if list(map(_row_key, rows)) == list(map(_row_key, self._rows)):
            self._rows = rows
            self._emit_all_changed()
            return
        self.beginResetModel()
        self._rows = rows
        self._row_of = {
            item.folder: row for row, item in enumerate(rows) if isinstance(item, RecordedRun)
        }
        self.endResetModel()

    def _sorted_runs(self, runs: list[RecordedRun]) -> list[RecordedRun]:
        newest_first = sorted(runs, key=self._timestamp, reverse=True)
        column = next((column for column in COLUMNS if column.title == self.sorted_by), None)
        if column is None:
            return newest_first if self.descending else newest_first[::-1]
        return sorted(newest_first, key=column.key, reverse=self.descending)

    def _timestamp(self, run: RecordedRun) -> float:
        started = self.started(run)
        return started.timestamp() if started is not None else run.touched

    def _tooltip_text(self, run: RecordedRun, column: int) -> str:
        if column == NOTES and run.notes:
            return run.notes
        headline, status = describe_run(run, self._now)
        parts = [f"{headline}, {status}.", run.folder]
        if column == LINE:
            parts = [run.given_name, *parts, run.notes]
        if run.folder in self.ticked and run.folder in self.without_spectrum:
            parts.append("Only its curves are overlaid: its last step has no NPK spectrum.")
        return "\n".join(part for part in parts if part)

    def _tick_data(self, run: RecordedRun, role: int) -> object:
        ticked = run.folder in self.ticked
        if role == Qt.ItemDataRole.CheckStateRole:
            return Qt.CheckState.Checked if ticked else Qt.CheckState.Unchecked
        if role == Qt.ItemDataRole.ForegroundRole and ticked:
            return self.tick_colour(run)
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
        if self._rows:
            last = self.index(len(self._rows) - 1, len(COLUMNS) - 1)
            self.dataChanged.emit(self.index(0, 0), last)


# What may tell two runs of one regime and network apart, the most telling first.
_TELLING: Mapping[str, Callable[[RecordedRun], float | str | None]] = {
    "data": lambda run: run.data,
    "lr": lambda run: run.settings.get("lr"),
    "batch": lambda run: run.settings.get("batch"),
    "optimiser": lambda run: run.settings.get("optimiser"),
    "input": lambda run: run.settings.get("input"),
    "seed": lambda run: run.seed,
}
_BARE = ("data", "optimiser")  # their value says what it is


def find_differences(runs: Sequence[RecordedRun]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the names in which the runs of each regime and network differ; else 'data'."""
    groups: dict[tuple[str, str], list[RecordedRun]] = defaultdict(list)
    for run in runs:
        if run.status != "damaged":
            groups[run.regime, run.net].append(run)
    return {
        group: tuple(
            name for name, value in _TELLING.items() if len({value(run) for run in members}) > 1
        )
        or ("data",)
        for group, members in groups.items()
    }


def _setting_text(run: RecordedRun, name: str) -> str:
    value = _TELLING[name](run)
    if value is None or value == "":
        return ""
    if name == "data":  # 'folder:/home/me/flowers' is told by its last part
        value = str(value).replace("\\", "/").rstrip("/").rpartition("/")[2]
    text = format_number(value) if isinstance(value, float) else printable_name(str(value))
    return text if name in _BARE else f"{name} {text}"


def _row_key(item: RecordedRun | str) -> str:
    return item.folder if isinstance(item, RecordedRun) else f"\0{item}"


def _cell_alignment(column: RunColumn) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column.number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
