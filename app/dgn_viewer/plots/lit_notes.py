"""Outlines what is selected in a chart: above its data, where the mouse may move it cheaply."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from dgn_engine.scene.axes import thinned
from dgn_engine.scene.elements import Axis, Chart, Curve
from dgn_engine.scene.linked_places import Box, boxes
from dgn_engine.scene.selection import Selection
from dgn_viewer.plots.chart_frame import ChartStyle, PlotArea, drawn_at, drawn_values, undrawn
from dgn_viewer.plots.pointer_overlay import PointerPart

_LEAST = 4.0  # pixels: an outline of what is narrower
_RING = 12.0  # pixels: around a point of a chart without a matrix
_POINTS = 600  # of a curve that is lit


def lit_parts(
    chart: Chart, style: ChartStyle, plot_area: PlotArea, selection: Selection
) -> list[PointerPart]:
    """All outlines of what is selected in a chart, and its curves."""
    inside = plot_area.box.adjusted(-3, -3, 3, 3)
    parts: list[PointerPart] = []
    for box in outlines(chart, plot_area, selection):
        paint = partial(paint_outline, chart=chart, style=style, plot_area=plot_area, box=box)
        shown = ("lit", box.getRect(), plot_area.box.getRect(), style)
        parts.append(PointerPart(shown, box.adjusted(-4, -4, 4, 4) & inside, paint))
    layer = selection.one("layer")
    for index, curve in enumerate(chart.curves):
        if curve.layer is not None and curve.layer == layer:
            line = _line(curve, chart, plot_area)
            paint = partial(_paint_curve, style=style, curve=curve, line=line, within=plot_area.box)
            area = plot_area.box.getRect(), plot_area.x, plot_area.y
            key = ("curve", index, id(chart), area, style)
            parts.append(
                PointerPart(key, line.boundingRect().adjusted(-3, -3, 3, 3) & inside, paint)
            )
    return parts


def outlines(chart: Chart, plot_area: PlotArea, selection: Selection) -> list[QRectF]:
    """In pixels what is outlined; at least so large that it can be seen."""
    found = []
    for box in boxes(chart, selection):
        rect = _rect(box, chart, plot_area)
        if chart.matrix is None and all(map(math.isfinite, box)):  # a point, not an entry
            rect = QRectF(0, 0, _RING, _RING).translated(rect.center() - QPointF(_RING, _RING) / 2)
        if rect.intersects(plot_area.box):
            narrow, low = (max(0.0, _LEAST - size) / 2 for size in (rect.width(), rect.height()))
            found.append(rect.adjusted(-narrow, -low, narrow, low))
    return found


def paint_outline(
    painter: QPainter, *, chart: Chart, style: ChartStyle, plot_area: PlotArea, box: QRectF
) -> None:
    """Rows, columns, entries and points have a frame; of curves a whole place has a ground."""
    painter.save()
    painter.setClipRect(plot_area.box.adjusted(-3, -3, 3, 3))
    if chart.matrix is None and box.height() >= plot_area.box.height():
        painter.fillRect(box & plot_area.box, style.colour("accent", 0.18))
    else:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for colour, wide in (("panel", 4.0), ("accent", 2.0)):
            painter.setPen(QPen(style.colour(colour), wide))
            painter.drawRect(box)
    painter.restore()


def _rect(box: Box, chart: Chart, plot_area: PlotArea) -> QRectF:
    x, y, to_x, to_y = box
    whole = plot_area.box
    left, right = (_pixel(one, chart.x, plot_area.across) for one in (x, to_x))
    top, bottom = (_pixel(one, chart.y, plot_area.along) for one in (y, to_y))
    return QRectF(
        QPointF(whole.left() if left is None else left, whole.top() if top is None else top),
        QPointF(
            whole.right() if right is None else right, whole.bottom() if bottom is None else bottom
        ),
    ).normalized()


def _pixel(value: float, axis: Axis, place: Callable[[float], float]) -> float | None:
    """None: as far as the chart reaches."""
    return place(drawn_at(value, axis)) if math.isfinite(value) else None


def _line(curve: Curve, chart: Chart, plot_area: PlotArea) -> QPolygonF:
    """The part of a curve that is in sight, in pixels."""
    low, high = (undrawn(end, chart.x) for end in plot_area.x)
    x, y = thinned(curve.x, curve.y, low, high, _POINTS, chart.x.log)
    places = zip(drawn_values(x, chart.x), drawn_values(y, chart.y), strict=True)
    return QPolygonF(
        [QPointF(plot_area.across(a), plot_area.along(b)) for a, b in places if math.isfinite(b)]
    )


def _paint_curve(
    painter: QPainter, *, style: ChartStyle, curve: Curve, line: QPolygonF, within: QRectF
) -> None:
    """Wider, in its own colour, on a ground that parts it from the others."""
    painter.setClipRect(within)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for colour, wide in (("panel", 6.0), (curve.role, 3.0)):
        painter.setPen(QPen(style.colour(colour), wide))
        painter.drawPolyline(line)
