"""A small picture of a result: the curves or the image of its first figure, without any words."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QImage, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QWidget

from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.protocol.experiments import Figure, PlottedLine
from dgn_engine.scene.elements import Array, Axis, Chart, Dash, Matrix
from dgn_engine.scene.ramps import colour_indices, colour_table
from dgn_engine.scene.theme import LIGHT, PALE, Theme

SIZE = QSize(144, 88)
_EDGE = 8  # pixels around the plot
_MOST = 400  # points of a curve that are drawn
_FEW = 24  # … that are drawn large
_DASHES: dict[Dash, Qt.PenStyle] = {
    "solid": Qt.PenStyle.SolidLine,
    "dash": Qt.PenStyle.DashLine,
    "dot": Qt.PenStyle.DotLine,
    "dashdot": Qt.PenStyle.DashDotLine,
}


def chart_of_result(document: Document) -> Chart | None:
    """Return the chart to sketch: the first figure, or the rows of the table as points."""
    figures = document.figures[:1]
    if not figures:
        rows = [row for row in document.rows if math.isfinite(row.mean)]
        if not rows:
            return None
        at = tuple(map(float, range(len(rows))))
        lines = [PlottedLine("", at, tuple(row.mean for row in rows), style="points")]
        printed = {x: row.printed for x, row in zip(at, rows, strict=True) if row.printed}
        if printed:
            values = tuple(number.value for number in printed.values())
            lines.append(PlottedLine(" ", tuple(printed), values, style="printed"))
        figures = (Figure("rows", "", "", "", tuple(lines)),)
    return scene_of(figures).charts[0]


class ResultSketch(QWidget):
    """Draws a chart without labels; without one, the outline of an empty chart."""

    def __init__(self) -> None:
        super().__init__()
        self.chart: Chart | None = None
        self._theme = LIGHT
        self.setFixedSize(SIZE)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def show_chart(self, chart: Chart | None) -> None:
        self.chart = chart
        self.update()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(self._theme.line))
        painter.setBrush(QColor(self._theme.window))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        plot = QRectF(self.rect()).adjusted(_EDGE, _EDGE, -_EDGE, -_EDGE)
        if self.chart is None:
            self._draw_empty(painter, plot)
        elif self.chart.matrix is not None:
            _draw_matrix(painter, plot, self.chart.matrix, self._theme)
        else:
            self._draw_axes(painter, plot)
            painter.setClipRect(plot.adjusted(-2, -2, 2, 2))
            _draw_curves(painter, plot, self.chart, self._theme)
        painter.end()

    def _draw_axes(self, painter: QPainter, plot: QRectF) -> None:
        painter.setPen(QPen(QColor(self._theme.line), 1.0))
        painter.drawLine(plot.topLeft(), plot.bottomLeft())
        painter.drawLine(plot.bottomLeft(), plot.bottomRight())

    def _draw_empty(self, painter: QPainter, plot: QRectF) -> None:
        """Draw axes and one quiet curve, in the colour of lines: nothing that could be read."""
        self._draw_axes(painter, plot)
        x = np.linspace(0.0, 1.0, 40)
        y = 0.15 + 0.6 * (1.0 - np.exp(-4.0 * x))
        painter.setPen(QPen(QColor(self._theme.line), 1.5, Qt.PenStyle.DotLine))
        painter.drawPolyline(_polygon(plot, x, y))


def _draw_curves(painter: QPainter, plot: QRectF, chart: Chart, theme: Theme) -> None:
    xs = _limits(chart.x, [curve.x for curve in chart.curves])
    ys = _limits(chart.y, [curve.y for curve in chart.curves])
    if xs is None or ys is None:
        return
    for curve in sorted(chart.curves, key=lambda curve: not curve.filled):  # bands below
        x, y = _shares(curve.x, chart.x, xs), _shares(curve.y, chart.y, ys)
        colour = QColor(theme.role_colour(curve.role))
        if curve.filled:
            colour.setAlphaF(PALE)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawPolygon(_polygon(plot, x, y))
            continue
        if curve.marker:
            painter.setPen(QPen(colour, 1.0))
            painter.setBrush(Qt.BrushStyle.NoBrush if curve.ring else QBrush(colour))
            radius = 2.2 if len(x) <= _FEW else 1.2
            for point in _points(plot, x, y):
                painter.drawEllipse(point, radius, radius)
        painter.setPen(QPen(colour, 1.2, _DASHES[curve.dash]))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for part in _whole_parts(x, y):  # scattered points have a gap after each
            painter.drawPolyline(_polygon(plot, *part))


def _draw_matrix(painter: QPainter, plot: QRectF, matrix: Matrix, theme: Theme) -> None:
    pixels = np.ascontiguousarray(colour_indices(matrix))
    rows, columns = pixels.shape
    image = QImage(pixels.data, columns, rows, columns, QImage.Format.Format_Indexed8)
    image.setColorTable(colour_table(matrix.ramp, theme))
    scale = min(plot.width() / columns, plot.height() / rows)
    target = QRectF(0, 0, scale * columns, scale * rows)
    target.moveCenter(plot.center())
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, scale < 1.0)
    painter.drawImage(target, image)


def _limits(axis: Axis, values: list[Array]) -> tuple[float, float] | None:
    """Return the limits of an axis, as logarithms if it is logarithmic; None without data."""
    if axis.limits is not None:
        low, high = axis.limits
        return (math.log10(low), math.log10(high)) if axis.log else (low, high)
    together = np.concatenate([np.empty(0), *values])
    shown = together[np.isfinite(together) & ((together > 0) | (not axis.log))]
    if not shown.size:
        return None
    shown = np.log10(shown) if axis.log else shown
    low, high = float(shown.min()), float(shown.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _shares(values: Array, axis: Axis, limits: tuple[float, float]) -> Array:
    """Return where values lie on an axis: 0 at its lower end, 1 at its upper end."""
    shown = np.asarray(values, dtype=np.float64)
    if axis.log:
        shown = np.log10(np.where(shown > 0, shown, np.nan))
    return np.clip((shown - limits[0]) / (limits[1] - limits[0]), -1.0, 2.0)


def _whole_parts(x: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the parts of a curve between gaps, thinned to what a small picture can show."""
    gaps = np.flatnonzero(~(np.isfinite(x) & np.isfinite(y)))
    for start, end in zip([0, *(gaps + 1)], [*gaps, len(x)], strict=True):
        if end - start > 1:
            every = max(1, (end - start) // _MOST)
            yield x[start:end:every], y[start:end:every]


def _points(plot: QRectF, x: Array, y: Array) -> Iterator[QPointF]:
    for across, up in zip(x[: 4 * _MOST], y[: 4 * _MOST], strict=True):
        if math.isfinite(across) and math.isfinite(up):
            yield QPointF(plot.left() + across * plot.width(), plot.bottom() - up * plot.height())


def _polygon(plot: QRectF, x: Array, y: Array) -> QPolygonF:
    return QPolygonF(list(_points(plot, x, y)))
