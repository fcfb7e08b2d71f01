"""Shows a `Scene` live, in a widget."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QWidget

from dgn_engine.scene.elements import Scene
from dgn_engine.scene.selection import NOTHING
from dgn_engine.scene.theme import DIMMED, LIGHT, Theme
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.plots.arranged_charts import ArrangedCharts, TimeAxes
from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.chart_item import ChartItem
from dgn_viewer.plots.pointer_overlay import ChartCanvas
from dgn_viewer.plots.scene_pointer import ScenePointer
from dgn_viewer.plots.spoken_charts import SpokenCharts


class RightClicks(QObject):
    """Right clicks on a widget, told apart from right drags, which zoom.

    No menu of anybody else appears there.
    """

    clicked = Signal(QPoint)  # in pixels of the widget

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._pressed: QPoint | None = None
        widget.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        callbacks = {
            QEvent.Type.MouseButtonPress: self._press,
            QEvent.Type.MouseButtonRelease: self._release,
        }
        EventFilter(self, callbacks, widget)

    def _press(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.RightButton:
            self._pressed = event.position().toPoint()

    def _release(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.RightButton:
            place, before = event.position().toPoint(), self._pressed
            self._pressed = None
            near = QApplication.startDragDistance()
            if before is not None and (before - place).manhattanLength() < near:
                self.clicked.emit(place)


class SceneView(QWidget):
    """Shows a `Scene`; charts are known by key, so that zoom and items outlive each frame.

    `charts`: the charts in their places; `steps`: what their time axes show; `pointer`: what is
    told of the place under the mouse; `links`: what that lights and pins.
    """

    chosen = Signal(str, str)  # option, value: a chart or a column was clicked
    menu_wanted = Signal(str, QPoint)  # the key of the chart, the place on the screen
    step_wanted = Signal(float)  # a time axis was double-clicked there
    step_marked = Signal(float)  # … or clicked with Shift
    steps_zoomed = Signal(float, float)  # a time axis shows these steps now, by hand
    steps_followed = Signal()  # … or all of them
    chart_chosen = Signal(str)  # the key of the chart that is to be shown where only one has room

    def __init__(self, theme: Theme = LIGHT, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style = ChartStyle(theme, self.font().family())
        self._shifted = False
        self._canvas = ChartCanvas(self, theme.panel)
        self._canvas.setFrameShape(self._canvas.Shape.NoFrame)
        self._canvas.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        viewport = self._canvas.viewport()
        self._spoken = SpokenCharts(self, self._canvas, viewport)
        self.charts = ArrangedCharts(self, self._canvas, style, self._connect)
        self.pointer = ScenePointer(self, self._canvas, self.charts, style, self._spoken)
        self.links = self.pointer.links
        self.steps = TimeAxes(self.charts, self.pointer.point)
        # Not sigMouseMoved: it is thinned, and may lose the place where the cursor comes to rest.
        callbacks: dict[QEvent.Type, Callable[[Any], bool | None]] = {
            QEvent.Type.MouseMove: self.pointer.on_move,
            QEvent.Type.Leave: self.pointer.on_leave,
            QEvent.Type.ToolTip: self.pointer.on_tip,
            QEvent.Type.Resize: self.pointer.fit,
            QEvent.Type.MouseButtonPress: self._press,
        }
        EventFilter(self, callbacks, viewport)
        self.charts.thumbnails.chosen.connect(self.chosen)
        self.charts.tabs.picked.connect(self.chart_chosen)
        for part in (viewport, self.charts.thumbnails):
            RightClicks(part).clicked.connect(partial(self._ask_menu, part))

    def show_scene(self, scene: Scene) -> None:
        """Show these charts, keeping the items, the zoom and the cursor of those known by key."""
        if not self.charts.show(scene.charts):
            return
        self.pointer.point()
        # The view boxes' transforms are brought up to date now; left to the paint event, they
        # would ask for a second one.
        self._canvas.scene().prepareForPaint()
        self._spoken.show(scene.charts)

    def dim(self, dimmed: bool) -> None:
        """Draw the charts pale: they are of an earlier step than what is beside them."""
        self.charts.dim(DIMMED if dimmed else 1.0)

    def set_theme(self, theme: Theme) -> None:
        style = ChartStyle(theme, self.font().family())
        self._canvas.changes()
        self._canvas.setBackground(theme.panel)
        self.charts.set_style(style)
        self.pointer.set_style(style)

    def chart_in_sight(self) -> str:
        """The chart under the cursor, else the first that is shown large."""
        under = self.charts.chart_at(self.pointer.place) if self.pointer.place is not None else ""
        return under or next(iter(self.charts.shown_keys()), "")

    def picture(self, key: str) -> QImage:
        """A chart as it is on the screen, without the cursor."""
        item = self.charts.items.get(key)
        box = self.charts.area(key) if item is None else item.boundingRect()
        before, self.pointer.place = self.pointer.place, None
        self.pointer.point()
        image = self.grab(box.toAlignedRect() & self.rect()).toImage()
        self.pointer.place = before
        self.pointer.point()
        return image

    def painting(self) -> float:
        """Seconds of processor time that painting has taken since this view was made."""
        seconds: float = self._canvas.painting
        return seconds

    def canvas(self) -> QWidget:
        """The widget that receives the mouse."""
        viewport: QWidget = self._canvas.viewport()
        return viewport

    def click_at_cursor(self) -> None:
        """As a click of the mouse where the cursor is."""
        if self.pointer.place is not None:
            self._clicked(self.pointer.place, False)

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.pointer.fit()
        self.charts.arrange()

    def sizeHint(self) -> QSize:
        return QSize(480, 240)

    def minimumSizeHint(self) -> QSize:
        return QSize(96, 24)

    # Inside

    def _connect(self, item: ChartItem) -> None:
        item.clicked.connect(self._clicked)
        item.steps_zoomed.connect(self.steps_zoomed)
        item.pointer.lit = self.links.lit

    def _press(self, event: QMouseEvent) -> None:
        place = self.pointer.map(event)
        self._shifted = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        chip = self.charts.chip_at(place)
        if chip is not None and event.button() == Qt.MouseButton.LeftButton:
            self.steps.go_to(*chip.steps)
        elif self.charts.item_at(place) is None:
            self.links.pinned.emit(NOTHING)

    def _ask_menu(self, part: QWidget, place: QPoint) -> None:
        key = self.charts.chart_at(QPointF(part.mapTo(self, place)))
        if key:
            self.menu_wanted.emit(key, part.mapToGlobal(place))

    def _clicked(self, place: QPointF, double: bool) -> None:
        item = self.charts.item_at(place)
        if item is None:
            return
        chart = item.chart
        if item.over_follow(place) or (double and not chart.timed):
            item.follow()
            if chart.timed:
                self.steps_followed.emit()
        elif chart.timed:  # a single click, which may be a stray one, moves nothing
            step = item.data_at(place)[0]
            if self._shifted:
                self.step_marked.emit(step)
            elif double:
                self.step_wanted.emit(step)
        elif chart.click is not None:
            self.chosen.emit(*chart.click)
        else:
            if chart.pick and chart.matrix is not None:
                column = round(item.data_at(place)[0])
                if 0 <= column < chart.matrix.values.shape[1]:
                    self.chosen.emit(chart.pick, str(column))
            self.links.pin(item, place)
            self.pointer.point()
