"""A chart's frame kept as pixels: labels and axes are painted anew only when they change."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QPainter, QPixmap

from dgn_viewer.plots.chart_frame import ChartStyle, PlotArea, paint_frame
from dgn_viewer.scene.chart_layout import Margins
from dgn_viewer.scene.elements import Chart

State = tuple[object, ...]  # all that a frame depends on; equal states look the same


def frame_state(chart: Chart, look: ChartStyle, ground: PlotArea, room: Margins) -> State:
    """What `paint_frame` reads: everything but the values, the marks and the names of curves."""
    matrix = chart.matrix
    bar = (matrix.ramp, matrix.low, matrix.high, matrix.bar) if matrix else None
    return (chart.title, chart.small, chart.chosen, chart.x, chart.y, bar, look, ground, room)


class FramePicture:
    """Paints a frame, from memory where nothing in it has changed."""

    def __init__(self) -> None:
        self._state: State = ()
        self._pixmap = QPixmap()

    def paint(
        self,
        painter: QPainter,
        area: QRect,
        chart: Chart,
        look: ChartStyle,
        ground: PlotArea,
        room: Margins,
    ) -> None:
        """Paint the frame, all of which lies in `area` (whole pixels of the scene)."""
        state = (*frame_state(chart, look, ground, room), area)
        ratio = painter.device().devicePixelRatioF()
        size = area.size() * ratio
        if state != self._state or self._pixmap.size() != size:
            self._state = state
            self._pixmap = QPixmap(size)
            self._pixmap.setDevicePixelRatio(ratio)
            self._pixmap.fill(Qt.GlobalColor.transparent)
            inner = QPainter(self._pixmap)
            inner.translate(QPoint(0, 0) - area.topLeft())
            paint_frame(inner, chart, look, ground, room)
            inner.end()
        painter.drawPixmap(area.topLeft(), self._pixmap)
