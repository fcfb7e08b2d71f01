"""The overviews of a scene as one row that scrolls: a small picture for each layer."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QToolTip, QWidget

from dgn_engine.scene import ramps
from dgn_engine.scene.elements import Array, Chart, Matrix
from dgn_engine.scene.selection import NOTHING, Selection, selected
from dgn_engine.scene.typeset import plain
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.plots.chart_frame import ChartStyle, PlotArea
from dgn_viewer.plots.chart_notes import paint_dead
from dgn_viewer.plots.lit_notes import outlines, paint_outline
from dgn_viewer.style.stylesheet import tip

HEIGHT = 56
LOW = 34  # where the charts below would have to scroll
GAP = 8.0
_LEAST, _MOST = 72.0, 160.0  # width of a picture
_TITLE = 15.0  # height of the name above it
_BELOW = 6.0  # the indicator, and the outline of the chosen one
_INDICATOR = 3.0


class RowPlaces:
    """Where the pictures of a row stand that may be longer than its widget, in pixels."""

    def __init__(self, row: QWidget) -> None:
        self._row = row
        self.count = 0  # pictures
        self.shift = 0.0  # scrolled to the right

    @property
    def pitch(self) -> float:
        """From one picture to the next."""
        wide = (self._row.width() + GAP) / max(self.count, 1) - GAP
        return min(max(wide, _LEAST), _MOST) + GAP

    @property
    def length(self) -> float:
        return self.count * self.pitch - GAP

    @property
    def longest(self) -> float:
        """How far the row can be scrolled."""
        return max(0.0, self.length - self._row.width())

    def box(self, index: int) -> QRectF:
        left = index * self.pitch - self.shift
        wide, high = round(self.pitch - GAP) - 4, self._row.height() - _TITLE - _BELOW
        return QRectF(round(left) + 2, _TITLE, wide, high)

    def index_at(self, x: float) -> int | None:
        index = int((x + self.shift) // self.pitch)
        return index if 0 <= index < self.count else None

    def shift_to(self, index: int) -> float:
        """The least scrolled from here that has all of a picture in sight."""
        left = index * self.pitch
        return min(max(self.shift, left + self.pitch - GAP - self._row.width()), left)

    def scroll_to(self, shift: float) -> bool:
        """Scroll as far as the row reaches; returns whether that changes anything."""
        before, self.shift = self.shift, min(max(shift, 0.0), self.longest)
        return self.shift != before

    def paint_indicator(self, painter: QPainter, style: ChartStyle) -> None:
        """Which part of the row is in sight: a thin line at the foot."""
        if self.longest <= 0:
            return
        wide, whole = float(self._row.width()), self.length
        top = self._row.height() - _INDICATOR
        painter.fillRect(QRectF(0, top, wide, _INDICATOR), style.colour("line", 0.6))
        part = QRectF(self.shift / whole * wide, top, wide / whole * wide, _INDICATOR)
        painter.fillRect(part, style.colour("muted", 0.7))


class OverviewPainter:
    """Paints charts small, with a picture that is made once for each matrix."""

    def __init__(self, style: ChartStyle) -> None:
        self.style = style
        self.lit = NOTHING  # what is outlined
        self._known: dict[str, tuple[Matrix, Array, QImage]] = {}  # pixels belong to the array

    def keep(self, keys: set[str]) -> None:
        """Forget the pictures of other charts."""
        self._known = {key: known for key, known in self._known.items() if key in keys}

    def paint(self, painter: QPainter, chart: Chart, box: QRectF, focused: bool) -> None:
        type_ = self.style.label
        title = type_.shortened(chart.title, box.width())
        colour = self.style.colour("accent" if chart.chosen else "muted")
        type_.paint(painter, QPointF(box.left(), _TITLE - 4.0), title, colour)
        if chart.matrix is not None and chart.matrix.values.size:
            painter.drawImage(box, self._picture(chart.key, chart.matrix))
            rows, columns = chart.matrix.values.shape
            area = PlotArea(box, (-0.5, columns - 0.5), (-0.5, rows - 0.5), down=True)
            paint_dead(painter, chart, self.style, area)
            for outline in outlines(chart, area, self.lit):
                paint_outline(painter, chart=chart, style=self.style, plot_area=area, box=outline)
        if chart.chosen:
            painter.setPen(QPen(self.style.colour("accent"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box.adjusted(-1, -1, 1, 1))
            if focused:
                painter.setPen(QPen(self.style.colour("text"), 1, Qt.PenStyle.DotLine))
                painter.drawRect(box.adjusted(1, 1, -1, -1))

    def _picture(self, key: str, matrix: Matrix) -> QImage:
        known = self._known.get(key)
        if known is not None and known[0] is matrix:
            return known[2]
        rows, columns = matrix.values.shape
        pixels = ramps.indices(matrix).copy(order="C")
        image = QImage(pixels.data, columns, rows, columns, QImage.Format.Format_Indexed8)
        image.setColorTable(ramps.colour_table(matrix.ramp, self.style.theme))
        self._known[key] = (matrix, pixels, image)
        return image


class ThumbnailRow(QWidget):
    """Shows charts in a row; the wheel, a drag and the arrow keys move it, a click chooses."""

    chosen = Signal(str, str)  # an option of the panel and its value, as `Chart.click` has them
    pointed = Signal(object)  # the selection under the mouse

    def __init__(self, style: ChartStyle, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._charts: tuple[Chart, ...] = ()
        self._painter = OverviewPainter(style)
        self._opacity = 1.0
        self._chosen = ""  # the key of the chart
        self.places = RowPlaces(self)
        self._held: tuple[float, float] | None = None  # where the mouse and the row were
        self._dragged = False
        self._pointed = NOTHING
        callbacks: dict[QEvent.Type, Callable[[Any], bool | None]] = {
            QEvent.Type.Leave: lambda _event: self._point(None),
            QEvent.Type.ToolTip: self._show_tip,
        }
        EventFilter(self, callbacks, self)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFixedHeight(HEIGHT)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # nothing below it is painted

    # What it shows

    def set_opacity(self, opacity: float) -> None:
        """Draw the overviews pale, as the charts below them are."""
        if opacity != self._opacity:
            self._opacity = opacity
            self.update()

    def show_charts(self, charts: Sequence[Chart]) -> None:
        """Show these; a chart that has just been chosen is brought into sight."""
        if len(charts) == len(self._charts) and all(map(operator.is_, charts, self._charts)):
            return
        before = self._chosen
        self._charts = tuple(charts)
        self._painter.keep({chart.key for chart in charts})
        self.places.count = len(charts)
        titles = ", ".join(
            f"{plain(chart.title)}{' (chosen)' if chart.chosen else ''}" for chart in charts
        )
        self.setAccessibleName(f"Overviews: {titles}")
        self._chosen = next((chart.key for chart in charts if chart.chosen), "")
        if self._chosen != before:
            self._keep_in_sight()
        self._scroll_to(self.places.shift)
        self.update()

    def set_style(self, style: ChartStyle) -> None:
        self._painter.style = style
        self._painter.keep(set())
        self.update()

    def light(self, selection: Selection) -> None:
        if selection != self._painter.lit:
            self._painter.lit = selection
            self.update()

    def area(self, key: str) -> QRectF:
        """The rectangle of a picture in this widget; empty where there is none by this key."""
        for index, chart in enumerate(self._charts):
            if chart.key == key:
                return self.places.box(index)
        return QRectF()

    # Qt

    def sizeHint(self) -> QSize:
        return QSize(320, HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(64, HEIGHT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._scroll_to(self.places.shift)
        self._keep_in_sight()

    def wheelEvent(self, event: QWheelEvent) -> None:
        exact = not event.pixelDelta().isNull()
        delta = event.pixelDelta() if exact else event.angleDelta()
        along = delta.x() if abs(delta.x()) > abs(delta.y()) else delta.y()
        self._scroll_to(self.places.shift - along * (1.0 if exact else 0.75))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._held, self._dragged = (event.position().x(), self.places.shift), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._held is None:
            self._point(self.places.index_at(event.position().x()))
            return
        origin, shift = self._held
        moved = event.position().x() - origin
        if self._dragged or abs(moved) >= QApplication.startDragDistance():
            self._dragged = True
            self._scroll_to(shift - moved)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        held, self._held = self._held, None
        if held is not None and not self._dragged:
            self._choose(self.places.index_at(event.position().x()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        now = next((i for i, chart in enumerate(self._charts) if chart.chosen), 0)
        last = len(self._charts) - 1
        targets = {
            Qt.Key.Key_Left.value: now - 1,
            Qt.Key.Key_Right.value: now + 1,
            Qt.Key.Key_Home.value: 0,
            Qt.Key.Key_End.value: last,
        }
        if event.key() in targets:
            self._choose(min(max(targets[event.key()], 0), last))
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._painter.style.colour("panel"))
        painter.setOpacity(self._opacity)
        for index, chart in enumerate(self._charts):
            box = self.places.box(index)
            if box.right() >= -2 and box.left() <= self.width() + 2:
                self._painter.paint(painter, chart, box, self.hasFocus())
        self.places.paint_indicator(painter, self._painter.style)
        painter.end()

    # Inside

    def _point(self, index: int | None) -> None:
        """The layer of the picture under the mouse is lit in all panels."""
        matrix = None if index is None else self._charts[index].matrix
        pointed = selected(layer=None if matrix is None else matrix.layer)
        if pointed != self._pointed:
            self._pointed = pointed
            self.pointed.emit(pointed)

    def _choose(self, index: int | None) -> None:
        if index is not None and (click := self._charts[index].click) is not None:
            self.chosen.emit(*click)

    def _keep_in_sight(self) -> None:
        for index, chart in enumerate(self._charts):
            if chart.chosen:
                self._scroll_to(self.places.shift_to(index))

    def _scroll_to(self, shift: float) -> None:
        if self.places.scroll_to(shift):
            self.update()

    def _show_tip(self, event: QHelpEvent) -> bool:
        words, index = "", self.places.index_at(event.pos().x())
        if index is not None:
            chart = self._charts[index]
            name = chart.matrix.name if chart.matrix is not None else ""
            words = tip(": ".join(filter(None, (plain(chart.title), name))))
        QToolTip.showText(event.globalPos(), words, self)
        return True
