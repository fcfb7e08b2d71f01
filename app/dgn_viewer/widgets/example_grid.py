"""A grid of example images, some of them selected."""

from __future__ import annotations

import math
from collections.abc import Mapping

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from dgn_engine.protocol.watching import ProbeExamples
from dgn_engine.scene.example_readout import shown_example
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.example_card import paint_example
from dgn_viewer.style.stylesheet import wrapping_tip

SIDE, GAP = 44.0, 6.0
ACROSS = 6
_STEPS = {
    Qt.Key.Key_Up: -ACROSS,
    Qt.Key.Key_Down: ACROSS,
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
}


class ExampleGrid(QWidget):
    """Grid of images; a click or Space selects or deselects an example."""

    toggled = Signal(int)  # row of the training data

    def __init__(self) -> None:
        super().__init__()
        self._shown: ProbeExamples | None = None
        self.answers: Mapping[int, str] = {}  # of the network, by row of the training data
        self._chosen: frozenset[int] = frozenset()
        self._current = 0
        self._style = ChartStyle(LIGHT, self.font().family())
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._update_grid()

    def show_examples(self, shown: ProbeExamples) -> None:
        self._shown, self._current = shown, 0
        self._update_grid()

    def outline_rows(self, rows: frozenset[int]) -> None:
        """Outline the examples with these rows of the training data."""
        self._chosen = rows
        self._update_grid()

    def set_theme(self, theme: Theme) -> None:
        self._style = ChartStyle(theme, self.font().family())
        self.update()

    def sizeHint(self) -> QSize:
        lines = max(math.ceil(len(self._example_rows()) / ACROSS), 1)
        return QSize(round(ACROSS * (SIDE + GAP)), round(lines * (SIDE + GAP)))

    def example_rect(self, index: int) -> QRectF:
        line, column = divmod(index, ACROSS)
        return QRectF(column * (SIDE + GAP) + 3, line * (SIDE + GAP) + 3, SIDE, SIDE)

    # Qt

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        index = self._index_at(event.position())
        if index is not None and event.button() == Qt.MouseButton.LeftButton:
            self._current = index
            self.toggled.emit(self._example_rows()[index])

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            index = self._index_at(QPointF(event.pos()))
            QToolTip.showText(event.globalPos(), self._describe_example(index), self)
            return True
        return super().event(event)

    def _describe_example(self, index: int | None) -> str:
        """Return its class, and the network's answer if it is a probe example."""
        if index is None or self._shown is None:
            return ""
        example, row = shown_example(self._shown, index), self._example_rows()[index]
        lines = (example.detail, example.name.partition(", ")[2], self.answers.get(row, ""))
        return wrapping_tip("\n".join(filter(None, lines)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, count = event.key(), len(self._example_rows())
        if key in _STEPS and count:
            self._current = min(max(self._current + _STEPS[Qt.Key(key)], 0), count - 1)
            self._update_grid()
        elif key == Qt.Key.Key_Space and count:
            self.toggled.emit(self._example_rows()[self._current])
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._shown is None:
            return
        painter = QPainter(self)
        for index, row in enumerate(self._example_rows()):
            box = self.example_rect(index)
            paint_example(painter, self._style, box, shown_example(self._shown, index))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            if row in self._chosen:
                painter.setPen(QPen(self._style.colour("accent"), 3))
                painter.drawRect(box.adjusted(-1, -1, 1, 1))
            if self.hasFocus() and index == self._current:
                painter.setPen(QPen(self._style.colour("text"), 1, Qt.PenStyle.DotLine))
                painter.drawRect(box.adjusted(-3, -3, 3, 3))
        painter.end()

    # Internal

    def _example_rows(self) -> tuple[int, ...]:
        return self._shown.probe_set.indices if self._shown is not None else ()

    def _index_at(self, place: QPointF) -> int | None:
        matches = (
            i for i in range(len(self._example_rows())) if self.example_rect(i).contains(place)
        )
        return next(matches, None)

    def _update_grid(self) -> None:
        self.setFixedSize(self.sizeHint())
        text = "Training examples"
        if self._shown is not None and self._example_rows():
            example = shown_example(self._shown, self._current)
            chosen = self._example_rows()[self._current] in self._chosen
            text = (
                f"{example.detail}, {example.name.partition(', ')[2]}, "
                f"{'' if chosen else 'not '}selected"
            )
        self.setAccessibleName(text)
        self.update()
