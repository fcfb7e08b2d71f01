"""The mouse over the charts of a view: readout, outlines, and pins."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QPointF, QRectF, Qt, QTimer
from PySide6.QtGui import QHelpEvent, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from dgn_engine.scene.mark_labels import chip_lines
from dgn_engine.scene.readout import describe_point
from dgn_viewer.plots.arranged_charts import ArrangedCharts
from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.chart_item import ChartItem
from dgn_viewer.plots.example_card import PINNED
from dgn_viewer.plots.link_pointer import LinkPointer
from dgn_viewer.plots.pointer_overlay import ChartCanvas, PointerOverlay
from dgn_viewer.plots.readout_card import ReadoutCard
from dgn_viewer.plots.spoken_charts import SpokenCharts

FRAME_MS = 33
# While a network trains at full speed, which each call interrupts:
TRAINING_MS = 100  # at least
SHARE = 0.03  # of the thread's time between two calls, unless that is longer than
LONGEST_MS = 250


class PacedCall(QObject):
    """A throttled call: immediate after a pause, then at most once in `every` milliseconds.

    The last request is always served.
    """

    def __init__(self, call: Callable[[], None], parent: QObject, every: int = FRAME_MS) -> None:
        super().__init__(parent)
        self._call = call
        self._wanted = False
        self._every, self._share = every, 1.0
        self._busy = time.thread_time()  # of this thread, at the last call
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._on_timeout)

    def set_pace(self, every: int, share: float = 1.0) -> None:
        """Set the minimum time between two calls in milliseconds, and the share of a processor
        that the thread may take from one to the next."""
        self._every, self._share = every, share

    def request_call(self) -> None:
        """Make the call now, or when the interval has elapsed."""
        self._wanted = True
        if not self._timer.isActive():
            self._on_timeout()

    def call_now(self) -> None:
        """Make the call immediately."""
        self._wanted = False
        self._call()

    def catch_up(self) -> None:
        """Make a pending call immediately."""
        if self._wanted:
            self.call_now()

    def _on_timeout(self) -> None:
        if self._wanted:
            busy, self._busy = self._busy, time.thread_time()
            self.call_now()
            # What the last call led to, such as painting, is over by now.
            spent = 1000 * (self._busy - busy) / self._share if self._share < 1.0 else 0.0
            self._timer.start(max(self._every, min(round(spent), LONGEST_MS)))


class ScenePointer(QObject):
    """The readout at the mouse, or at the cursor that the arrow keys move."""

    def __init__(
        self,
        view: QWidget,
        canvas: ChartCanvas,
        charts: ArrangedCharts,
        style: ChartStyle,
        spoken: SpokenCharts,
    ) -> None:
        super().__init__(view)
        self._view, self._canvas, self._charts = view, canvas, charts
        self.place: QPointF | None = None
        self._paced = PacedCall(self.update_readout, self)  # throttle frequent mouse moves
        self._readout = ReadoutCard()
        self._readout.style = style
        self._overlay = PointerOverlay(canvas)
        self.links = LinkPointer(self, charts.items, self._readout, charts.thumbnails, spoken)
        self.links.lighted.connect(self._show_overlay)
        charts.thumbnails.pointed.connect(self.links.pointed)
        charts.arranged.connect(self._show_overlay)

    def slow_down(self, training: bool) -> None:
        """Update the readout less often while a network trains at full speed."""
        if training:
            self._paced.set_pace(TRAINING_MS, SHARE)
        else:
            self._paced.set_pace(FRAME_MS)

    def set_style(self, style: ChartStyle) -> None:
        self._readout.style = style
        self._show_overlay()

    def fit_view(self, _event: object = None) -> None:
        """Adapt to the size of the view."""
        self._readout.room = QRectF(self._view.rect())
        self._overlay.resize(self._canvas.viewport().size())

    def map_to_scene(self, event: QMouseEvent) -> QPointF:
        return QPointF(self._canvas.mapToScene(event.position().toPoint()))

    def on_move(self, event: QMouseEvent) -> bool:
        self.place = self.map_to_scene(event)
        self._paced.request_call()
        # Consume moves without a button: no item in the scene needs them, and finding the item
        # under the mouse costs more than everything done here.
        return event.buttons() == Qt.MouseButton.NoButton

    def on_leave(self, _event: object = None) -> None:
        self.place = None
        self._paced.call_now()

    def on_tip(self, event: QHelpEvent) -> bool:
        text = self._charts.tip_at(QPointF(self._canvas.mapToScene(event.pos())))
        QToolTip.showText(event.globalPos(), text, self._view)
        return True

    def readout_lines(self) -> tuple[str, ...]:
        """Return the lines of the readout at the current position."""
        self._paced.catch_up()
        return self._readout.lines

    def move_cursor(self, down: int, right: int) -> bool:
        """Move the cursor by matrix entries; return False if no chart has linked entries."""
        place = self.links.cursor_after_move(self.place, down, right)
        self.place = place or self.place
        self.update_readout()
        return place is not None

    def clear_pin(self) -> None:
        self.links.clear_pin()
        self.update_readout()

    def update_readout(self) -> None:
        """Update the readout, after the cursor has moved or the data has changed."""
        place = self.place
        under = self._charts.item_at(place) if place is not None else None
        chip = self._charts.chip_at(place) if place is not None else None
        for item in self._charts.items.values():
            item.pointer.place = place if item is under else None
            item.point_at_chip(chip)
        self._show_cursor(under)
        if chip is None and self.links.show_card(under, place):
            self._show_overlay()
            return
        letters = self._readout.letters_per_line
        lines: tuple[str, ...] = () if chip is None else chip_lines(chip, letters)
        if under is not None and place is not None and not under.is_over_follow(place):
            x, y = under.data_at(place)
            step_size = abs(under.data_at(place + QPointF(4.0, 0.0))[0] - x)
            lines = describe_point(under.chart, x, y, step_size)
            lines += (PINNED,) if self.links.is_pinned(under) else ()
        self._readout.show_lines(place or QPointF(), lines)
        self._show_overlay()

    def _show_overlay(self) -> None:
        """Update the overlay with the outlines, cursor lines and card."""
        parts = [
            part for item in self._charts.visible_items() for part in item.pointer.pointer_parts()
        ]
        self._overlay.show_parts((*parts, *self._readout.pointer_parts()))

    def _show_cursor(self, under: ChartItem | None) -> None:
        """Show a pointing hand over a chart that can be selected by a click."""
        clickable = under is not None and under.chart.click is not None
        shape = Qt.CursorShape.PointingHandCursor if clickable else Qt.CursorShape.ArrowCursor
        viewport = self._canvas.viewport()
        if viewport.cursor().shape() != shape:
            viewport.setCursor(shape)
