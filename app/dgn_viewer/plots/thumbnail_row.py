"""The overviews of a scene as one row that scrolls: a small picture for each layer."""

from __future__ import annotations

from collections.abc import Sequence

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
from dgn_engine.scene.elements import Array, Chart, Matrix, same
from dgn_engine.scene.selection import NOTHING, Selection, selected
from dgn_engine.scene.typeset import plain
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


class ThumbnailRow(QWidget):
    """Shows charts in a row; the wheel, a drag and the arrow keys move it, a click chooses."""

    chosen = Signal(str, str)  # an option of the panel and its value, as `Chart.click` has them
    pointed = Signal(object)  # the selection under the mouse

    def __init__(self, style: ChartStyle, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._charts: tuple[Chart, ...] = ()
        self._pictures: dict[str, tuple[Matrix, Array, QImage]] = {}  # pixels belong to the array
        self._opacity = 1.0
        self._shift = 0.0  # pixels scrolled to the right
        self._held: tuple[float, float] | None = None  # where the mouse and the row were
        self._dragged = False
        self._lit = NOTHING
        self._pointed = NOTHING
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
        if same(tuple(charts), self._charts):
            return
        before = self._chosen_key()
        self._charts = tuple(charts)
        keys = {chart.key for chart in charts}
        self._pictures = {key: kept for key, kept in self._pictures.items() if key in keys}
        titles = ", ".join(
            f"{plain(chart.title)}{' (chosen)' if chart.chosen else ''}" for chart in charts
        )
        self.setAccessibleName(f"Overviews: {titles}")
        if self._chosen_key() != before:
            self._keep_in_sight()
        self._scroll_to(self._shift)
        self.update()

    def set_style(self, style: ChartStyle) -> None:
        self._style = style
        self._pictures.clear()
        self.update()

    def light(self, selection: Selection) -> None:
        """Outline what is selected."""
        if selection != self._lit:
            self._lit = selection
            self.update()

    def area(self, key: str) -> QRectF:
        """The rectangle of a picture in this widget; empty where there is none by this key."""
        for index, chart in enumerate(self._charts):
            if chart.key == key:
                return self._picture_box(index)
        return QRectF()

    def scrolled(self) -> float:
        """Pixels between the left edge of the row and that of the widget."""
        return self._shift

    def longest(self) -> float:
        """How far the row can be scrolled."""
        return max(0.0, self._length() - self.width())

    # Qt

    def sizeHint(self) -> QSize:
        return QSize(320, HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(64, HEIGHT)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._scroll_to(self._shift)
        self._keep_in_sight()

    def wheelEvent(self, event: QWheelEvent) -> None:
        delta = event.pixelDelta() if not event.pixelDelta().isNull() else event.angleDelta()
        along = delta.x() if abs(delta.x()) > abs(delta.y()) else delta.y()
        self._scroll_to(self._shift - along * (1.0 if not event.pixelDelta().isNull() else 0.75))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._held, self._dragged = (event.position().x(), self._shift), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._held is None:
            self._point(self._index_at(event.position()))
            return
        origin, shift = self._held
        moved = event.position().x() - origin
        if self._dragged or abs(moved) >= QApplication.startDragDistance():
            self._dragged = True
            self._scroll_to(shift - moved)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        held, self._held = self._held, None
        if held is not None and not self._dragged:
            self._choose(self._index_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        self._point(None)

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

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            index = self._index_at(QPointF(event.pos()))
            words = self._words(self._charts[index]) if index is not None else ""
            QToolTip.showText(event.globalPos(), words, self)
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._style.colour("panel"))
        painter.setOpacity(self._opacity)
        for index, chart in enumerate(self._charts):
            box = self._picture_box(index)
            if box.right() >= -2 and box.left() <= self.width() + 2:
                self._paint_one(painter, chart, box)
        self._paint_indicator(painter)
        painter.end()

    # Inside

    def _pitch(self) -> float:
        count = max(len(self._charts), 1)
        return min(max((self.width() + GAP) / count - GAP, _LEAST), _MOST) + GAP

    def _length(self) -> float:
        return len(self._charts) * self._pitch() - GAP

    def _picture_box(self, index: int) -> QRectF:
        left = index * self._pitch() - self._shift
        return QRectF(
            round(left) + 2, _TITLE, round(self._pitch() - GAP) - 4, self.height() - _TITLE - _BELOW
        )

    def _index_at(self, place: QPointF) -> int | None:
        index = int((place.x() + self._shift) // self._pitch())
        return index if 0 <= index < len(self._charts) else None

    def _chosen_key(self) -> str:
        return next((chart.key for chart in self._charts if chart.chosen), "")

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
                left = index * self._pitch()
                right = left + self._pitch() - GAP
                self._scroll_to(min(max(self._shift, right - self.width()), left))

    def _scroll_to(self, shift: float) -> None:
        shift = min(max(shift, 0.0), self.longest())
        if shift != self._shift:
            self._shift = shift
            self.update()

    def _words(self, chart: Chart) -> str:
        name = chart.matrix.name if chart.matrix is not None else ""
        return tip(f"{plain(chart.title)}: {name}" if name else plain(chart.title))

    def _paint_one(self, painter: QPainter, chart: Chart, box: QRectF) -> None:
        type_ = self._style.small_title
        title = type_.shortened(chart.title, box.width())
        colour = self._style.colour("accent" if chart.chosen else "muted")
        type_.paint(painter, QPointF(box.left(), _TITLE - 4.0), title, colour)
        if chart.matrix is not None and chart.matrix.values.size:
            painter.drawImage(box, self._picture(chart.key, chart.matrix))
            rows, columns = chart.matrix.values.shape
            area = PlotArea(box, (-0.5, columns - 0.5), (-0.5, rows - 0.5), down=True)
            paint_dead(painter, chart, self._style, area)
            for outline in outlines(chart, area, self._lit):
                paint_outline(painter, chart=chart, style=self._style, plot_area=area, box=outline)
        if chart.chosen:
            painter.setPen(QPen(self._style.colour("accent"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box.adjusted(-1, -1, 1, 1))
            if self.hasFocus():
                painter.setPen(QPen(self._style.colour("text"), 1, Qt.PenStyle.DotLine))
                painter.drawRect(box.adjusted(1, 1, -1, -1))

    def _picture(self, key: str, matrix: Matrix) -> QImage:
        known = self._pictures.get(key)
        if known is not None and known[0] is matrix:
            return known[2]
        rows, columns = matrix.values.shape
        pixels = ramps.indices(matrix).copy(order="C")
        image = QImage(pixels.data, columns, rows, columns, QImage.Format.Format_Indexed8)
        image.setColorTable(ramps.colour_table(matrix.ramp, self._style.theme))
        self._pictures[key] = (matrix, pixels, image)
        return image

    def _paint_indicator(self, painter: QPainter) -> None:
        """Which part of the row is in sight: a thin line at the foot."""
        if self.longest() <= 0:
            return
        wide, whole, top = float(self.width()), self._length(), self.height() - _INDICATOR
        painter.fillRect(QRectF(0, top, wide, _INDICATOR), self._style.colour("line", 0.6))
        part = QRectF(self._shift / whole * wide, top, wide / whole * wide, _INDICATOR)
        painter.fillRect(part, self._style.colour("muted", 0.7))
