"""A table of the differences between A and B; all text is shown literally, not as markup."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem

from dgn_engine.scene.differences import Difference, Differences
from dgn_engine.scene.theme import Theme
from dgn_viewer.style.stylesheet import wrapping_tip

_SETTINGS = "Settings"
_COLUMNS = ("", "A", "B", "B − A")
_PADDING = 12  # pixels of a cell, left and right together
_HIGH = 24  # pixels; minimum height of a row
_WIDEST = "−0.00×10⁻⁰⁰"  # the longest number; longer text is wrapped
_STYLE = "QTableWidget { font-size: 12px; } QTableWidget::item { padding: 3px; }"


class DifferenceTable(QTableWidget):
    """A table with the columns name, A, B and B − A, in three groups."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(0, len(_COLUMNS))
        self._theme = theme
        self._shown: Differences | None = None
        self.setHorizontalHeaderLabels(_COLUMNS)
        self.setAccessibleName("Differences between A and B")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ContiguousSelection)
        self.setShowGrid(False)
        self.setStyleSheet(_STYLE)  # small, to fit four columns into the inspector
        self.setWordWrap(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalHeader().hide()
        self.verticalHeader().setMinimumSectionSize(_HIGH)
        self.verticalHeader().setDefaultSectionSize(_HIGH)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)

    def show_differences(self, found: Differences) -> None:
        if found == self._shown:
            return
        self._shown = found
        groups = (
            (_SETTINGS, found.settings),
            ("Scores", found.scores),
            ("Kernels and gates", found.scalars),
        )
        self.clearSpans()
        self.setRowCount(0)
        for title, group in groups:
            notes = {difference.why: None for difference in group if difference.why}
            if title == _SETTINGS and found.remark:
                notes[found.remark] = None
            if group or notes:
                self._fill_group(title, group, tuple(notes))
        self._fit_columns()
        self.set_theme(self._theme)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for row in range(self.rowCount()):
            heading = self.columnSpan(row, 0) > 1
            for column in range(len(_COLUMNS)):
                item = self.item(row, column)
                if item is not None:
                    tone = theme.muted if heading else theme.text
                    item.setForeground(QColor(theme.compared if column == 2 else tone))

    def row_texts(self) -> list[tuple[str, ...]]:
        """Return the text of each row; a heading has a single text."""
        rows = []
        for row in range(self.rowCount()):
            items = [self.item(row, column) for column in range(len(_COLUMNS))]
            rows.append(tuple(item.text() for item in items if item is not None))
        return rows

    def _fit_columns(self) -> None:
        """Fit columns to their text, at most to a number, and the height to all rows."""
        max_width = self.fontMetrics().horizontalAdvance(_WIDEST) + _PADDING
        for column in range(1, len(_COLUMNS)):
            head = self.horizontalHeader().sectionSizeHint(column)
            width = min(self.sizeHintForColumn(column) + 1, max_width)
            self.setColumnWidth(column, max(width, head))
        self.resizeRowsToContents()
        head = self.horizontalHeader().sizeHint().height()
        self.setFixedHeight(head + self.verticalHeader().length() + 4)

    def _fill_group(self, title: str, group: Sequence[Difference], notes: Sequence[str]) -> None:
        """Add a heading and its rows; the step is in the heading if all rows share it."""
        steps = {difference.where for difference in group if difference.where}
        common = next(iter(steps)) if len(steps) == 1 else ""
        self._fill_line(f"{title} · {common}" if common else title, bold=True)
        for difference in group:
            self._fill_row(difference, with_step=not common)
        for note in notes:
            self._fill_line(note)

    def _fill_line(self, words: str, bold: bool = False) -> None:
        row = self.rowCount()
        self.insertRow(row)
        item = QTableWidgetItem(words)
        item.setFlags(Qt.ItemFlag.ItemIsEnabled)
        font = item.font()
        font.setBold(bold)
        item.setFont(font)
        self.setItem(row, 0, item)
        self.setSpan(row, 0, 1, len(_COLUMNS))

    def _fill_row(self, one: Difference, with_step: bool) -> None:
        row = self.rowCount()
        self.insertRow(row)
        about = ". ".join(filter(None, (f"{one.name}: {one.a} → {one.b}", one.where, one.why)))
        name = f"{one.name}\n{one.where}" if with_step and one.where else one.name
        for column, text in enumerate((name, one.a, one.b, one.change)):
            item = QTableWidgetItem(text)
            item.setToolTip(wrapping_tip(about))
            if column:
                right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
                item.setTextAlignment(right)
            self.setItem(row, column, item)
