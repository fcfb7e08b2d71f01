"""The overviews of a scene: a scrollable row with a small picture of each layer."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
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
    QPixmap,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QToolTip, QWidget

from dgn_engine.scene import ramps
from dgn_engine.scene.elements import Array, Chart, Matrix
from dgn_engine.scene.selection import NOTHING, Selection, make_selection
from dgn_engine.scene.typeset import strip_markup
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.plots.chart_frame import ChartStyle, PlotArea
from dgn_viewer.plots.chart_notes import paint_dead
from dgn_viewer.plots.lit_notes import paint_outline, selection_outlines
from dgn_viewer.style.stylesheet import wrapping_tip

HEIGHT = 56
LOW = 34  # reduced height, used if the charts below would have to scroll
GAP = 8.0
_LEAST, _MOST = 72.0, 160.0  # range of a picture's width
_TITLE = 15.0  # height of the title above it
_BELOW = 6.0  # height of the scroll indicator and the outline of the selected picture
_INDICATOR = 3.0


class RowPlaces:
    """The positions of the pictures in a scrollable row, in pixels."""

    def __init__(self, row: QWidget) -> None:
        self._row = row
        self.count = 0  # number of pictures
        self.shift = 0.0  # scroll position
        self.title_height = _TITLE

    @property
    def pitch(self) -> float:
        """The distance between neighbouring pictures."""
        width = (self._row.width() + GAP) / max(self.count, 1) - GAP
        return min(max(width, _LEAST), _MOST) + GAP

    @property
    def length(self) -> float:
        return self.count * self.pitch - GAP

    @property
    def max_shift(self) -> float:
        """The maximum scroll position."""
        return max(0.0, self.length - self._row.width())

    def picture_box(self, index: int) -> QRectF:
        left = index * self.pitch - self.shift
        width, height = round(self.pitch - GAP) - 4, self._row.height() - self.title_height - _BELOW
        return QRectF(round(left) + 2, self.title_height, width, height)

    def index_at(self, x: float) -> int | None:
        index = int((x + self.shift) // self.pitch)
        return index if 0 <= index < self.count else None

    def shift_to_show(self, index: int) -> float:
        """Return the nearest scroll position at which a picture is fully visible."""
        left = index * self.pitch
        return min(max(self.shift, left + self.pitch - GAP - self._row.width()), left)

    def scroll_to(self, shift: float) -> bool:
        """Scroll within the row's limits; return whether the position has changed."""
        before, self.shift = self.shift, min(max(shift, 0.0), self.max_shift)
        return self.shift != before

    def paint_indicator(self, painter: QPainter, style: ChartStyle) -> None:
        """Paint the scroll indicator, a thin line at the bottom."""
        if self.max_shift <= 0:
            return
        width, total = float(self._row.width()), self.length
        top = self._row.height() - _INDICATOR
        painter.fillRect(QRectF(0, top, width, _INDICATOR), style.colour("line", 0.6))
        thumb = QRectF(self.shift / total * width, top, width / total * width, _INDICATOR)
        painter.fillRect(thumb, style.colour("muted", 0.7))


