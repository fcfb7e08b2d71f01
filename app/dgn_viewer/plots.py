"""Shows a scene live: the only module that knows pyqtgraph, and a typed face for it."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.util.garbage_collector import GarbageCollector
from PySide6.QtCore import QEvent, QObject, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QGraphicsObject,
    QStyleOptionGraphicsItem,
    QVBoxLayout,
    QWidget,
)

from dgn_viewer import ramps
from dgn_viewer.arrangement import Margins, Place, arrange
from dgn_viewer.chart_frame import Ground, Look, margins, paint_frame
from dgn_viewer.chart_notes import (
    follow_box,
    paint_cursor,
    paint_follow,
    paint_notes,
    paint_readout,
)
from dgn_viewer.limits import Range, chart_range, thinned
from dgn_viewer.readout import describe
from dgn_viewer.sameness import same
from dgn_viewer.scene import Axis, Chart, Curve, Matrix, Scene
from dgn_viewer.theme import LIGHT, Theme

_DASHES = {
    "solid": Qt.PenStyle.SolidLine,
    "dash": Qt.PenStyle.DashLine,
    "dot": Qt.PenStyle.DotLine,
    "dashdot": Qt.PenStyle.DashDotLine,
}
_MOST_POINTS = 2000
_SMOOTH_POINTS = 800  # longer curves are drawn without antialias (57 ms against 0.5 ms)


class GuiGarbageCollector(QObject):
    """Runs Python's cyclic collector in the GUI thread only, while its parent lives.

    Otherwise a training thread may be the one that destroys Qt objects, which crashes.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._collector = GarbageCollector(interval=1.0)
        self._collector.timer.setParent(self)
        self.destroyed.connect(_enable_collection)

    def stop(self) -> None:
        """Give collection back to the interpreter."""
        self._collector.timer.stop()
        gc.enable()


def _enable_collection() -> None:
    gc.enable()


def install_gui_garbage_collector(parent: QObject) -> GuiGarbageCollector:
    """Collect garbage in the GUI thread until `parent` goes or `stop` is called."""
    return GuiGarbageCollector(parent)


class _Field(pg.ViewBox):  # type: ignore[misc]  # pyqtgraph is untyped
    """The pan-and-zoom area of one chart; tells clicks apart from drags."""

    def __init__(self, on_click: Callable[[QPointF, bool], None]) -> None:
        super().__init__(enableMenu=False, defaultPadding=0.0)
        self._on_click = on_click

    def mouseClickEvent(self, ev: Any) -> None:
        """A left click or double click; the place in scene coordinates."""
        if ev.button() == Qt.MouseButton.LeftButton:
            ev.accept()
            self._on_click(ev.scenePos(), ev.double())


class _Notes(QGraphicsObject):
    """Paints on top of the data, in the chart's coordinates."""

    def __init__(self, chart: _ChartItem) -> None:
        super().__init__(chart)
        self._chart = chart
        self.setZValue(10)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)

    def boundingRect(self) -> QRectF:
        return self._chart.boundingRect()

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        self._chart.paint_over(painter)


