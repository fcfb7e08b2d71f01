"""Painting of annotations on a chart: class boundaries, marks, names of curves, cursor lines."""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QPainter, QPen, QPolygonF

from dgn_engine.scene.chart_layout import spread_labels
from dgn_engine.scene.elements import Chart, Curve
from dgn_viewer.plots.chart_frame import PAD, ChartStyle, PlotArea, drawn_at
from dgn_viewer.plots.rich_text import TextStyle

FOLLOW = "reset"
_FOOT = ((0.0, -5.0), (4.0, 0.0), (-4.0, 0.0))  # pixels; triangle below the line of a past step
CORNER = 16.0  # pixels; the hatched corner of an estimate


def paint_notes(painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea) -> None:
    """Paint all annotations except the cursor."""
    painter.save()
    painter.setClipRect(plot_area.box)
    _paint_class_boundaries(painter, chart, style, plot_area)
    paint_dead(painter, chart, style, plot_area)
    paint_estimated(painter, chart, style, plot_area)
    painter.restore()
    _paint_marks(painter, chart, style, plot_area)
    _paint_step(painter, chart, style, plot_area)
    _paint_curve_names(painter, chart, style, plot_area)
    if chart.chosen:
        painter.setPen(QPen(style.colour("accent"), 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(plot_area.box.adjusted(-2, -2, 2, 2))


def cross_lines(chart: Chart, plot_area: PlotArea, point: QPointF) -> tuple[QLineF, ...]:
    """Return the lines of the cursor; over curves only the vertical one."""
    box = plot_area.box
    vertical = QLineF(point.x(), box.top(), point.x(), box.bottom())
    if chart.matrix is None:
        return (vertical,)
    return vertical, QLineF(box.left(), point.y(), box.right(), point.y())


def follow_box(plot_area: PlotArea, type_: TextStyle) -> QRectF:
    """Return the rectangle of the button that resets the zoom."""
    width = type_.width(FOLLOW) + 12
    return QRectF(
        plot_area.box.right() - width - 4, plot_area.box.top() + 4, width, type_.height + 4
    )


def paint_follow(painter: QPainter, style: ChartStyle, plot_area: PlotArea) -> None:
    """Paint the 'reset' button, shown while the chart is zoomed or panned."""
    box = follow_box(plot_area, style.label)
    painter.setPen(QPen(style.colour("accent"), 1))
    painter.setBrush(style.colour("panel"))
    painter.drawRoundedRect(box, 4, 4)
    base = QPointF(box.left() + 6, box.top() + 2 + style.label.ascent)
    style.label.paint(painter, base, FOLLOW, style.colour("accent"))


def _paint_class_boundaries(
    painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea
) -> None:
    """Paint class boundaries as thin lines in the colour of the panel, to look like gaps."""
    if chart.small:
        return
    box = plot_area.box
    rows, columns = map(plot_area.pixel_y, chart.y.lines), map(plot_area.pixel_x, chart.x.lines)
    lines = [QLineF(box.left(), position, box.right(), position) for position in rows]
    lines += [QLineF(position, box.top(), position, box.bottom()) for position in columns]
    painter.setPen(QPen(style.colour("panel"), 1))
    painter.drawLines(lines)


def paint_dead(painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea) -> None:
    """Hatch the units that are closed for every example."""
    if chart.matrix is None:
        return
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QBrush(style.colour("muted", 0.75), Qt.BrushStyle.BDiagPattern))
    for column in chart.matrix.dead_columns:
        left, right = plot_area.pixel_x(column - 0.5), plot_area.pixel_x(column + 0.5)
        painter.drawRect(QRectF(left, plot_area.box.top(), right - left, plot_area.box.height()))


def paint_estimated(
    painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea
) -> None:
    """Hatch the upper right corner of a matrix whose entries are estimates."""
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
    """Paint thin vertical lines at events, which are labelled in the event lane below."""
    low, high = plot_area.x
    box = plot_area.box
    painter.setPen(QPen(style.colour("muted", 0.55), 1, Qt.PenStyle.DotLine))
    positions = (drawn_at(mark.x, chart.x) for mark in chart.marks)
    for pixel in {
        round(plot_area.pixel_x(position)) for position in positions if low <= position <= high
    }:
        painter.drawLine(QLineF(pixel, box.top() - 3, pixel, box.bottom()))


def _paint_step(painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea) -> None:
    """Paint the line at the displayed past step, with a foot on the axis."""
    if chart.cursor is None:
        return
    drawn, (low, high) = drawn_at(chart.cursor, chart.x), plot_area.x
    if not low <= drawn <= high:
        return
    box, pixel = plot_area.box, round(plot_area.pixel_x(drawn))
    painter.setPen(QPen(style.colour("accent"), 1.5))
    painter.drawLine(QLineF(pixel, box.top() - 3, pixel, box.bottom()))
    foot = QPolygonF([QPointF(pixel + dx, box.bottom() + dy) for dx, dy in _FOOT])
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(style.colour("accent"))
    painter.drawPolygon(foot)


def _paint_curve_names(
    painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea
) -> None:
    """Paint the name of each curve right of the frame, at the height of its last value."""
    ends = [
        (curve, _end_pixel_y(curve, chart, plot_area))
        for curve in chart.curves
        if curve.name and not curve.faint
    ]
    visible = [(curve, y) for curve, y in ends if y is not None]
    if not visible:
        return
    type_, box = style.label, plot_area.box
    low, high = box.top() + type_.height / 2, box.bottom() - type_.height / 2
    wanted_positions = [min(max(y, low), high) for _, y in visible]
    positions = spread_labels(wanted_positions, type_.height, low, high)
    for (curve, _), y in zip(visible, positions, strict=True):
        base = QPointF(box.right() + PAD + 2, y + type_.ascent / 2 - 1.0)
        type_.paint(painter, base, curve.name, style.colour(curve.role))


def _end_pixel_y(curve: Curve, chart: Chart, plot_area: PlotArea) -> float | None:
    """Return the pixel position of the curve's last visible value, or None."""
    inside = np.flatnonzero(
        (curve.x <= _data_value(plot_area.x[1], chart.x.log)) & np.isfinite(curve.y)
    )
    if inside.size == 0:
        return None
    value = float(curve.y[inside[-1]])
    if chart.y.log:
        if value <= 0:
            return None
        value = math.log10(value)
    low, high = plot_area.y
    return plot_area.pixel_y(value) if low <= value <= high else None


def _data_value(drawn: float, log: bool) -> float:
    return float(10.0 ** min(drawn, 300.0)) if log else drawn
