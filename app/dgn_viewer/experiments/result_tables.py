"""The rows of a result as a table that is as tall as its content."""

from __future__ import annotations

import math

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QTableWidget, QTableWidgetItem

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import ReportRow
from dgn_engine.text.written_numbers import format_duration
from dgn_viewer.style.stylesheet import tabular_font, wrapping_tip

HEADS = ("", "measured", "printed", "difference", "agreement", "n", "epochs")
MARKS = {"agrees": "✓", "differs": "✗", "open": "○", "": ""}
_ROW = 26


class RowTable(QTableWidget):
    """Table of measured and printed numbers; empty columns are hidden."""

    def __init__(self) -> None:
        super().__init__(0, len(HEADS))
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
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column, head in enumerate(HEADS):
            item = self.horizontalHeaderItem(column)
            if item is not None:
                item.setTextAlignment(_cell_alignment(head))

    def show_rows(self, rows: tuple[ReportRow, ...], scale: str = "") -> None:
        printed = any(row.printed is not None for row in rows)
        self.setAccessibleName("Measured and printed" if printed else "Measured")
        cells = [_cell_texts(row) for row in rows]
        self.setRowCount(len(rows))
        figures = tabular_font(self)
        for row_index, row in enumerate(rows):
            for column, text in enumerate(cells[row_index]):
                item = QTableWidgetItem(text)
                item.setTextAlignment(_cell_alignment(HEADS[column]))
                item.setFont(figures)
                item.setToolTip(wrapping_tip(_row_tip(row, scale)))
                self.setItem(row_index, column, item)
        for column in range(1, len(HEADS)):
            has_values = any(line[column] != formatting.NOTHING for line in cells)
            self.setColumnHidden(column, not has_values)
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + _ROW * len(rows) + 2)


def _cell_texts(row: ReportRow) -> tuple[str, ...]:
    unit = f" {row.unit}" if row.unit else ""
    return (
        row.label,
        formatting.format_measured(row) + unit,
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
