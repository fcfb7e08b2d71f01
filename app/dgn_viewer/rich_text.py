"""Paints and measures labels with raised, lowered and leaning letters."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from dgn_viewer.typeset import Run, runs

_SMALLER = 0.78
_RAISED = 0.36
_LOWERED = 0.20


@dataclass(frozen=True)
class Type:
    """One size and weight of the interface's font."""

    family: str
    pixels: float
    bold: bool = False

    def font(self, run: Run | None = None) -> QFont:
        """The font of a run; figures are set in one width so that numbers do not dance."""
        font = QFont(self.family) if self.family else QFont()
        small = run is not None and run.level != 0
        font.setPixelSize(max(round(self.pixels * (_SMALLER if small else 1.0)), 7))
        font.setItalic(run is not None and run.italic)
        font.setWeight(QFont.Weight.DemiBold if self.bold else QFont.Weight.Normal)
        font.setFeature(QFont.Tag("tnum"), 1)
        return font

    @property
    def height(self) -> float:
        """Height of a line."""
        return QFontMetricsF(self.font()).height()

    @property
    def ascent(self) -> float:
        """From the top of a line to its base line."""
        return QFontMetricsF(self.font()).ascent()

    def width(self, label: str) -> float:
        """Width of a label as `paint` sets it."""
        return sum(QFontMetricsF(self.font(run)).horizontalAdvance(run.text) for run in runs(label))

    def shortened(self, label: str, width: float) -> str:
        """The label, cut with an ellipsis where it is wider than `width`."""
        if self.width(label) <= width:
            return label
        text = label.replace("$", "")
        while text and self.width(text + "…") > width:
            text = text[:-1]
        return f"{text.rstrip()}…" if text else ""

    def paint(self, painter: QPainter, place: QPointF, label: str, colour: QColor) -> None:
        """Set the label with its base line starting at `place`."""
        painter.setPen(colour)
        x = place.x()
        for run in runs(label):
            font = self.font(run)
            shift = {1: -_RAISED, -1: _LOWERED}.get(run.level, 0.0) * self.pixels
            painter.setFont(font)
            painter.drawText(QPointF(x, place.y() + shift), run.text)
            x += QFontMetricsF(font).horizontalAdvance(run.text)
