"""The mouse over the charts of a view: what is under it is told, lit and pinned."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPointF, QRectF, Qt, QTimer
from PySide6.QtGui import QHelpEvent, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from dgn_engine.scene.mark_labels import chip_lines
from dgn_engine.scene.readout import describe
from dgn_viewer.plots.arranged_charts import ArrangedCharts
from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.chart_item import ChartItem
from dgn_viewer.plots.example_card import PINNED
from dgn_viewer.plots.link_pointer import LinkPointer
from dgn_viewer.plots.pointer_overlay import ChartCanvas, PointerOverlay
from dgn_viewer.plots.readout_card import ReadoutCard
from dgn_viewer.plots.spoken_charts import SpokenCharts

FRAME_MS = 33
TRAINING_MS = 80  # while a network trains at full speed: it waits for each call, and its painting


class PacedCall(QObject):
    """Made at once when it is asked for after a pause, and then once in `every` milliseconds; the
    last one asked for is never lost."""

    def __init__(self, call: Callable[[], None], parent: QObject, every: int = FRAME_MS) -> None:
        super().__init__(parent)
        self._call = call
        self._wanted = False
        self._timer = QTimer(self, singleShot=True, interval=every)
        self._timer.timeout.connect(self._over)

    def space(self, every: int) -> None:
        """From the next call on, so many milliseconds lie between two."""
        self._timer.setInterval(every)

    def ask(self) -> None:
        """Make the call now, or with the next frame."""
        self._wanted = True
        if not self._timer.isActive():
            self._over()

    def now(self) -> None:
        """Make it now, whatever was asked for."""
        self._wanted = False
        self._call()

    def catch_up(self) -> None:
        """Make it now where it was asked for and has not been made."""
        if self._wanted:
            self.now()

    def _over(self) -> None:
        if self._wanted:
            self.now()
            self._timer.start()


class ScenePointer(QObject):
    """Says what is under the mouse, or under the cursor that arrow keys move."""

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
        self._paced = PacedCall(self.point, self)  # a mouse moves more often than anybody reads
        self._readout = ReadoutCard()
        self._readout.style = style
        self._overlay = PointerOverlay(canvas)
        self.links = LinkPointer(self, charts.items, self._readout, charts.thumbnails, spoken)
        self.links.lighted.connect(self._show)
        charts.thumbnails.pointed.connect(self.links.pointed)

    def slow_down(self, training: bool) -> None:
        """Say less often what is under the mouse while a network trains at full speed."""
        self._paced.space(TRAINING_MS if training else FRAME_MS)

    def set_style(self, style: ChartStyle) -> None:
        self._readout.style = style
        self._show()

    def fit(self, _event: object = None) -> None:
        """The view has another size."""
        self._readout.room = QRectF(self._view.rect())
        self._overlay.resize(self._canvas.viewport().size())

    def map(self, event: QMouseEvent) -> QPointF:
        return QPointF(self._canvas.mapToScene(event.position().toPoint()))

    def on_move(self, event: QMouseEvent) -> bool:
        self.place = self.map(event)
        self._paced.ask()
        # Without a button nothing in the scene wants to know: looking there for what lies under
        # the mouse takes longer than all that is done here.
        return event.buttons() == Qt.MouseButton.NoButton

    def on_leave(self, _event: object = None) -> None:
        self.place = None
        self._paced.now()

    def on_tip(self, event: QHelpEvent) -> bool:
        words = self._charts.tip_at(QPointF(self._canvas.mapToScene(event.pos())))
        QToolTip.showText(event.globalPos(), words, self._view)
        return True

    def readout(self) -> tuple[str, ...]:
        """The lines under the cursor where it is by now."""
        self._paced.catch_up()
        return self._readout.lines

    def move_cursor(self, down: int, right: int) -> bool:
        """Move the cursor by entries, as arrow keys do; False where no chart has linked entries."""
        place = self.links.moved(self.place, down, right)
        self.place = place or self.place
        self.point()
        return place is not None

    def let_go(self) -> None:
        self.links.let_go()
        self.point()

    def point(self) -> None:
        """Say what is under the cursor now: called when it moves and when the data do."""
        place = self.place
        under = self._charts.item_at(place) if place is not None else None
        chip = self._charts.chip_at(place) if place is not None else None
        for item in self._charts.items.values():
            item.pointer.place = place if item is under else None
            item.point_at_chip(chip)
        self._show_cursor(under)
        if chip is None and self.links.tell(under, place):
            self._show()
            return
        letters = self._readout.letters
        lines: tuple[str, ...] = () if chip is None else chip_lines(chip, letters)
        if under is not None and place is not None and not under.over_follow(place):
            x, y = under.data_at(place)
            near = abs(under.data_at(place + QPointF(4.0, 0.0))[0] - x)
            lines = describe(under.chart, x, y, near)
            lines += (PINNED,) if self.links.is_pinned(under) else ()
        self._readout.show_lines(place or QPointF(), lines)
        self._show()

    def _show(self) -> None:
        """Paint what the mouse has brought where it has changed."""
        parts = [part for item in self._charts.seen() for part in item.pointer.parts()]
        self._overlay.show_parts((*parts, *self._readout.parts()))

    def _show_cursor(self, under: ChartItem | None) -> None:
        """A hand over a chart that a click chooses."""
        chosen = under is not None and under.chart.click is not None
        shape = Qt.CursorShape.PointingHandCursor if chosen else Qt.CursorShape.ArrowCursor
        viewport = self._canvas.viewport()
        if viewport.cursor().shape() != shape:
            viewport.setCursor(shape)
