"""Shows a `Scene` live, in a widget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QHelpEvent, QImage, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QScrollBar, QToolTip, QWidget

from dgn_engine.scene.axes import Range, chart_range
from dgn_engine.scene.chart_layout import (
    SCROLL,
    TAB_ROW,
    ChartPlace,
    Fitted,
    Margins,
    fitted,
)
from dgn_engine.scene.elements import Chart, Scene, same
from dgn_engine.scene.mark_labels import Chip, chip_lines, steps_around
from dgn_engine.scene.readout import describe
from dgn_engine.scene.selection import NOTHING
from dgn_engine.scene.theme import DIMMED, LIGHT, Theme
from dgn_engine.scene.typeset import html
from dgn_viewer.plots.chart_frame import ChartStyle, drawn_range, margins
from dgn_viewer.plots.chart_item import ChartItem
from dgn_viewer.plots.chart_tabs import ChartTabs
from dgn_viewer.plots.example_card import PINNED
from dgn_viewer.plots.link_pointer import LinkPointer
from dgn_viewer.plots.pointer_overlay import ChartCanvas, PointerOverlay
from dgn_viewer.plots.readout_card import ReadoutCard
from dgn_viewer.plots.spoken_charts import SpokenCharts
from dgn_viewer.plots.thumbnail_row import GAP, HEIGHT, LOW, ThumbnailRow

FRAME_MS = 33
TRAINING_MS = 80  # while a network trains at full speed: it waits for each call, and its painting
_HARDLY_MORE = 1.15  # of the room: less of a chart is out of sight than a row of overviews is high


# A call that is made once in a frame, however often it is asked for.
class PacedCall(QObject):
    """Made at once when it is asked for after a pause, and then once in `every` milliseconds; the
    last one asked for is never lost."""

    def __init__(self, call: Callable[[], None], parent: QObject, every: int = FRAME_MS) -> None:
        super().__init__(parent)
        self._call = call
        self._wanted = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(every)
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


# Right clicks on a widget, told apart from right drags; no menu of anybody else appears there.
class RightClicks(QObject):
    """Watches one widget; the events go on to it, as a right drag zooms."""

    clicked = Signal(QPoint)  # in pixels of the widget

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._pressed: QPoint | None = None
        widget.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QMouseEvent) and event.button() == Qt.MouseButton.RightButton:
            place = event.position().toPoint()
            if event.type() == QEvent.Type.MouseButtonPress:
                self._pressed = place
            elif event.type() == QEvent.Type.MouseButtonRelease:
                before, self._pressed = self._pressed, None
                if before is not None and _near(before, place):
                    self.clicked.emit(place)
        return False


def _near(one: QPoint, other: QPoint) -> bool:
    return (one - other).manhattanLength() < QApplication.startDragDistance()


class SceneView(QWidget):
    """Shows a `Scene`; charts are known by key, so that zoom and items outlive each frame."""

    chosen = Signal(str, str)  # option, value: a chart or a column was clicked
    menu_wanted = Signal(str, QPoint)  # the key of the chart, the place on the screen
    step_wanted = Signal(float)  # a time axis was double-clicked there
    step_marked = Signal(float)  # … or clicked with Shift
    steps_zoomed = Signal(float, float)  # a time axis shows these steps now, by hand
    steps_followed = Signal()  # … or all of them
    chart_chosen = Signal(str)  # the key of the chart that is to be shown where only one has room

    def __init__(self, theme: Theme = LIGHT, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = ChartStyle(theme, self.font().family())
        self._scene: tuple[Chart, ...] = ()  # as the panel has drawn them
        self._shown: dict[str, Chart] = {}  # as they were given to the items
        self._charts: dict[str, ChartItem] = {}
        # The widest that each chart has needed, beside others and below a tab.
        self._room: dict[tuple[str, bool], Margins] = {}
        self._opacity = 1.0
        self._chart = ""  # the one that was chosen where only one has room
        self._pointer: QPointF | None = None
        self._paced = PacedCall(self._point, self)  # a mouse moves more often than anybody reads
        self._shifted = False
        self._gone_to: tuple[float, float] | None = None  # the events whose steps are shown
        self._canvas = ChartCanvas(self, theme.panel)
        self._canvas.setFrameShape(self._canvas.Shape.NoFrame)
        self._canvas.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._spoken = SpokenCharts(self, self._canvas, self._canvas.viewport())
        self._readout = ReadoutCard()
        self._readout.style = self._style
        self._overlay = PointerOverlay(self._canvas)
        # Not sigMouseMoved: it is thinned, and may lose the place where the cursor comes to rest.
        self._canvas.viewport().installEventFilter(self)
        self._thumbnails = ThumbnailRow(self._style, self)
        self._thumbnails.chosen.connect(self.chosen)
        for part in (self._canvas.viewport(), self._thumbnails):
            RightClicks(part).clicked.connect(partial(self._ask_menu, part))
        parts = self._charts, self._readout, self._thumbnails, self._spoken
        self.links = LinkPointer(self, *parts)
        self.links.lighted.connect(self._show_pointer)
        self._thumbnails.pointed.connect(self.links.pointed)
        self._tabs = ChartTabs(self._style, self)
        self._tabs.picked.connect(self.choose_chart)
        self._tabs.picked.connect(self.chart_chosen)
        self._across, self._down = (
            QScrollBar(way, self) for way in (Qt.Orientation.Horizontal, Qt.Orientation.Vertical)
        )
        for part in (self._thumbnails, self._tabs, self._across, self._down):
            part.hide()
        for bar in (self._across, self._down):
            bar.valueChanged.connect(self._arrange)

    # Face

    def show_scene(self, scene: Scene) -> None:
        """Show these charts, keeping the items, the zoom and the cursor of those known by key."""
        if same(self._scene, scene.charts):
            return
        self._scene = scene.charts
        for key in set(self._charts) - {chart.key for chart in scene.charts}:
            self._remove(key)
        self._thumbnails.show_charts([chart for chart in scene.charts if chart.small])
        self._arrange()
        self._point()
        # The view boxes' transforms are brought up to date now; left to the paint event, they
        # would ask for a second one.
        self._canvas.scene().prepareForPaint()
        self._spoken.show(scene.charts)

    def slow_down(self, training: bool) -> None:
        """Say less often what is under the mouse while a network trains at full speed."""
        self._paced.space(TRAINING_MS if training else FRAME_MS)

    def dim(self, dimmed: bool) -> None:
        """Draw the charts pale: they are of an earlier step than what is beside them."""
        self._opacity = DIMMED if dimmed else 1.0
        for item in self._charts.values():
            item.setOpacity(self._opacity)
        self._thumbnails.set_opacity(self._opacity)

    def choose_chart(self, key: str) -> None:
        """Show this chart where only one has room; another key means the first."""
        if key != self._chart:
            self._chart = key
            self._arrange()

    def tabs(self) -> ChartTabs:
        """The titles of the charts; hidden while all have room."""
        return self._tabs

    def shown_charts(self) -> tuple[str, ...]:
        """Keys of the large charts that are shown now."""
        return tuple(key for key, item in self._charts.items() if item.isVisible())

    def thumbnails(self) -> ThumbnailRow:
        """The overviews; hidden where there are none."""
        return self._thumbnails

    def clear(self) -> None:
        self.show_scene(Scene(()))

    def set_theme(self, theme: Theme) -> None:
        self._style = ChartStyle(theme, self.font().family())
        self._canvas.changes()
        self._canvas.setBackground(theme.panel)
        self._readout.style = self._style
        self._thumbnails.set_style(self._style)
        self._tabs.set_style(self._style)
        for item in self._charts.values():
            item.set_style(self._style)
        self._show_pointer()

    def follow(self) -> None:
        for item in self._charts.values():
            item.follow()

    def follow_steps(self) -> None:
        """Show all of every time axis: another run has other steps."""
        self.put_steps({})

    def zoom_steps(self, low: float, high: float) -> None:
        """Show these steps on every time axis."""
        for item in self._charts.values():
            if item.chart.timed:
                item.show_steps(low, high)

    def shown_steps(self) -> dict[str, Range | None]:
        """What each time axis shows, by its chart's key; None: all steps."""
        return {key: one.shown_steps() for key, one in self._charts.items() if one.chart.timed}

    def put_steps(self, steps: Mapping[str, Range | None]) -> None:
        """Show what `shown_steps` said; a time axis that it does not name shows all steps."""
        self._gone_to = None
        for key, item in self._charts.items():
            if item.chart.timed:
                item.put_steps(steps.get(key))

    def go_to(self, first: float, last: float, back: bool = True) -> bool:
        """Show the steps around these events on every time axis; False where there is none.

        `back`: where they are shown already, show everything again.
        """
        over_steps = [chart.key for chart in self._scene if chart.timed]
        if not over_steps:
            return False
        if not set(over_steps) & set(self.shown_charts()):  # behind a tab
            self.choose_chart(over_steps[0])
        timed = [item for key, item in self._charts.items() if key in over_steps]
        if back and self._gone_to == (first, last) and not any(item.following for item in timed):
            self._gone_to = None
            for item in timed:
                item.follow()
            return True
        self._gone_to = (first, last)
        for item in timed:
            low, high = chart_range(item.chart)[0]
            item.show_steps(*steps_around((first, last), (min(low, first), max(high, last))))
        self._point()
        return True

    def chips(self, key: str) -> tuple[tuple[str, QRectF], ...]:
        """What the lane of a chart shows: the text of each chip, and where it is."""
        lane = self._charts[key].lane() if key in self.shown_charts() else None
        return tuple((c.text, lane.chip_box(c)) for c in lane.chips) if lane is not None else ()

    def is_following(self, key: str) -> bool:
        return self._charts[key].following

    def visible_range(self, key: str) -> tuple[Range, Range]:
        """The part of a chart that is visible, in drawn coordinates (powers of ten on log axes)."""
        plot_area = self._charts[key].plot_area()
        return plot_area.x, plot_area.y

    def area(self, key: str) -> QRectF:
        """The rectangle of a chart's data in this widget, in pixels."""
        if key in self._charts:
            return QRectF(self._charts[key].box)
        return self._thumbnails.area(key).translated(self._thumbnails.pos())

    def follow_chart(self, key: str) -> None:
        """Show all of one chart's data again; nothing where it is not shown."""
        if key in self._charts:
            self._charts[key].follow()

    def chart_at(self, place: QPointF) -> str:
        """The chart whose frame, titles and colour bar included, holds a place of this widget."""
        for chart in self._scene:
            if chart.small and self.area(chart.key).contains(place):
                return chart.key
        seen = {key: item for key, item in self._charts.items() if item.isVisible()}
        inside = [key for key, item in seen.items() if item.box.contains(place)]
        around = [key for key, item in seen.items() if item.boundingRect().contains(place)]
        return next(iter((*inside, *around)), "")

    def chart_in_sight(self) -> str:
        """The chart under the cursor, else the first that is shown large."""
        under = self.chart_at(self._pointer) if self._pointer is not None else ""
        return under or next(iter(self.shown_charts()), "")

    def tip_at(self, place: QPointF) -> str:
        """The whole of a label, as rich text, that was cut at a place of this widget; else ''."""
        seen = (item for item in self._charts.values() if item.isVisible())
        return html(next((whole for item in seen if (whole := item.tip_at(place))), ""))

    def picture(self, key: str) -> QImage:
        """A chart as it is on the screen, without the cursor."""
        item = self._charts.get(key)
        box = self.area(key) if item is None else item.boundingRect()
        before, self._pointer = self._pointer, None
        self._point()
        image = self.grab(box.toAlignedRect() & self.rect()).toImage()
        self._pointer = before
        self._point()
        return image

    def readout(self) -> tuple[str, ...]:
        """The lines under the cursor where it is by now."""
        self._paced.catch_up()
        return self._readout.lines

    def painting(self) -> float:
        """Seconds of processor time that painting has taken since this view was made."""
        seconds: float = self._canvas.painting
        return seconds

    def canvas(self) -> QWidget:
        """The widget that receives the mouse."""
        viewport: QWidget = self._canvas.viewport()
        return viewport

    # The cursor over linked things

    def move_cursor(self, down: int, right: int) -> bool:
        """Move the cursor by entries, as arrow keys do; False where no chart has linked entries."""
        place = self.links.moved(self._pointer, down, right)
        self._pointer = place or self._pointer
        self._point()
        return place is not None

    def click_at_cursor(self) -> None:
        """As a click of the mouse where the cursor is."""
        if self._pointer is not None:
            self._clicked(self._pointer, False)

    def let_go(self) -> None:
        """Pin nothing any more."""
        self.links.let_go()
        self._point()

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.MouseMove and isinstance(event, QMouseEvent):
            self._pointer = QPointF(self._canvas.mapToScene(event.position().toPoint()))
            self._paced.ask()
            # Without a button nothing in the scene wants to know: looking there for what lies
            # under the mouse takes longer than all that is done here.
            return event.buttons() == Qt.MouseButton.NoButton
        if event.type() == QEvent.Type.Resize:
            self._overlay.resize(self._canvas.viewport().size())
        elif event.type() == QEvent.Type.MouseButtonPress and isinstance(event, QMouseEvent):
            place = QPointF(self._canvas.mapToScene(event.position().toPoint()))
            self._shifted = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            chip = self._chip_at(place)
            if chip is not None and event.button() == Qt.MouseButton.LeftButton:
                self.go_to(*chip.steps)
            elif self._item_at(place) is None:
                self.links.pinned.emit(NOTHING)
        elif event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            words = self.tip_at(QPointF(self._canvas.mapToScene(event.pos())))
            QToolTip.showText(event.globalPos(), words, self)
            return True
        elif event.type() == QEvent.Type.Leave:
            self._pointer = None
            self._paced.now()
        return super().eventFilter(watched, event)

    def sizeHint(self) -> QSize:
        return QSize(480, 240)

    def minimumSizeHint(self) -> QSize:
        return QSize(96, 24)

    # Inside

    def _remove(self, key: str) -> None:
        item = self._charts.pop(key)
        del self._shown[key]
        self._room.pop((key, True), None)
        self._room.pop((key, False), None)
        item.clicked.disconnect(self._clicked)
        self._canvas.removeItem(item)
        item.field.close()
        item.deleteLater()

    def _arrange(self) -> None:
        """Give the charts their places: all, or one below tabs; scrolled where it has no room."""
        width, height = float(self.width()), float(self.height())
        self._canvas.setGeometry(self.rect())
        self._readout.room = QRectF(0, 0, width, height)
        if width < 40 or height < 40:
            for part in (self._thumbnails, self._tabs, self._across, self._down):
                part.hide()
            for item in self._charts.values():
                item.setVisible(False)
            return
        found, row = self._fitted(width, height)
        top = row + GAP if row else 0.0
        self._thumbnails.setFixedHeight(row or HEIGHT)
        self._thumbnails.setGeometry(0, 0, self.width(), row or HEIGHT)
        self._thumbnails.setVisible(row > 0)
        self._show_tabs(found, round(top))
        top += TAB_ROW if found.tabs else 0.0
        left, up = self._scrolled(found, top)
        for key, item in self._charts.items():
            item.setVisible(key in found.places)
        for chart in found.charts:
            item = self._item(chart)
            place = found.places[chart.key]
            box = replace(place.box, x=place.box.x - left, y=place.box.y + top - up)
            item.place(ChartPlace(box, place.room))

    def _fitted(self, width: float, height: float) -> tuple[Fitted, int]:
        """The charts in their places below the overviews, and how high the row of these is.

        Where charts would have to scroll below it, it is lower, and the only chart has no title,
        which the row has; where that is not enough, there is no row. Where nothing helps, it stays,
        unless the chart needs hardly more room than there is without it.
        """
        if not any(chart.small for chart in self._scene):
            return fitted(self._scene, self._wanted, width, height, self._chart), 0
        alone = sum(not chart.small for chart in self._scene) == 1
        untitled = [c if c.small or not alone else replace(c, title="") for c in self._scene]
        whole = fitted(self._scene, self._wanted, width, height - HEIGHT - GAP, self._chart)
        for row, charts in ((HEIGHT, self._scene), (LOW, untitled), (0, self._scene)):
            room = height - (row + GAP if row else 0.0)
            found = fitted(charts, self._wanted, width, room, self._chart)
            spare = 1.0 if row else _HARDLY_MORE
            if found.height <= spare * (room - (TAB_ROW if found.tabs else 0.0)):
                return found, row
        return whole, HEIGHT

    def _item(self, chart: Chart) -> ChartItem:
        """The item that shows this chart now."""
        item = self._charts.get(chart.key)
        if item is None:
            item = self._charts[chart.key] = ChartItem(chart, self._style)
            item.clicked.connect(self._clicked)
            item.steps_zoomed.connect(self.steps_zoomed)
            item.changed.connect(self._canvas.changes)
            item.light(self.links.lit)
            item.setOpacity(self._opacity)
            self._canvas.addItem(item)
        elif not same(self._shown[chart.key], chart):
            item.show_chart(chart)
        self._shown[chart.key] = chart
        item.setVisible(True)
        return item

    def _wanted(self, chart: Chart) -> Margins:
        """Room for labels; grows with them but does not shrink, so that frames do not dance."""
        x, y = chart_range(chart)
        fresh = margins(chart, self._style, drawn_range(x, chart.x), drawn_range(y, chart.y))
        place = chart.key, bool(chart.title)
        known = self._room.get(place, Margins())
        left, right = max(fresh.left, known.left), max(fresh.right, known.right)
        self._room[place] = Margins(left, fresh.top, right, fresh.bottom, fresh.lane)
        return self._room[place]

    def _show_tabs(self, found: Fitted, top: int) -> None:
        titles = {chart.key: chart.title for chart in self._scene}
        self._tabs.setGeometry(0, top, self.width(), round(TAB_ROW))
        if found.tabs:
            pairs = tuple((key, titles[key]) for key in found.tabs)
            self._tabs.show_titles(pairs, found.charts[0].key)
        self._tabs.setVisible(bool(found.tabs))

    def _scrolled(self, found: Fitted, top: float) -> tuple[float, float]:
        """How far the charts are scrolled to the left and up."""
        wide, high, bar = self.width(), round(self.height() - top), round(SCROLL)
        over = round(found.width) - wide, round(found.height) - high
        right = bar if found.height > high else 0
        below = bar if found.width > wide else 0
        self._across.setGeometry(0, self.height() - bar, wide - right, bar)
        self._down.setGeometry(wide - bar, round(top), bar, high - below)
        for scroll, most, page in (
            (self._across, over[0] + right, wide),
            (self._down, over[1] + below, high),
        ):
            most = most if over[scroll is self._down] > 0 else 0
            scroll.blockSignals(True)
            scroll.setRange(0, max(most, 0))
            scroll.setPageStep(page)
            scroll.blockSignals(False)
            scroll.setVisible(most > 0)
        return float(self._across.value()), float(self._down.value())

    def _item_at(self, place: QPointF) -> ChartItem | None:
        seen = (item for item in self._charts.values() if item.isVisible())
        return next((item for item in seen if item.box.contains(place)), None)

    def _chip_at(self, place: QPointF) -> Chip | None:
        lanes = (item.lane() for item in self._charts.values() if item.isVisible())
        found = (lane.chip_at(place) for lane in lanes if lane is not None)
        return next((chip for chip in found if chip is not None), None)

    def _point(self) -> None:
        """Say what is under the cursor now: called when it moves and when the data do."""
        place = self._pointer
        under = self._item_at(place) if place is not None else None
        chip = self._chip_at(place) if place is not None else None
        for item in self._charts.values():
            item.point(place if item is under else None)
            item.point_at_chip(chip)
        self._show_cursor(under)
        if chip is None and self.links.tell(under, place):
            self._show_pointer()
            return
        letters = self._readout.letters
        lines: tuple[str, ...] = () if chip is None else chip_lines(chip, letters)
        if under is not None and place is not None and not under.over_follow(place):
            x, y = under.data_at(place)
            near = abs(under.data_at(place + QPointF(4.0, 0.0))[0] - x)
            lines = describe(under.chart, x, y, near)
            lines += (PINNED,) if self.links.is_pinned(under) else ()
        self._readout.show_lines(place or QPointF(), lines)
        self._show_pointer()

    def _show_pointer(self) -> None:
        """Paint what the mouse has brought where it has changed."""
        seen = [item for item in self._charts.values() if item.isVisible()]
        parts = [part for item in seen for part in item.pointer_parts()]
        self._overlay.show_parts((*parts, *self._readout.parts()))

    def _show_cursor(self, under: ChartItem | None) -> None:
        """A hand over a chart that a click chooses."""
        chosen = under is not None and under.chart.click is not None
        shape = Qt.CursorShape.PointingHandCursor if chosen else Qt.CursorShape.ArrowCursor
        viewport = self._canvas.viewport()
        if viewport.cursor().shape() != shape:
            viewport.setCursor(shape)

    def _ask_menu(self, part: QWidget, place: QPoint) -> None:
        key = self.chart_at(QPointF(part.mapTo(self, place)))
        if key:
            self.menu_wanted.emit(key, part.mapToGlobal(place))

    def _clicked(self, place: QPointF, double: bool) -> None:
        item = self._item_at(place)
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
            self._point()
