"""Outlines of the selection in a chart, on the overlay that repaints without the charts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from dgn_engine.scene.axes import thin_curve
from dgn_engine.scene.elements import Axis, Chart, Curve
from dgn_engine.scene.linked_places import Box, selection_boxes
from dgn_engine.scene.selection import Selection
from dgn_viewer.plots.chart_frame import (
    ChartStyle,
    PlotArea,
    data_from_drawn,
    drawn_at,
    drawn_values,
)
from dgn_viewer.plots.pointer_overlay import PointerPart

_LEAST = 4.0  # pixels; minimum size of an outline
_RING = 12.0  # pixels; size of the outline around a point in a chart without a matrix
_POINTS = 600  # maximum number of points of a highlighted curve


def highlight_parts(
    chart: Chart, style: ChartStyle, plot_area: PlotArea, selection: Selection
) -> list[PointerPart]:
    """Return the outlines of the selection in a chart, and its highlighted curves."""
    inside = plot_area.box.adjusted(-3, -3, 3, 3)
    parts: list[PointerPart] = []
    for box in selection_outlines(chart, plot_area, selection):
        paint = partial(paint_outline, chart=chart, style=style, plot_area=plot_area, box=box)
        state = ("lit", box.getRect(), plot_area.box.getRect(), style)
        parts.append(PointerPart(state, box.adjusted(-4, -4, 4, 4) & inside, paint))
    layer = selection.single_id("layer")
    for index, curve in enumerate(chart.curves):
        if curve.layer is not None and curve.layer == layer:
            line = _visible_line(curve, chart, plot_area)
            paint = partial(_paint_curve, style=style, curve=curve, line=line, within=plot_area.box)
            area = plot_area.box.getRect(), plot_area.x, plot_area.y
            key = ("curve", index, id(chart), area, style)
            parts.append(
                PointerPart(key, line.boundingRect().adjusted(-3, -3, 3, 3) & inside, paint)
            )
    return parts


def selection_outlines(chart: Chart, plot_area: PlotArea, selection: Selection) -> list[QRectF]:
    """Return the visible outlines of a selection in pixels, with a minimum size."""
    rects = []
    for box in selection_boxes(chart, selection):
        rect = _box_rect(box, chart, plot_area)
        if chart.matrix is None and all(map(math.isfinite, box)):  # a point, not an entry
            rect = QRectF(0, 0, _RING, _RING).translated(rect.center() - QPointF(_RING, _RING) / 2)
        if rect.intersects(plot_area.box):
            narrow, low = (max(0.0, _LEAST - size) / 2 for size in (rect.width(), rect.height()))
            rects.append(rect.adjusted(-narrow, -low, narrow, low))
    return rects


def paint_outline(
    painter: QPainter, *, chart: Chart, style: ChartStyle, plot_area: PlotArea, box: QRectF
) -> None:
    """Paint an outline as a frame, or as a tinted band if it covers the height of a curve chart."""
    painter.save()
    painter.setClipRect(plot_area.box.adjusted(-3, -3, 3, 3))
    if chart.matrix is None and box.height() >= plot_area.box.height():
        painter.fillRect(box & plot_area.box, style.colour("accent", 0.18))
    else:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for colour, width in (("panel", 4.0), ("accent", 2.0)):
            painter.setPen(QPen(style.colour(colour), width))
            painter.drawRect(box)
    painter.restore()


def _box_rect(box: Box, chart: Chart, plot_area: PlotArea) -> QRectF:
    x, y, to_x, to_y = box
    plot_box = plot_area.box
    left, right = (
        _pixel_position(coordinate, chart.x, plot_area.pixel_x) for coordinate in (x, to_x)
    )
    top, bottom = (
        _pixel_position(coordinate, chart.y, plot_area.pixel_y) for coordinate in (y, to_y)
    )
    return QRectF(
        QPointF(plot_box.left() if left is None else left, plot_box.top() if top is None else top),
        QPointF(
            plot_box.right() if right is None else right,
            plot_box.bottom() if bottom is None else bottom,
        ),
    ).normalized()


def _pixel_position(value: float, axis: Axis, place: Callable[[float], float]) -> float | None:
    """Return the pixel position of a value; None if the box is unbounded there."""
    return place(drawn_at(value, axis)) if math.isfinite(value) else None


def _visible_line(curve: Curve, chart: Chart, plot_area: PlotArea) -> QPolygonF:
    """Return the visible part of a curve in pixels."""
    low, high = (data_from_drawn(end, chart.x) for end in plot_area.x)
    x, y = thin_curve(curve.x, curve.y, low, high, _POINTS, chart.x.log)
    points = zip(drawn_values(x, chart.x), drawn_values(y, chart.y), strict=True)
    return QPolygonF(
        [
            QPointF(plot_area.pixel_x(point_x), plot_area.pixel_y(point_y))
            for point_x, point_y in points
            if math.isfinite(point_y)
        ]
    )


def _paint_curve(
    painter: QPainter, *, style: ChartStyle, curve: Curve, line: QPolygonF, within: QRectF
) -> None:
    """Paint a curve wider, in its own colour, with a border that separates it from others."""
    painter.setClipRect(within)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for colour, width in (("panel", 6.0), (curve.role, 3.0)):
        painter.setPen(QPen(style.colour(colour), width))
        painter.drawPolyline(line)
