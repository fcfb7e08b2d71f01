"""The rows of a result as a table that is as tall as its content."""

from __future__ import annotations

import math

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QTableWidget, QTableWidgetItem

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import ReportRow
from dgn_engine.text.written_numbers import format_duration
from dgn_viewer.style.stylesheet import tabular_font, wrapping_tip

HEADS = ("", "measured", "printed", "difference", "agreement", "n", "epochs")
MARKS = {"agrees": "✓", "differs": "✗", "open": "○", "": ""}
_ROW = 26
_AROUND = 8  # pixels above and below a label together
_PADDING = 32  # left and right of it
_LEAST_LABEL = 160  # of a wrapped label beside its numbers, with its padding


class RowTable(QTableWidget):
    """Table of measured and printed numbers; empty columns are hidden.

    Labels are wrapped beside the numbers or, where there is little room, above them.
    """

    def __init__(self) -> None:
        super().__init__(0, len(HEADS))
        self._rows: tuple[ReportRow, ...] = ()
        self._scale = ""
        self._labels_above = False
        self.setAccessibleName("Measured")
        self.setHorizontalHeaderLabels(list(HEADS))
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(_ROW)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setMinimumSectionSize(1)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column, head in enumerate(HEADS):
            item = self.horizontalHeaderItem(column)
            if item is not None:
                item.setTextAlignment(_cell_alignment(head))

    def show_rows(self, rows: tuple[ReportRow, ...], scale: str = "") -> None:
        self._rows, self._scale = rows, scale
        printed = any(row.printed is not None for row in rows)
        self.setAccessibleName("Measured and printed" if printed else "Measured")
        cells = [_cell_texts(row) for row in rows]
        for column in range(1, len(HEADS)):
            has_values = any(line[column] != formatting.NOTHING for line in cells)
            self.setColumnHidden(column, not has_values)
        self._fill_cells()
        if self._has_labels_above() != self._labels_above:
            self._labels_above = not self._labels_above
            self._fill_cells()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._has_labels_above() != self._labels_above:
            self._labels_above = not self._labels_above
            self._fill_cells()
        else:
            self._fit_height()

    def _has_labels_above(self) -> bool:
        """Return whether there is too little room for the labels beside the numbers."""
        if not self._rows or not self.isVisible():
            return self._labels_above
        metrics = QFontMetrics(tabular_font(self))
        widest = max(metrics.horizontalAdvance(row.label) for row in self._rows)
        return min(widest + _PADDING, _LEAST_LABEL) > self._label_width()

    def _label_width(self) -> int:
        """Return the width beside the numbers; Qt stretches the column only when it is painted."""
        header = self.horizontalHeader()
        numbers = sum(
            max(self.sizeHintForColumn(column), header.sectionSizeHint(column))
            for column in range(1, len(HEADS))
            if not self.isColumnHidden(column)
        )
        return self.viewport().width() - numbers

    def _fill_cells(self) -> None:
        self.clearSpans()
        self.clearContents()
        lines = 2 if self._labels_above else 1  # of the table for each row
        self.setRowCount(lines * len(self._rows))
        figures = tabular_font(self)
        for index, row in enumerate(self._rows):
            for column, text in enumerate(_cell_texts(row)):
                item = QTableWidgetItem(text)
                item.setTextAlignment(_cell_alignment(HEADS[column]))
                item.setFont(figures)
                item.setToolTip(wrapping_tip(_row_tip(row, self._scale)))
                self.setItem(lines * index + (lines - 1 if column else 0), column, item)
            if self._labels_above:
                self.setSpan(lines * index, 0, 1, len(HEADS))
        self._fit_height()

    def _fit_height(self) -> None:
        """Make the table as high as its rows, with wrapped labels in full."""
        lines = 2 if self._labels_above else 1
        width = self.viewport().width() if self._labels_above else self._label_width()
        room = QRect(0, 0, max(width - _PADDING, 1), 1 << 20)
        metrics = QFontMetrics(tabular_font(self))
        height = 0
        for line in range(self.rowCount()):
            high = _ROW
            if line % lines == 0 and self.isVisible():
                label, wrap = self._rows[line // lines].label, Qt.TextFlag.TextWordWrap
                wrapped = metrics.boundingRect(room, wrap, label).height() + _AROUND
                high = wrapped if self._labels_above else max(wrapped, _ROW)
            self.setRowHeight(line, high)
            height += high
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + height + 2)


def _cell_texts(row: ReportRow) -> tuple[str, ...]:
    return (
        row.label,
        formatting.format_measured_with_unit(row),
        formatting.format_printed(row.printed, row.unit),
        formatting.format_number(row.difference, row.unit, signed=True),
        _agreement_text(row),
        formatting.format_replicates(len(row.values), row.of),
        formatting.format_epochs(row.epochs),
    )


def _agreement_text(row: ReportRow) -> str:
    """Return the margin with a mark that says whether it is within the declared one: '✓ ±0.15'."""
    found = row.agreement
    if not math.isfinite(found.within):
        return formatting.NOTHING
    return f"{MARKS[found.verdict]} ±{formatting.format_number(found.within, row.unit)}".strip()


def _row_tip(row: ReportRow, scale: str) -> str:
    agreement = formatting.format_agreement(row, scale)
    parts = (
        row.label,
        row.remark,
        formatting.format_outlier(row.outlier, row.of),
        "" if agreement == formatting.NOTHING else f"agreement with print {agreement}",
        f"{format_duration(row.seconds)} of compute" if row.seconds > 0 else "",
    )
    return "; ".join(part for part in parts if part)


def _cell_alignment(head: str) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if head else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
