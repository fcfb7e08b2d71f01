"""A widget that shows a `Scene` live."""

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
    """Right clicks on a widget, as opposed to right drags, which zoom.

    The widget's own context menu is disabled.
    """

    clicked = Signal(QPoint)  # widget coordinates

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._pressed: QPoint | None = None
        widget.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        callbacks = {
            QEvent.Type.MouseButtonPress: self._on_press,
            QEvent.Type.MouseButtonRelease: self._on_release,
        }
        EventFilter(self, callbacks, widget)

    def _on_press(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.RightButton:
            self._pressed = event.position().toPoint()

    def _on_release(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.RightButton:
            point, pressed_at = event.position().toPoint(), self._pressed
            self._pressed = None
            max_distance = QApplication.startDragDistance()
            if pressed_at is not None and (pressed_at - point).manhattanLength() < max_distance:
                self.clicked.emit(point)


class SceneView(QWidget):
    """A view of a `Scene`; charts keep their items and zoom from frame to frame, by key.

    Attributes:
        charts: The layout of the charts.
        steps: The ranges of the time axes.
        pointer: The readout under the mouse.
        links: The selection that the mouse outlines and pins.
    """

    chosen = Signal(str, str)  # option and value of the clicked chart or column
    menu_wanted = Signal(str, QPoint)  # chart key, screen position
    step_wanted = Signal(float)  # a time axis was double-clicked at this step
    step_marked = Signal(float)  # … or Shift-clicked
    steps_zoomed = Signal(float, float)  # the user has zoomed a time axis to this range
    steps_followed = Signal()  # … or to all steps
    chart_chosen = Signal(str)  # key of the chart to show where only one fits

    def __init__(self, theme: Theme = LIGHT, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style = ChartStyle(theme, self.font().family())
        self._shifted = False
        self._canvas = ChartCanvas(self, theme.panel)
        self._canvas.setFrameShape(self._canvas.Shape.NoFrame)
        self._canvas.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        viewport = self._canvas.viewport()
        self._spoken = SpokenCharts(self, self._canvas, viewport)
        self.charts = ArrangedCharts(self, self._canvas, style, self._connect_item)
        self.pointer = ScenePointer(self, self._canvas, self.charts, style, self._spoken)
        self.links = self.pointer.links
        self.steps = TimeAxes(self.charts, self.pointer.update_readout)
        # Not sigMouseMoved: it is throttled and may miss the final position.
        callbacks: dict[QEvent.Type, Callable[[Any], bool | None]] = {
            QEvent.Type.MouseMove: self.pointer.on_move,
            QEvent.Type.Leave: self.pointer.on_leave,
            QEvent.Type.ToolTip: self.pointer.on_tip,
            QEvent.Type.Resize: self.pointer.fit_view,
            QEvent.Type.MouseButtonPress: self._on_press,
        }
        EventFilter(self, callbacks, viewport)
        self.charts.thumbnails.chosen.connect(self.chosen)
        self.charts.tabs.picked.connect(self.chart_chosen)
        for part in (viewport, self.charts.thumbnails):
            RightClicks(part).clicked.connect(partial(self._request_menu, part))

    def show_scene(self, scene: Scene) -> None:
        """Show a scene, keeping items, zoom and cursor of charts with known keys."""
        if not self.charts.set_charts(scene.charts):
            return
        self.pointer.update_readout()
        # Update the view boxes' transforms now; in the paint event they would trigger another one.
        self._canvas.scene().prepareForPaint()
        self._spoken.update_names(scene.charts)

    def set_dimmed(self, dimmed: bool) -> None:
        """Dim the charts, which show an earlier step than the rest of the window."""
        self.charts.set_opacity(DIMMED if dimmed else 1.0)

    def set_theme(self, theme: Theme) -> None:
        style = ChartStyle(theme, self.font().family())
        self._canvas.discard_picture()
        self._canvas.setBackground(theme.panel)
        self.charts.set_style(style)
        self.pointer.set_style(style)

    def visible_chart_key(self) -> str:
        """Return the key of the chart under the cursor, else of the first large one."""
        under = self.charts.chart_at(self.pointer.place) if self.pointer.place is not None else ""
        return under or next(iter(self.charts.shown_keys()), "")

    def grab_chart(self, key: str) -> QImage:
        """Return an image of a chart as displayed, without the cursor."""
        item = self.charts.items.get(key)
        box = self.charts.data_rect(key) if item is None else item.boundingRect()
        before, self.pointer.place = self.pointer.place, None
        self.pointer.update_readout()
        image = self.grab(box.toAlignedRect() & self.rect()).toImage()
        self.pointer.place = before
        self.pointer.update_readout()
        return image

    def painting_seconds(self) -> float:
        """Return the total CPU time spent on painting, in seconds."""
        seconds: float = self._canvas.painting
        return seconds

    def chart_viewport(self) -> QWidget:
        """Return the widget that receives mouse events."""
        viewport: QWidget = self._canvas.viewport()
        return viewport

    def click_at_cursor(self) -> None:
        """Simulate a mouse click at the cursor."""
        if self.pointer.place is not None:
            self._on_click(self.pointer.place, False)

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.pointer.fit_view()
        self.charts.arrange_items()

    def sizeHint(self) -> QSize:
        return QSize(480, 240)

    def minimumSizeHint(self) -> QSize:
        return QSize(96, 24)

    # Private

    def _connect_item(self, item: ChartItem) -> None:
        item.clicked.connect(self._on_click)
        item.steps_zoomed.connect(self.steps_zoomed)
        self.steps.zoom_new_axis(item)
        item.zoomed.connect(partial(self._share_zoom, item))
        item.pointer.lit = self.links.lit

    def _share_zoom(self, item: ChartItem) -> None:
        """Zoom the other matrices of a comparison like this one."""
        sides = item.chart.matrix and item.chart.matrix.sides
        for other in self.charts.items.values() if sides else ():
            of_other = other.chart.matrix and other.chart.matrix.sides
            if other is not item and of_other and sides and of_other.key == sides.key:
                other.show_range_of(item)

    def _on_press(self, event: QMouseEvent) -> None:
        point = self.pointer.map_to_scene(event)
        self._shifted = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        chip = self.charts.chip_at(point)
        if chip is not None and event.button() == Qt.MouseButton.LeftButton:
            self.steps.go_to(*chip.step_range)
        elif self.charts.item_at(point) is None:
            self.links.pinned.emit(NOTHING)

    def _request_menu(self, part: QWidget, place: QPoint) -> None:
        key = self.charts.chart_at(QPointF(part.mapTo(self, place)))
        if key:
            self.menu_wanted.emit(key, part.mapToGlobal(place))

    def _on_click(self, point: QPointF, double: bool) -> None:
        item = self.charts.item_at(point)
        if item is None:
            return
        chart = item.chart
        if item.is_over_follow(point) or (double and not chart.has_step_axis):
            item.follow_data()
            self._share_zoom(item)
            if chart.has_step_axis:
                self.steps_followed.emit()
        elif chart.has_step_axis:  # a plain single click does nothing: it may be accidental
            step = item.data_at(point)[0]
            if self._shifted:
                self.step_marked.emit(step)
            elif double:
                self.step_wanted.emit(step)
        elif chart.click is not None:
            self.chosen.emit(*chart.click)
        else:
            if chart.pick and chart.matrix is not None:
                column = round(item.data_at(point)[0])
                if 0 <= column < chart.matrix.values.shape[1]:
                    self.chosen.emit(chart.pick, str(column))
            self.links.pin_at(item, point)
            self.pointer.update_readout()