class _ChartItem(QGraphicsObject):
    """One chart of the scene; lives as long as its key, its items are only ever updated."""

    changed = Signal()
    clicked = Signal(QPointF, bool)

    def __init__(self, chart: Chart, look: Look) -> None:
        super().__init__()
        self.chart = chart
        self.look = look
        self.following = True
        self._wanted = Margins()
        self._room = Margins()
        self._pointed: QPointF | None = None
        self._outer = QRectF()
        self._box = QRectF(0, 0, 10, 10)
        self._curves: dict[str, pg.PlotCurveItem] = {}
        self._dots: dict[str, pg.ScatterPlotItem] = {}
        self._image: pg.ImageItem | None = None
        self.field = _Field(self.clicked.emit)
        self.field.setParentItem(self)
        self.field.setBorder(None)
        self.field.sigRangeChangedManually.connect(self._moved_by_hand)
        self.field.sigRangeChanged.connect(self._range_changed)
        self._notes = _Notes(self)
        self.show_chart(chart)

    # What it shows

    def show_chart(self, chart: Chart) -> None:
        """Take new data; the user's zoom stays."""
        self.chart = chart
        interactive = not chart.small
        self.field.setMouseEnabled(interactive, interactive)
        self.field.setCursor(
            Qt.CursorShape.PointingHandCursor if chart.click else Qt.CursorShape.ArrowCursor
        )
        self.field.invertY(chart.matrix is not None)
        if chart.matrix is not None:
            self._show_matrix(chart.matrix)
        elif self._image is not None:
            self.field.removeItem(self._image)
            self._image = None
        self._limit()
        if self.following:
            self._fit()
        self._show_curves()
        self._repaint()

    def wanted_room(self) -> Margins:
        """Room for labels; grows with them but does not shrink, so that frames do not dance."""
        x, y = self._full_range()
        fresh = margins(self.chart, self.look, x, y)
        left, right = max(fresh.left, self._wanted.left), max(fresh.right, self._wanted.right)
        self._wanted = Margins(left, fresh.top, right, fresh.bottom)
        return self._wanted

    def place(self, place: Place) -> None:
        """Put the data there (scene coordinates)."""
        box, room = place.box, place.room
        self._room = room
        self.prepareGeometryChange()
        self._notes.prepareGeometryChange()
        # Whole pixels: the frame then meets the picture without a blurred seam.
        self._box = QRectF(round(box.x), round(box.y), round(box.width), round(box.height))
        self._outer = self._box.adjusted(
            -room.left - 24, -room.top - 4, room.right + 24, room.bottom + 4
        )
        self.field.setGeometry(self._box)
        if self.following:
            self._fit()
        self._repaint()

    def set_look(self, look: Look) -> None:
        """Recolour everything."""
        self.look = look
        self.show_chart(self.chart)

    def follow(self) -> None:
        """Show all data again and keep doing so."""
        self.following = True
        self._fit()
        self._repaint()

    # Where things are

    @property
    def box(self) -> QRectF:
        """The data area in scene coordinates."""
        return self._box

    def ground(self) -> Ground:
        """The mapping of what is visible now."""
        (x0, x1), (y0, y1) = self.field.viewRange()
        return Ground(self._box, (x0, x1), (y0, y1), down=self.chart.matrix is not None)

    def data_at(self, place: QPointF) -> tuple[float, float]:
        """Data units under a place of the scene."""
        ground = self.ground()
        x = ground.x[0] + (place.x() - self._box.left()) / self._box.width() * (
            ground.x[1] - ground.x[0]
        )
        share = (place.y() - self._box.top()) / self._box.height()
        share = share if ground.down else 1.0 - share
        y = ground.y[0] + share * (ground.y[1] - ground.y[0])
        return _undrawn(x, self.chart.x), _undrawn(y, self.chart.y)

    def boundingRect(self) -> QRectF:
        return self._outer

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        paint_frame(painter, self.chart, self.look, self.ground(), self._room)

    def paint_over(self, painter: QPainter) -> None:
        """Notes on top of the data (called by the item that lies above them)."""
        ground = self.ground()
        paint_notes(painter, self.chart, self.look, ground)
        if not self.following:
            paint_follow(painter, self.look, ground)
        if self._pointed is not None and not self.chart.small:
            paint_cursor(painter, self.chart, self.look, ground, self._pointed)

    def over_follow(self, place: QPointF) -> bool:
        """Whether a place lies on the button 'follow' while it is shown."""
        return not self.following and follow_box(self.ground(), self.look.label).contains(place)

    def point(self, place: QPointF | None) -> None:
        """The cursor stands here, or has left."""
        if place != self._pointed:
            self._pointed = place
            self._notes.update()

    # Inside

    def _show_matrix(self, matrix: Matrix) -> None:
        if self._image is None:
            self._image = pg.ImageItem(axisOrder="row-major")
            self.field.addItem(self._image, ignoreBounds=True)
        if matrix.values.size == 0:
            self._image.clear()
            return
        colours = ramps.table(matrix.ramp, self.look.theme)
        self._image.setImage(ramps.indices(matrix), autoLevels=False, levels=(0, 255), lut=colours)
        rows, columns = matrix.values.shape
        self._image.setRect(QRectF(-0.5, -0.5, columns, rows))

    def _show_curves(self) -> None:
        names = {_curve_key(index, curve) for index, curve in enumerate(self.chart.curves)}
        for store in (self._curves, self._dots):
            for gone in set(store) - names:
                self.field.removeItem(store.pop(gone))
        (low, high), _ = self.field.viewRange()
        for index, curve in enumerate(self.chart.curves):
            self._show_curve(_curve_key(index, curve), curve, low, high)

    def _show_curve(self, key: str, curve: Curve, low: float, high: float) -> None:
        item = self._curves.get(key)
        if item is None:
            item = self._curves[key] = pg.PlotCurveItem(connect="finite")
            self.field.addItem(item, ignoreBounds=True)
        x, y = thinned(
            curve.x, curve.y, _undrawn(low, self.chart.x), _undrawn(high, self.chart.x),
            _MOST_POINTS,
        )  # fmt: skip
        x, y = _drawn_values(x, self.chart.x), _drawn_values(y, self.chart.y)
        colour = self.look.colour(curve.role)
        pen = pg.mkPen(colour, width=2 if curve.thick else 1, style=_DASHES[curve.dash])
        item.setData(x, y, pen=pen, antialias=len(x) <= _SMOOTH_POINTS, connect="finite")
        if curve.marker:
            dots = self._dots.get(key)
            if dots is None:
                dots = self._dots[key] = pg.ScatterPlotItem(pxMode=True)
                self.field.addItem(dots, ignoreBounds=True)
            seen = np.isfinite(y)
            dots.setData(x[seen], y[seen], size=4, pen=None, brush=pg.mkBrush(colour))
        elif key in self._dots:
            self.field.removeItem(self._dots.pop(key))

    def _full_range(self) -> tuple[Range, Range]:
        x, y = chart_range(self.chart)
        return _drawn_range(x, self.chart.x), _drawn_range(y, self.chart.y)

    def _fit(self) -> None:
        x, y = self._full_range()
        self.field.setRange(xRange=x, yRange=y, padding=0)

    def _limit(self) -> None:
        """Nobody gets lost: one cannot zoom out of a matrix."""
        none: Range | tuple[None, None] = (None, None)
        (x0, x1), (y0, y1) = self._full_range() if self.chart.matrix is not None else (none, none)
        self.field.setLimits(xMin=x0, xMax=x1, yMin=y0, yMax=y1)

    def _moved_by_hand(self, *_: object) -> None:
        self.following = False
        self._repaint()

    def _range_changed(self, *_: object) -> None:
        if self.chart.curves:
            self._show_curves()
        self._repaint()

    def _repaint(self) -> None:
        self.update()
        self._notes.update()
        self.changed.emit()


