"""Paints what lies on a chart's data: class boundaries, marks, names at line ends, the cursor."""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QPainter, QPen, QPolygonF

from dgn_engine.scene.chart_layout import spread
from dgn_engine.scene.elements import Chart, Curve
from dgn_viewer.plots.chart_frame import PAD, ChartStyle, PlotArea, drawn_at
from dgn_viewer.plots.rich_text import TextStyle

FOLLOW = "follow"
_FOOT = ((0.0, -5.0), (4.0, 0.0), (-4.0, 0.0))  # pixels
CORNER = 16.0  # pixels: the hatched corner of an estimate


def paint_notes(painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea) -> None:
    """Everything on top of the data except the cursor."""
    painter.save()
    painter.setClipRect(plot_area.box)
    _paint_lines(painter, chart, style, plot_area)
    paint_dead(painter, chart, style, plot_area)
    paint_estimated(painter, chart, style, plot_area)
    painter.restore()
    _paint_marks(painter, chart, style, plot_area)
    _paint_step(painter, chart, style, plot_area)
    _paint_ends(painter, chart, style, plot_area)
    if chart.chosen:
        painter.setPen(QPen(style.colour("accent"), 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(plot_area.box.adjusted(-2, -2, 2, 2))


def cross_lines(chart: Chart, plot_area: PlotArea, place: QPointF) -> tuple[QLineF, ...]:
    """The lines of the cursor; on curves only the upright one."""
    box = plot_area.box
    upright = QLineF(place.x(), box.top(), place.x(), box.bottom())
    if chart.matrix is None:
        return (upright,)
    return upright, QLineF(box.left(), place.y(), box.right(), place.y())


def follow_box(plot_area: PlotArea, type_: TextStyle) -> QRectF:
    """The rectangle of the button that shows all of the chart's data again."""
    wide = type_.width(FOLLOW) + 12
    return QRectF(plot_area.box.right() - wide - 4, plot_area.box.top() + 4, wide, type_.height + 4)


def paint_follow(painter: QPainter, style: ChartStyle, plot_area: PlotArea) -> None:
    """The button 'follow', shown while the user has zoomed or panned."""
    box = follow_box(plot_area, style.label)
    painter.setPen(QPen(style.colour("accent"), 1))
    painter.setBrush(style.colour("panel"))
    painter.drawRoundedRect(box, 4, 4)
    base = QPointF(box.left() + 6, box.top() + 2 + style.label.ascent)
    style.label.paint(painter, base, FOLLOW, style.colour("accent"))


def _paint_lines(painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea) -> None:
    """Boundaries of classes: thin, in the colour of the panel, so that they read as gaps."""
    if chart.small:
        return
    box = plot_area.box
    rows, columns = map(plot_area.along, chart.y.lines), map(plot_area.across, chart.x.lines)
    lines = [QLineF(box.left(), place, box.right(), place) for place in rows]
    lines += [QLineF(place, box.top(), place, box.bottom()) for place in columns]
    painter.setPen(QPen(style.colour("panel"), 1))
    painter.drawLines(lines)


def paint_dead(painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea) -> None:
    """Hatch the units that are closed for every example."""
    if chart.matrix is None:
        return
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QBrush(style.colour("muted", 0.75), Qt.BrushStyle.BDiagPattern))
    for column in chart.matrix.dead_columns:
        left, right = plot_area.across(column - 0.5), plot_area.across(column + 0.5)
        painter.drawRect(QRectF(left, plot_area.box.top(), right - left, plot_area.box.height()))


def paint_estimated(
    painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea
) -> None:
    """Hatch the upper right corner of a matrix whose entries have an error."""
    if chart.matrix is None or not chart.matrix.estimated:
        return
    box = plot_area.box
    side = min(CORNER, box.width() / 3, box.height() / 3)
    corner = QPolygonF(
        [
            QPointF(box.right() - side, box.top()),
            QPointF(box.right(), box.top()),
            QPointF(box.right(), box.top() + side),
        ]
    )
    painter.setPen(QPen(style.colour("muted"), 1))
    painter.setBrush(style.colour("panel"))
    painter.drawPolygon(corner)
    painter.setBrush(QBrush(style.colour("text"), Qt.BrushStyle.BDiagPattern))
    painter.drawPolygon(corner)


def _paint_marks(painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea) -> None:
    """Thin upright lines; the lane of events below names them."""
    low, high = plot_area.x
    box = plot_area.box
    painter.setPen(QPen(style.colour("muted", 0.55), 1, Qt.PenStyle.DotLine))
    places = (drawn_at(mark.x, chart.x) for mark in chart.marks)
    for place in {round(plot_area.across(x)) for x in places if low <= x <= high}:
        painter.drawLine(QLineF(place, box.top() - 3, place, box.bottom()))


def _paint_step(painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea) -> None:
    """The line of the step that is looked back at, with a foot on the axis."""
    if chart.cursor is None:
        return
    drawn, (low, high) = drawn_at(chart.cursor, chart.x), plot_area.x
    if not low <= drawn <= high:
        return
    box, place = plot_area.box, round(plot_area.across(drawn))
    painter.setPen(QPen(style.colour("accent"), 1.5))
    painter.drawLine(QLineF(place, box.top() - 3, place, box.bottom()))
    foot = QPolygonF([QPointF(place + dx, box.bottom() + dy) for dx, dy in _FOOT])
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(style.colour("accent"))
    painter.drawPolygon(foot)


def _paint_ends(painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea) -> None:
    """Each curve's name at the right of the frame, at the height where the curve leaves it."""
    named = [
        (curve, _end(curve, chart, plot_area))
        for curve in chart.curves
        if curve.name and not curve.faint
    ]
    shown = [(curve, place) for curve, place in named if place is not None]
    if not shown:
        return
    type_, box = style.label, plot_area.box
    low, high = box.top() + type_.height / 2, box.bottom() - type_.height / 2
    wanted = [min(max(place, low), high) for _, place in shown]
    places = spread(wanted, type_.height, low, high)
    for (curve, _), place in zip(shown, places, strict=True):
        base = QPointF(box.right() + PAD + 2, place + type_.ascent / 2 - 1.0)
        type_.paint(painter, base, curve.name, style.colour(curve.role))


def _end(curve: Curve, chart: Chart, plot_area: PlotArea) -> float | None:
    """Pixel height of the curve's last visible value."""
    inside = np.flatnonzero((curve.x <= _data(plot_area.x[1], chart.x.log)) & np.isfinite(curve.y))
    if inside.size == 0:
        return None
    value = float(curve.y[inside[-1]])
    if chart.y.log:
        if value <= 0:
            return None
        value = math.log10(value)
    low, high = plot_area.y
    return plot_area.along(value) if low <= value <= high else None


def _data(drawn: float, log: bool) -> float:
    return float(10.0 ** min(drawn, 300.0)) if log else drawn
