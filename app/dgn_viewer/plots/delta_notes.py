"""Paints the delta cursor of a chart: its two lines, and a card of differences between them."""

from __future__ import annotations

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from dgn_engine.scene.delta_cursor import delta_lines
from dgn_engine.scene.elements import Chart
from dgn_viewer.plots.chart_frame import ChartStyle, PlotArea, drawn_at

_LEAST = 60.0  # pixels of a chart that has room for the card


def paint_delta(painter: QPainter, chart: Chart, style: ChartStyle, area: PlotArea) -> None:
    """Nothing where no step is marked."""
    low, high = area.x
    box, type_ = area.box, style.label
    painter.setPen(QPen(style.colour("text"), 1, Qt.PenStyle.DashLine))
    for step in chart.delta:
        drawn = drawn_at(step, chart.x)
        if low <= drawn <= high:
            place = round(area.across(drawn))
            painter.drawLine(QLineF(place, box.top(), place, box.bottom()))
    lines = delta_lines(chart)
    if not lines or box.height() < _LEAST:
        return
    lines = lines[: max(int((box.height() - 12) // type_.height), 1)]
    wide = max(type_.width(line) for line in lines) + 12
    card = QRectF(box.left() + 6, box.top() + 4, wide, type_.height * len(lines) + 6)
    painter.setPen(QPen(style.colour("line"), 1))
    painter.setBrush(style.colour("window", 0.94))
    painter.drawRoundedRect(card, 4, 4)
    for index, line in enumerate(lines):
        base = QPointF(card.left() + 6, card.top() + 3 + type_.ascent + index * type_.height)
        type_.paint(painter, base, line, style.colour("text"))