class OverviewPainter:
    """A painter of overviews that caches the image of each matrix."""

    def __init__(self, style: ChartStyle) -> None:
        self.style = style
        self.lit = NOTHING  # the outlined selection
        # QImage does not own its pixels, so the array must be kept, too.
        self._known: dict[str, tuple[Matrix, Array, QImage]] = {}

    def keep_only(self, keys: set[str]) -> None:
        """Discard the cached images of all other charts."""
        self._known = {key: entry for key, entry in self._known.items() if key in keys}

    def paint_overview(self, painter: QPainter, chart: Chart, box: QRectF, focused: bool) -> None:
        type_ = self.style.label
        title = type_.shorten_label(chart.title, box.width())
        colour = self.style.colour("accent" if chart.chosen else "muted")
        type_.paint(painter, QPointF(box.left(), box.top() - 4.0), title, colour)
        if chart.matrix is not None and chart.matrix.values.size:
            painter.drawImage(box, self._overview_image(chart.key, chart.matrix))
            paint_dead(painter, chart, self.style, _plot_area(chart.matrix, box))
        if chart.chosen:
            painter.setPen(QPen(self.style.colour("accent"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box.adjusted(-1, -1, 1, 1))
            if focused:
                painter.setPen(QPen(self.style.colour("text"), 1, Qt.PenStyle.DotLine))
                painter.drawRect(box.adjusted(1, 1, -1, -1))

    def paint_selection(self, painter: QPainter, chart: Chart, box: QRectF) -> None:
        """Outline the selection in an overview."""
        if chart.matrix is None or not chart.matrix.values.size:
            return
        area = _plot_area(chart.matrix, box)
        for outline in selection_outlines(chart, area, self.lit):
            paint_outline(painter, chart=chart, style=self.style, plot_area=area, box=outline)

    def _overview_image(self, key: str, matrix: Matrix) -> QImage:
        cached = self._known.get(key)
        if cached is not None and cached[0] is matrix:
            return cached[2]
        rows, columns = matrix.values.shape
        pixels = ramps.colour_indices(matrix).copy(order="C")
        image = QImage(pixels.data, columns, rows, columns, QImage.Format.Format_Indexed8)
        image.setColorTable(ramps.colour_table(matrix.ramp, self.style.theme))
        self._known[key] = (matrix, pixels, image)
        return image


def _plot_area(matrix: Matrix, box: QRectF) -> PlotArea:
    rows, columns = matrix.values.shape
    return PlotArea(box, (-0.5, columns - 0.5), (-0.5, rows - 0.5), down=True)


class ThumbnailRow(QWidget):
    """A row of overviews, scrolled by wheel or drag; a click or the arrow keys select one."""

    chosen = Signal(str, str)  # option and value from `Chart.click`
    pointed = Signal(object)  # the selection under the mouse

    def __init__(self, style: ChartStyle, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._charts: tuple[Chart, ...] = ()
        self._painter = OverviewPainter(style)
        self._opacity = 1.0
        # The row without outlines, which follow the mouse; None if it has changed.
        self._picture: QPixmap | None = None
        self._pictured: tuple[object, ...] = ()  # what else it depends on
        self._chosen = ""  # key of the selected chart
        self.places = RowPlaces(self)
        self._held: tuple[float, float] | None = None  # (mouse x, scroll position) at the press
        self._dragged = False
        self._pointed = NOTHING
        callbacks: dict[QEvent.Type, Callable[[Any], bool | None]] = {
            QEvent.Type.Leave: lambda _event: self._point_at(None),
            QEvent.Type.ToolTip: self._show_tip,
        }
        EventFilter(self, callbacks, self)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFixedHeight(self.full_height)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # skip painting what is below

    # Contents

    def set_opacity(self, opacity: float) -> None:
        """Set the opacity of the overviews, to match the charts below."""
        if opacity != self._opacity:
            self._opacity = opacity
            self.update()

    def show_charts(self, charts: Sequence[Chart]) -> None:
        """Show these charts, and scroll to a newly selected one."""
        if len(charts) == len(self._charts) and all(map(operator.is_, charts, self._charts)):
            return
        before = self._chosen
        self._charts, self._picture = tuple(charts), None
        self._painter.keep_only({chart.key for chart in charts})
        self.places.count = len(charts)
        titles = ", ".join(
            f"{strip_markup(chart.title)}{' (selected)' if chart.chosen else ''}"
            for chart in charts
        )
        self.setAccessibleName(f"Overviews: {titles}")
        self._chosen = next((chart.key for chart in charts if chart.chosen), "")
        if self._chosen != before:
            self._scroll_to_chosen()
        self._scroll_to(self.places.shift)
        self.update()

    @property
    def full_height(self) -> int:
        return round(HEIGHT * self._painter.style.theme.scale)

    @property
    def low_height(self) -> int:
        return round(LOW * self._painter.style.theme.scale)

    def set_style(self, style: ChartStyle) -> None:
        self._painter.style = style
        self.places.title_height = _TITLE * style.theme.scale
        self._painter.keep_only(set())
        self._picture = None
        self.update()

    def outline_selection(self, selection: Selection) -> None:
        if selection != self._painter.lit:
            self._painter.lit = selection
            self.update()

    def picture_rect(self, key: str) -> QRectF:
        """Return the rectangle of a picture; an empty one if the key is unknown."""
        for index, chart in enumerate(self._charts):
            if chart.key == key:
                return self.places.picture_box(index)
        return QRectF()

    # Qt

    def sizeHint(self) -> QSize:
        return QSize(320, self.full_height)

    def minimumSizeHint(self) -> QSize:
        return QSize(64, self.full_height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._scroll_to(self.places.shift)
        self._scroll_to_chosen()

    def wheelEvent(self, event: QWheelEvent) -> None:
        exact = not event.pixelDelta().isNull()
        delta = event.pixelDelta() if exact else event.angleDelta()
        distance = delta.x() if abs(delta.x()) > abs(delta.y()) else delta.y()
        self._scroll_to(self.places.shift - distance * (1.0 if exact else 0.75))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._held, self._dragged = (event.position().x(), self.places.shift), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._held is None:
            self._point_at(self.places.index_at(event.position().x()))
            return
        origin, shift = self._held
        moved = event.position().x() - origin
        if self._dragged or abs(moved) >= QApplication.startDragDistance():
            self._dragged = True
            self._scroll_to(shift - moved)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._held = self._held, None
        if pressed is not None and not self._dragged:
            self._choose_overview(self.places.index_at(event.position().x()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        current = next((i for i, chart in enumerate(self._charts) if chart.chosen), 0)
        last = len(self._charts) - 1
        targets = {
            Qt.Key.Key_Left.value: current - 1,
            Qt.Key.Key_Right.value: current + 1,
            Qt.Key.Key_Home.value: 0,
            Qt.Key.Key_End.value: last,
        }
        if event.key() in targets:
            self._choose_overview(min(max(targets[event.key()], 0), last))
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        pictured = (
            self.size() * self.devicePixelRatioF(),
            self._opacity,
            self.places.shift,
            self.hasFocus(),
        )
        if self._picture is None or pictured != self._pictured:
            self._picture, self._pictured = self._paint_overviews(), pictured
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture)
        painter.setOpacity(self._opacity)
        for chart, box in self._visible_overviews():
            self._painter.paint_selection(painter, chart, box)
        painter.end()

    # Private

    def _paint_overviews(self) -> QPixmap:
        """Return a picture of the row without outlines."""
        ratio = self.devicePixelRatioF()
        picture = QPixmap(self.size() * ratio)
        picture.setDevicePixelRatio(ratio)
        painter = QPainter(picture)
        painter.setFont(self.font())
        painter.fillRect(self.rect(), self._painter.style.colour("panel"))
        painter.setOpacity(self._opacity)
        for chart, box in self._visible_overviews():
            self._painter.paint_overview(painter, chart, box, self.hasFocus())
        self.places.paint_indicator(painter, self._painter.style)
        painter.end()
        return picture

    def _visible_overviews(self) -> Iterator[tuple[Chart, QRectF]]:
        for index, chart in enumerate(self._charts):
            box = self.places.picture_box(index)
            if box.right() >= -2 and box.left() <= self.width() + 2:
                yield chart, box

    def _point_at(self, index: int | None) -> None:
        """Highlight the layer of a picture in all panels; None clears the highlight."""
        matrix = None if index is None else self._charts[index].matrix
        pointed = make_selection(layer=None if matrix is None else matrix.layer)
        if pointed != self._pointed:
            self._pointed = pointed
            self.pointed.emit(pointed)

    def _choose_overview(self, index: int | None) -> None:
        if index is not None and (click := self._charts[index].click) is not None:
            self.chosen.emit(*click)

    def _scroll_to_chosen(self) -> None:
        for index, chart in enumerate(self._charts):
            if chart.chosen:
                self._scroll_to(self.places.shift_to_show(index))

    def _scroll_to(self, shift: float) -> None:
        if self.places.scroll_to(shift):
            self.update()

    def _show_tip(self, event: QHelpEvent) -> bool:
        text, index = "", self.places.index_at(event.pos().x())
        if index is not None:
            chart = self._charts[index]
            name = chart.matrix.name if chart.matrix is not None else ""
            text = wrapping_tip(": ".join(filter(None, (strip_markup(chart.title), name))))
        QToolTip.showText(event.globalPos(), text, self)
        return True
