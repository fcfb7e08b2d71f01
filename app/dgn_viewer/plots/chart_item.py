"""A chart on the screen: frame, data, annotations, and zoom."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QGraphicsObject, QStyleOptionGraphicsItem, QWidget

from dgn_engine.scene.axes import Range, chart_range
from dgn_engine.scene.chart_layout import Box, ChartPlace, Margins
from dgn_engine.scene.delta_cursor import delta_lines
from dgn_engine.scene.elements import Chart
from dgn_engine.scene.linked_places import curve_at, selection_at
from dgn_engine.scene.mark_labels import Chip
from dgn_engine.scene.selection import NOTHING, Selection
from dgn_viewer.plots.chart_frame import (
    ChartStyle,
    FramePicture,
    PlotArea,
    State,
    data_from_drawn,
    drawn_at,
    drawn_range,
    frame_state,
)
from dgn_viewer.plots.chart_notes import cross_lines, follow_box, paint_follow, paint_notes
from dgn_viewer.plots.data_items import CurveItems, PictureItem
from dgn_viewer.plots.event_lane import EventLane
from dgn_viewer.plots.lit_notes import highlight_parts
from dgn_viewer.plots.pointer_overlay import PointerPart

_LEAST = 60.0  # pixels; minimum height of a chart for the card of the delta cursor
_NEAR = 8.0  # pixels; maximum distance between the cursor and a selected curve


def paint_delta(painter: QPainter, chart: Chart, style: ChartStyle, area: PlotArea) -> None:
    """Paint the lines and the card of the delta cursor, if any step is marked."""
    low, high = area.x
    box, type_ = area.box, style.label
    painter.setPen(QPen(style.colour("text"), 1, Qt.PenStyle.DashLine))
    for step in chart.delta:
        drawn = drawn_at(step, chart.x)
        if low <= drawn <= high:
            x = round(area.pixel_x(drawn))
            painter.drawLine(QLineF(x, box.top(), x, box.bottom()))
    lines = delta_lines(chart)
    if not lines or box.height() < _LEAST:
        return
    lines = lines[: max(int((box.height() - 12) // type_.height), 1)]
    width = max(type_.width(line) for line in lines) + 12
    card = QRectF(box.left() + 6, box.top() + 4, width, type_.height * len(lines) + 6)
    painter.setPen(QPen(style.colour("line"), 1))
    painter.setBrush(style.colour("window", 0.94))
    painter.drawRoundedRect(card, 4, 4)
    for index, line in enumerate(lines):
        base = QPointF(card.left() + 6, card.top() + 3 + type_.ascent + index * type_.height)
        type_.paint(painter, base, line, style.colour("text"))


class _Field(pg.ViewBox):  # type: ignore[misc]  # pyqtgraph is untyped
    """The pan-and-zoom area of a chart, which distinguishes clicks from drags."""

    def __init__(self, on_click: Callable[[QPointF, bool], None]) -> None:
        super().__init__(enableMenu=False, defaultPadding=0.0)
        self._on_click = on_click

    def mouseClickEvent(self, ev: Any) -> None:
        if ev.button() == Qt.MouseButton.LeftButton:
            ev.accept()
            self._on_click(ev.scenePos(), ev.double())


def _paint_line(pen: QPen, line: QLineF, painter: QPainter) -> None:
    painter.setPen(pen)
    painter.drawLine(line)


class _Notes(QGraphicsObject):
    """The layer of annotations above the data, in the chart's coordinates."""

    def __init__(self, chart: ChartItem) -> None:
        super().__init__(chart)
        self._chart = chart
        self.setZValue(10)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)

    def boundingRect(self) -> QRectF:
        return self._chart.boundingRect()

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        self._chart.paint_annotations(painter)


class ItemPointer:
    """The cursor and the outlined selection of one chart."""

    def __init__(self, item: ChartItem) -> None:
        self._item = item
        self.place: QPointF | None = None  # position of the cursor, if it is on the chart
        self.lit = NOTHING  # the outlined selection
        self._outlines: tuple[tuple[object, ...], list[PointerPart]] = ((), [])

    def pointer_parts(self) -> list[PointerPart]:
        """Return the outlines of the selection and the lines of the cursor."""
        chart, style, plot_area = self._item.chart, self._item.style, self._item.plot_area()
        state = self.lit, id(chart), plot_area, style
        if state != self._outlines[0]:
            self._outlines = state, highlight_parts(chart, style, plot_area, self.lit)
        parts = [*self._outlines[1]]
        if self.place is not None and not chart.small:
            pen = QPen(style.colour("accent", 0.9), 1)
            for line in cross_lines(chart, plot_area, self.place):
                key, box = ("line", line.toTuple(), style), QRectF(line.p1(), line.p2())
                parts.append(PointerPart(key, box, partial(_paint_line, pen, line)))
        return parts

    def selection_at(self, point: QPointF) -> Selection:
        """Return the matrix entry, the axis position or the curve at a point of the scene."""
        chart, area = self._item.chart, self._item.plot_area()
        x, y = self._item.data_at(point)
        selection = selection_at(chart, x, y)
        if selection != NOTHING or chart.matrix is not None:
            return selection

        def curve_pixel_y(value: float) -> float:
            return area.pixel_y(drawn_at(value, chart.y))

        return curve_at(chart, x, point.y(), curve_pixel_y, _NEAR)


