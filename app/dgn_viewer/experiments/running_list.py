"""The runs in progress, each with a thin progress bar, up to `MOST` lines."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QProgressBar, QWidget

from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress, RunningUnit
from dgn_engine.text.written_numbers import format_percent
from dgn_viewer.style.stylesheet import tabular_font
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import PlainLabel

MOST = 8  # lines
_BAR = 64  # minimum width, pixels


class RunningList(QWidget):
    """Name, progress and best test accuracy of each running unit; lines are reused."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("In progress")
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 4, 0, 4)
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(4)
        for column in (0, 1):
            self._grid.setColumnStretch(column, 1)
        heads = (("in progress", _LEFT), ("", _LEFT), ("done", _RIGHT), ("best test", _RIGHT))
        self._heads = [_small_label(text, side) for text, side in heads]
        for column, head in enumerate(self._heads):
            self._grid.addWidget(head, 0, column)
        self.lines: list[_Line] = []
        self.more = _small_label("", _LEFT)
        self._grid.addWidget(self.more, MOST + 1, 0, 1, 4)

    def show_running(self, now: ReproductionProgress) -> None:
        shown = now.running[:MOST]
        while len(self.lines) < len(shown):
            self.lines.append(_Line(self._grid, len(self.lines) + 1))
        for index, line in enumerate(self.lines):
            line.show_unit(shown[index] if index < len(shown) else None)
        scored = any(unit.score is not None for unit in shown)
        self._heads[-1].setText("best test" if scored else "")
        hidden_count = len(now.running) - len(shown)
        self.more.setText(f"and {hidden_count} more")
        self.more.setVisible(hidden_count > 0)
        self.setVisible(bool(shown))


class _Line:
    def __init__(self, grid: QGridLayout, row: int) -> None:
        self.name = ElidedLabel(least=80, mode=Qt.TextElideMode.ElideMiddle)
        self.bar = QProgressBar()
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setMinimumWidth(_BAR)
        self.share, self.score = PlainLabel(), PlainLabel()
        for label in (self.share, self.score):
            label.setAlignment(_RIGHT)
            label.setFont(tabular_font(label))
        self._widgets = (self.name, self.bar, self.share, self.score)
        for column, widget in enumerate(self._widgets):
            grid.addWidget(widget, row, column)

    def show_unit(self, one: RunningUnit | None) -> None:
        for widget in self._widgets:
            widget.setVisible(one is not None)
        if one is None:
            return
        self.name.show_text(one.unit)
        self.bar.setValue(round(1000 * one.fraction))
        self.bar.setAccessibleName(f"Progress of {one.unit}")
        self.share.setText(format_percent(one.fraction, 0))
        self.score.setText("" if one.score is None else format_percent(one.score, 2))


_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


def _small_label(text: str, side: Qt.AlignmentFlag) -> QLabel:
    label = PlainLabel(text, role="small")
    label.setAlignment(side)
    return label
