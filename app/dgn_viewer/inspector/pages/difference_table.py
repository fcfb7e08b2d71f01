"""The table of what differs between A and B, in groups; every text is shown as it is."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem

from dgn_engine.scene.differences import Difference, Differences
from dgn_engine.scene.theme import Theme
from dgn_viewer.style.stylesheet import tip

_SETTINGS = "Set differently"
_COLUMNS = ("", "A", "B", "B − A")
_PADDING = 12  # pixels of a cell, left and right together
_HIGH = 24  # pixels of a row, at least
_WIDEST = "−0.00×10⁻⁰⁰"  # a number needs no more; longer texts take several lines
_STYLE = "QTableWidget { font-size: 12px; } QTableWidget::item { padding: 3px; }"


class DifferenceTable(QTableWidget):
    """Rows of name, A, B and difference under three headings; equal contents change nothing."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(0, len(_COLUMNS))
        self._theme = theme
        self._shown: Differences | None = None
        self.setHorizontalHeaderLabels(_COLUMNS)
        self.setAccessibleName("Differences of A and B")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ContiguousSelection)
        self.setShowGrid(False)
        self.setStyleSheet(_STYLE)  # four columns in the width of the inspector
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
            notes = {one.why: None for one in group if one.why}
            if title == _SETTINGS and found.remark:
                notes[found.remark] = None
            if group or notes:
                self._fill_group(title, group, tuple(notes))
        self._fit()
        self.set_theme(self._theme)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        for row in range(self.rowCount()):
            heading = self.columnSpan(row, 0) > 1
            for column in range(len(_COLUMNS)):
                item = self.item(row, column)
                if item is not None:
                    tone = theme.muted if heading else theme.text
                    item.setForeground(QColor(theme.compared if column == 2 else tone))

    def texts(self) -> list[tuple[str, ...]]:
        """What stands in each row, headings with one text."""
        found = []
        for row in range(self.rowCount()):
            items = [self.item(row, column) for column in range(len(_COLUMNS))]
            found.append(tuple(item.text() for item in items if item is not None))
        return found

    def _fit(self) -> None:
        """Columns as wide as their texts need, up to a number; rows and table as high as these."""
        most = self.fontMetrics().horizontalAdvance(_WIDEST) + _PADDING
        for column in range(1, len(_COLUMNS)):
            head = self.horizontalHeader().sectionSizeHint(column)
            wide = min(self.sizeHintForColumn(column) + 1, most)
            self.setColumnWidth(column, max(wide, head))
        self.resizeRowsToContents()
        head = self.horizontalHeader().sizeHint().height()
        self.setFixedHeight(head + self.verticalHeader().length() + 4)

    def _fill_group(self, title: str, group: Sequence[Difference], notes: Sequence[str]) -> None:
        """A heading with the step where all numbers are of one; else each row has its own."""
        steps = {one.where for one in group if one.where}
        common = next(iter(steps)) if len(steps) == 1 else ""
        self._fill_line(f"{title} · {common}" if common else title, bold=True)
        for one in group:
            self._fill(one, with_step=not common)
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

    def _fill(self, one: Difference, with_step: bool) -> None:
        row = self.rowCount()
        self.insertRow(row)
        about = ". ".join(filter(None, (f"{one.name}: {one.a} → {one.b}", one.where, one.why)))
        name = f"{one.name}\n{one.where}" if with_step and one.where else one.name
        for column, text in enumerate((name, one.a, one.b, one.change)):
            item = QTableWidgetItem(text)
            item.setToolTip(tip(about))
            if column:
                right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
                item.setTextAlignment(right)
            self.setItem(row, column, item)