class _Readout(QGraphicsObject):
    """The card with the values under the cursor, above all charts."""

    def __init__(self) -> None:
        super().__init__()
        self.setZValue(100)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.look = Look(LIGHT)
        self.room = QRectF()
        self.place = QPointF()
        self.lines: tuple[str, ...] = ()

    def show_lines(self, place: QPointF, lines: tuple[str, ...]) -> None:
        """Show these lines beside a place; none hides the card."""
        if (place, lines) != (self.place, self.lines):
            self.place, self.lines = place, lines
            self.update()

    def boundingRect(self) -> QRectF:
        return self.room

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        if self.lines:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            paint_readout(painter, self.look, self.place, self.lines, self.room)

    def resize(self, room: QRectF) -> None:
        """The scene has this size now."""
        self.prepareGeometryChange()
        self.room = room


class SceneView(QWidget):
    """Shows a `Scene`; charts are known by key, so that zoom and items outlive each frame."""

    chosen = Signal(str, str)  # option, value: a chart or a column was clicked

    def __init__(self, theme: Theme = LIGHT, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._look = Look(theme, self.font().family())
        self._charts: dict[str, _ChartItem] = {}
        self._pointer: QPointF | None = None
        self._canvas = pg.GraphicsView(self, background=theme.panel)
        self._canvas.setFrameShape(self._canvas.Shape.NoFrame)
        self._canvas.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._readout = _Readout()
        self._readout.look = self._look
        self._canvas.addItem(self._readout)
        # Not sigMouseMoved: it is thinned, and may lose the place where the cursor comes to rest.
        self._canvas.viewport().installEventFilter(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._canvas)

    # Face

    def show_scene(self, scene: Scene) -> None:
        """Show these charts, keeping the items, the zoom and the cursor of those known by key."""
        gone = set(self._charts) - {chart.key for chart in scene.charts}
        for key in gone:
            self._remove(key)
        changed = bool(gone)
        for chart in scene.charts:
            item = self._charts.get(chart.key)
            if item is None:
                item = self._charts[chart.key] = _ChartItem(chart, self._look)
                item.clicked.connect(self._clicked)
                self._canvas.addItem(item)
            elif same(item.chart, chart):
                continue
            else:
                item.show_chart(chart)
            changed = True
        if changed:
            self._arrange()
            self._point()

    def clear(self) -> None:
        """Show nothing."""
        for key in list(self._charts):
            self._remove(key)
        self._point()

    def set_theme(self, theme: Theme) -> None:
        """Recolour everything that is shown."""
        self._look = Look(theme, self.font().family())
        self._canvas.setBackground(theme.panel)
        self._readout.look = self._look
        for item in self._charts.values():
            item.set_look(self._look)
        self._readout.update()

    def follow(self) -> None:
        """Show all data in every chart again."""
        for item in self._charts.values():
            item.follow()

    def is_following(self, key: str) -> bool:
        """Whether a chart still shows all of its data as they come."""
        return self._charts[key].following

    def visible_range(self, key: str) -> tuple[Range, Range]:
        """The part of a chart that is visible, in drawn coordinates (powers of ten on log axes)."""
        ground = self._charts[key].ground()
        return ground.x, ground.y

    def area(self, key: str) -> QRectF:
        """Where the data of a chart stand in this widget, in pixels."""
        return QRectF(self._charts[key].box)

    def readout(self) -> tuple[str, ...]:
        """The lines under the cursor as they are shown."""
        return self._readout.lines

    def canvas(self) -> QWidget:
        """The widget that receives the mouse."""
        viewport: QWidget = self._canvas.viewport()
        return viewport

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange the charts anew."""
        super().resizeEvent(event)
        self._arrange()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the cursor over the picture; the picture still gets every event."""
        if event.type() == QEvent.Type.MouseMove and isinstance(event, QMouseEvent):
            self._pointer = QPointF(self._canvas.mapToScene(event.position().toPoint()))
            self._point()
        elif event.type() == QEvent.Type.Leave:
            self._pointer = None
            self._point()
        return super().eventFilter(watched, event)

    def sizeHint(self) -> QSize:
        """A comfortable size."""
        return QSize(480, 240)

    def minimumSizeHint(self) -> QSize:
        """The least size at which something can be read."""
        return QSize(160, 84)

    # Inside

    def _remove(self, key: str) -> None:
        item = self._charts.pop(key)
        item.clicked.disconnect(self._clicked)
        self._canvas.removeItem(item)
        item.field.close()
        item.deleteLater()

    def _arrange(self) -> None:
        width, height = float(self.width()), float(self.height())
        self._canvas.resize(self.size())
        self._readout.resize(QRectF(0, 0, width, height))
        if not self._charts or width < 40 or height < 40:
            return
        rooms = {key: item.wanted_room() for key, item in self._charts.items()}
        charts = [item.chart for item in self._charts.values()]
        places = arrange(charts, rooms, width, height)
        for key, item in self._charts.items():
            item.place(places[key])

    def _item_at(self, place: QPointF) -> _ChartItem | None:
        return next((item for item in self._charts.values() if item.box.contains(place)), None)

    def _point(self) -> None:
        """Say what is under the cursor now: called when it moves and when the data do."""
        place = self._pointer
        under = self._item_at(place) if place is not None else None
        for item in self._charts.values():
            item.point(place if item is under else None)
        lines: tuple[str, ...] = ()
        if under is not None and place is not None and not under.over_follow(place):
            x, y = under.data_at(place)
            near = abs(under.data_at(place + QPointF(4.0, 0.0))[0] - x)
            lines = describe(under.chart, x, y, near)
        self._readout.show_lines(place or QPointF(), lines)

    def _clicked(self, place: QPointF, double: bool) -> None:
        item = self._item_at(place)
        if item is None:
            return
        chart = item.chart
        if double or item.over_follow(place):
            item.follow()
        elif chart.click is not None:
            self.chosen.emit(*chart.click)
        elif chart.pick and chart.matrix is not None:
            column = round(item.data_at(place)[0])
            if 0 <= column < chart.matrix.values.shape[1]:
                self.chosen.emit(chart.pick, str(column))


def _curve_key(index: int, curve: Curve) -> str:
    return curve.name or f"#{index}"


def _drawn_values(values: Any, axis: Axis) -> Any:
    """Drawn coordinates: powers of ten on a logarithmic axis, nothing where there is no power."""
    if not axis.log:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log10(values), np.nan)


def _drawn_range(reach: Range, axis: Axis) -> Range:
    return (math.log10(reach[0]), math.log10(reach[1])) if axis.log else reach


def _undrawn(value: float, axis: Axis) -> float:
    return float(10.0 ** max(min(value, 300.0), -300.0)) if axis.log else value
