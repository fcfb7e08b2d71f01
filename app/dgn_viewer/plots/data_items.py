"""The data of a chart inside its frame: curves as pyqtgraph items, a matrix as an image."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtWidgets import QGraphicsObject, QStyleOptionGraphicsItem, QWidget

from dgn_engine.scene import ramps
from dgn_engine.scene.axes import thin_curve
from dgn_engine.scene.elements import Chart, Curve, Matrix
from dgn_engine.scene.theme import PALE, Theme
from dgn_viewer.plots.chart_frame import ChartStyle, data_from_drawn, drawn_values

_DASHES = {
    "solid": Qt.PenStyle.SolidLine,
    "dash": Qt.PenStyle.DashLine,
    "dot": Qt.PenStyle.DotLine,
    "dashdot": Qt.PenStyle.DashDotLine,
}
_MOST_POINTS = 2000
FAINT = 0.4  # opacity of raw values behind a smoothed line
_SMOOTH_POINTS = 800  # longer curves are drawn without antialias (57 ms against 0.5 ms)


class CurveItems:
    """The lines and dots inside a view box; updates reuse the items."""

    def __init__(self, field: pg.ViewBox) -> None:
        self._field = field
        self._lines: dict[str, pg.PlotCurveItem] = {}
        self._dots: dict[str, pg.ScatterPlotItem] = {}

    def show_curves(self, chart: Chart, style: ChartStyle) -> None:
        """Show the visible part of the chart's curves."""
        names = {_curve_key(index, curve) for index, curve in enumerate(chart.curves)}
        for store in (self._lines, self._dots):
            for key in set(store) - names:
                self._field.removeItem(store.pop(key))
        for index, curve in enumerate(chart.curves):
            self._show_curve(_curve_key(index, curve), curve, chart, style)
            self._lines[_curve_key(index, curve)].setZValue(index)  # the last is in front

    def _show_curve(self, key: str, curve: Curve, chart: Chart, style: ChartStyle) -> None:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = pg.PlotCurveItem(connect="finite")
            self._field.addItem(line, ignoreBounds=True)
        (low, high), _ = self._field.viewRange()
        visible_range = data_from_drawn(low, chart.x), data_from_drawn(high, chart.x)
        x, y = curve.x, curve.y
        if not curve.segments:  # thinning needs ascending x, which segments do not have
            x, y = thin_curve(x, y, *visible_range, _MOST_POINTS, chart.x.log)
        x, y = drawn_values(x, chart.x), drawn_values(y, chart.y)
        colour = style.colour(curve.role, FAINT if curve.faint else 1.0)
        width = (2 if curve.thick else 1) * style.theme.scale * self._pixel_ratio()
        pen = pg.mkPen(colour, width=width, style=_DASHES[curve.dash])
        if curve.filled:
            area = pg.mkBrush(style.colour(curve.role, PALE))
            line.setData(x, y, pen=None, brush=area, fillLevel="enclosed")
        else:
            smooth = len(x) <= _SMOOTH_POINTS
            line.setData(x, y, pen=pen, antialias=smooth, connect="finite", fillLevel=None)
        if curve.marker and not curve.filled:
            dots = self._dots.get(key)
            if dots is None:
                dots = self._dots[key] = pg.ScatterPlotItem(pxMode=True)
                self._field.addItem(dots, ignoreBounds=True)
            finite = np.isfinite(y)
            size = (6 if curve.thick else 4) * style.theme.scale
            outline = pg.mkPen(colour, width=1.5) if curve.ring else None
            fill = None if curve.ring else pg.mkBrush(colour)
            size += 5 if curve.ring else 0
            dots.setData(x[finite], y[finite], size=size, pen=outline, brush=fill)
        elif key in self._dots:
            self._field.removeItem(self._dots.pop(key))

    def _pixel_ratio(self) -> float:
        """Return the device pixel ratio: the widths of cosmetic pens are in device pixels."""
        view = self._field.getViewWidget()  # None until the chart is laid out
        screen = QGuiApplication.primaryScreen()
        return float(screen.devicePixelRatio() if view is None else view.devicePixelRatioF())


def _curve_key(index: int, curve: Curve) -> str:
    return f"{curve.name or f'#{index}'}{' ~' if curve.smoothed else ''}"


class PictureItem(QGraphicsObject):
    """A matrix image with entry (row, column) centred on (x, y) = (column, row).

    It takes half the time of pyqtgraph's `ImageItem`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._image = QImage()

    def show_matrix(self, matrix: Matrix, theme: Theme) -> None:
        rows, columns = matrix.values.shape
        if self._image.size() != QSize(columns, rows):
            self.prepareGeometryChange()
        indices = np.ascontiguousarray(ramps.colour_indices(matrix))
        image = QImage(indices.data, columns, rows, columns, QImage.Format.Format_Indexed8)
        image.setColorTable(ramps.colour_table(matrix.ramp, theme))
        # Scaled and painted four times as fast as an image of indices.
        self._image = image.convertToFormat(QImage.Format.Format_ARGB32_Premultiplied)
        self.update()

    def boundingRect(self) -> QRectF:
        return QRectF(-0.5, -0.5, self._image.width(), self._image.height())

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        if not self._image.isNull():
            painter.drawImage(self.boundingRect(), self._image)
