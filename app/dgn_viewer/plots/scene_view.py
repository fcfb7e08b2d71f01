"""Shows a `Scene` live, in a widget."""

from __future__ import annotations

import time

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QObject, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.chart_item import ChartItem
from dgn_viewer.plots.readout_card import ReadoutCard
from dgn_viewer.scene.axes import Range
from dgn_viewer.scene.chart_layout import arrange
from dgn_viewer.scene.elements import Scene, same
from dgn_viewer.scene.readout import describe
from dgn_viewer.style.theme import LIGHT, Theme


class _Canvas(pg.GraphicsView):  # type: ignore[misc]  # pyqtgraph is untyped
    """Counts the processor time that its painting takes."""

    def __init__(self, parent: QWidget, background: str) -> None:
        super().__init__(parent, background=background)
        self.painting = 0.0  # seconds so far

    def paintEvent(self, event: QPaintEvent) -> None:
        began = time.thread_time()
        super().paintEvent(event)
        self.painting += time.thread_time() - began


class SceneView(QWidget):
    """Shows a `Scene`; charts are known by key, so that zoom and items outlive each frame."""

    chosen = Signal(str, str)  # option, value: a chart or a column was clicked

    def __init__(self, theme: Theme = LIGHT, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = ChartStyle(theme, self.font().family())
        self._charts: dict[str, ChartItem] = {}
        self._pointer: QPointF | None = None
        self._canvas = _Canvas(self, theme.panel)
        self._canvas.setFrameShape(self._canvas.Shape.NoFrame)
        self._canvas.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._readout = ReadoutCard()
        self._readout.style = self._style
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
                item = self._charts[chart.key] = ChartItem(chart, self._style)
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
            # The view boxes' transforms are brought up to date now; left to the paint event, they
            # would ask for a second one.
            self._canvas.scene().prepareForPaint()

    def clear(self) -> None:
        for key in list(self._charts):
            self._remove(key)
        self._point()

    def set_theme(self, theme: Theme) -> None:
        self._style = ChartStyle(theme, self.font().family())
        self._canvas.setBackground(theme.panel)
        self._readout.style = self._style
        for item in self._charts.values():
            item.set_style(self._style)
        self._readout.update()

    def follow(self) -> None:
        for item in self._charts.values():
            item.follow()

    def is_following(self, key: str) -> bool:
        return self._charts[key].following

    def visible_range(self, key: str) -> tuple[Range, Range]:
        """The part of a chart that is visible, in drawn coordinates (powers of ten on log axes)."""
        plot_area = self._charts[key].plot_area()
        return plot_area.x, plot_area.y

    def area(self, key: str) -> QRectF:
        """The rectangle of a chart's data in this widget, in pixels."""
        return QRectF(self._charts[key].box)

    def readout(self) -> tuple[str, ...]:
        """The lines under the cursor as they are shown."""
        return self._readout.lines

    def painting(self) -> float:
        """Seconds of processor time that painting has taken since this view was made."""
        seconds: float = self._canvas.painting
        return seconds

    def canvas(self) -> QWidget:
        """The widget that receives the mouse."""
        viewport: QWidget = self._canvas.viewport()
        return viewport

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.MouseMove and isinstance(event, QMouseEvent):
            self._pointer = QPointF(self._canvas.mapToScene(event.position().toPoint()))
            self._point()
        elif event.type() == QEvent.Type.Leave:
            self._pointer = None
            self._point()
        return super().eventFilter(watched, event)

    def sizeHint(self) -> QSize:
        return QSize(480, 240)

    def minimumSizeHint(self) -> QSize:
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

    def _item_at(self, place: QPointF) -> ChartItem | None:
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