class ChartItem(QGraphicsObject):
    """A chart of a scene, which lives as long as its key; updates reuse its graphics items."""

    clicked = Signal(QPointF, bool)  # position, whether it was a double click
    steps_zoomed = Signal(float, float)  # the user has zoomed a time axis
    zoomed = Signal()  # the user has zoomed
    changed = Signal()  # about to be repainted

    def __init__(self, chart: Chart, style: ChartStyle) -> None:
        super().__init__()
        self.chart = chart
        self.style = style
        self.following = True
        self._room = Margins()
        self._place: tuple[Box, Margins] | None = None
        self._lane: tuple[tuple[object, ...], EventLane | None] = ((), None)
        self._pointed_steps: tuple[float, float] | None = None
        self._outer = QRectF()
        self.box = QRectF(0, 0, 10, 10)  # the data's rectangle in scene coordinates
        self._full: tuple[Range, Range] = ((0.0, 1.0), (0.0, 1.0))
        self._limits: tuple[object, ...] = ()
        self._showing = False
        self.frame = FramePicture()
        self._framed: State = ()
        self._noted: State = ()
        self._picture: PictureItem | None = None
        self.field = _Field(self.clicked.emit)
        self.field.setParentItem(self)
        self.field.setBorder(None)
        self.field.sigRangeChangedManually.connect(self._on_manual_zoom)
        self.field.sigRangeChanged.connect(self._on_range_changed)
        self._curves = CurveItems(self.field)
        self._notes = _Notes(self)
        self.pointer = ItemPointer(self)
        self.show_chart(chart)

    # Contents

    def show_chart(self, chart: Chart) -> None:
        """Show new data, keeping the user's zoom."""
        before, self.chart = self.chart, chart
        x, y = chart_range(chart)
        self._full = drawn_range(x, chart.x), drawn_range(y, chart.y)
        self._showing = True  # changes of the range are handled once, at the end
        if before is chart or (before.small, before.click) != (chart.small, chart.click):
            self.field.setMouseEnabled(not chart.small, not chart.small)
        if chart.matrix is not None:
            if self._picture is None:
                self._picture = PictureItem()
                self.field.addItem(self._picture, ignoreBounds=True)
            self._picture.show_matrix(chart.matrix, self.style.theme)
        elif self._picture is not None:
            self.field.removeItem(self._picture)
            self._picture = None
        self.field.invertY(chart.matrix is not None)
        self._limit_zoom()
        if self.following:
            self._fit_range()
        self._curves.show_curves(self.chart, self.style)
        self._showing = False
        self._repaint_changed()

    def set_place(self, place: ChartPlace) -> None:
        """Set the data's rectangle in scene coordinates, and the margins around it."""
        box, room = place.box, place.room
        if (box, room) == self._place:
            return
        self._place = (box, room)
        self._room = room
        self.prepareGeometryChange()
        self._notes.prepareGeometryChange()
        # Whole pixels, to avoid a blurred seam between frame and image.
        self.box = QRectF(round(box.x), round(box.y), round(box.width), round(box.height))
        around = (-room.left - 24, -room.top - 4, room.right + 24, room.bottom + 4)
        self._outer = QRectF(self.box.adjusted(*around).toAlignedRect())
        self.field.setGeometry(self.box)
        if self.following:
            self._fit_range()
        self._repaint_changed()

    def set_style(self, style: ChartStyle) -> None:
        self.style = style
        self.show_chart(self.chart)

    def follow_data(self) -> None:
        """Reset the zoom, and show all data from now on."""
        self.following = True
        self._fit_range()
        self._repaint_changed()

    def show_range_of(self, other: ChartItem) -> None:
        """Zoom to the same rows and columns as another matrix."""
        self.following = other.following
        x, y = other.field.viewRange()
        self.field.setRange(xRange=x, yRange=y, padding=0)
        self._repaint_changed()

    # Coordinates

    def plot_area(self) -> PlotArea:
        (x0, x1), (y0, y1) = self.field.viewRange()
        return PlotArea(self.box, (x0, x1), (y0, y1), down=self.chart.matrix is not None)

    def data_at(self, point: QPointF) -> tuple[float, float]:
        """Return the data coordinates (x, y) at a point of the scene."""
        plot_area = self.plot_area()
        fraction = (point.x() - self.box.left()) / self.box.width()
        x = plot_area.x[0] + fraction * (plot_area.x[1] - plot_area.x[0])
        fraction = (point.y() - self.box.top()) / self.box.height()
        fraction = fraction if plot_area.down else 1.0 - fraction
        y = plot_area.y[0] + fraction * (plot_area.y[1] - plot_area.y[0])
        return data_from_drawn(x, self.chart.x), data_from_drawn(y, self.chart.y)

    def boundingRect(self) -> QRectF:
        return self._outer

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        area = self._outer.toAlignedRect()
        self.frame.paint(painter, area, self.chart, self.style, self.plot_area(), self._room)

    def paint_annotations(self, painter: QPainter) -> None:
        """Paint the annotations above the data; called by the layer of annotations."""
        plot_area = self.plot_area()
        paint_notes(painter, self.chart, self.style, plot_area)
        lane = self.current_lane()
        if lane is not None:
            lane.paint(painter, self._pointed_steps)
        if self.chart.delta:
            paint_delta(painter, self.chart, self.style, plot_area)
        if not self.following:
            paint_follow(painter, self.style, plot_area)

    def is_over_follow(self, point: QPointF) -> bool:
        """Return whether a point is on the visible 'reset' button."""
        return not self.following and follow_box(self.plot_area(), self.style.label).contains(point)

    # Event lane

    def current_lane(self) -> EventLane | None:
        """Return the event lane of this chart; None if another chart in its column has it."""
        below = self._room.bottom
        key = (self.chart.marks, self.chart.x, self.plot_area(), self.style, below)
        if key != self._lane[0]:
            has_lane = self._room.lane > 0
            lane = EventLane(self.chart, self.style, self.plot_area(), below) if has_lane else None
            self._lane = (key, lane)
        return self._lane[1]

    def point_at_chip(self, chip: Chip | None) -> None:
        steps = None if chip is None else chip.step_range
        if steps != self._pointed_steps:
            self._pointed_steps = steps
            self.changed.emit()
            self._notes.update()

    def show_steps(self, low: float, high: float) -> None:
        """Zoom the time axis and keep the range of values; `follow_data` resets it."""
        self.following = False
        drawn = drawn_range((max(low, 1e-9) if self.chart.x.log else low, high), self.chart.x)
        self.field.setXRange(*drawn, padding=0)
        self._repaint_changed()

    def shown_steps(self) -> Range | None:
        """Return the visible range of the time axis; None if it shows all steps."""
        low, high = self.plot_area().x
        return (
            None
            if self.following
            else (data_from_drawn(low, self.chart.x), data_from_drawn(high, self.chart.x))
        )

    # Private

    def _fit_range(self) -> None:
        x, y = self._full
        if [list(x), list(y)] != self.field.viewRange():
            self.field.setRange(xRange=x, yRange=y, padding=0)

    def _limit_zoom(self) -> None:
        """Prevent zooming out beyond a matrix."""
        unlimited: tuple[None, None] = (None, None)
        (x0, x1), (y0, y1) = self._full if self.chart.matrix is not None else (unlimited, unlimited)
        if (x0, x1, y0, y1) != self._limits:
            self._limits = (x0, x1, y0, y1)
            self.field.setLimits(xMin=x0, xMax=x1, yMin=y0, yMax=y1)

    def _on_manual_zoom(self, *_: object) -> None:
        self.following = False
        self._repaint_changed()
        self.zoomed.emit()
        if self.chart.has_step_axis and (shown := self.shown_steps()) is not None:
            self.steps_zoomed.emit(*shown)

    def _on_range_changed(self, *_: object) -> None:
        if self._showing:
            return
        if self.chart.curves:
            self._curves.show_curves(self.chart, self.style)
        self._repaint_changed()

    def _repaint_changed(self) -> None:
        """Repaint frame and annotations if they have changed; the data items repaint themselves."""
        self.changed.emit()
        chart, plot_area = self.chart, self.plot_area()
        framed = frame_state(chart, self.style, plot_area, self._room)
        if framed != self._framed:
            self._framed = framed
            self.update()
        matrix = chart.matrix
        drawn_on = matrix and (matrix.dead_columns, matrix.estimated)
        noted = (framed, self.following, chart.marks, chart.cursor, chart.delta, drawn_on)
        if chart.curves or noted != self._noted:
            self._noted = noted
            self._notes.update()
