"""The charts of a scene in their places in a view: below overviews and tabs, or scrolled."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace

from PySide6.QtCore import QObject, QPointF, QRectF, Qt
from PySide6.QtWidgets import QScrollBar, QWidget

from dgn_engine.scene.axes import Range, chart_range
from dgn_engine.scene.chart_layout import SCROLL, TAB_ROW, ChartPlace, Fitted, Margins, fitted
from dgn_engine.scene.elements import Chart, same
from dgn_engine.scene.mark_labels import Chip, steps_around
from dgn_engine.scene.typeset import html
from dgn_viewer.plots.chart_frame import ChartStyle, drawn_range, margins
from dgn_viewer.plots.chart_item import ChartItem
from dgn_viewer.plots.chart_tabs import ChartTabs
from dgn_viewer.plots.pointer_overlay import ChartCanvas
from dgn_viewer.plots.thumbnail_row import GAP, HEIGHT, LOW, ThumbnailRow

_HARDLY_MORE = 1.15  # of the room: less of a chart is out of sight than a row of overviews is high


class ArrangedCharts(QObject):
    """Items of charts by key, so that each outlives the scenes that have it.

    Args:
        view: What they fill, with the overviews, the tabs and the scroll bars.
        canvas: What paints them.
        style: Their colours and types.
        connect: Is called with each new item.
    """

    def __init__(
        self,
        view: QWidget,
        canvas: ChartCanvas,
        style: ChartStyle,
        connect: Callable[[ChartItem], object],
    ) -> None:
        super().__init__(view)
        self._view, self._canvas, self._connect = view, canvas, connect
        self._style = style
        self.charts: tuple[Chart, ...] = ()  # as the panel has drawn them
        self._untitled: tuple[Chart, ...] = ()  # the only large one without its title
        self.items: dict[str, ChartItem] = {}
        self._shown: dict[str, Chart] = {}  # as they were given to the items
        # The widest that each chart has needed, beside others and below a tab.
        self._room: dict[tuple[str, bool], Margins] = {}
        self._opacity = 1.0
        self._chosen = ""  # the one that was chosen where only one has room
        self.thumbnails = ThumbnailRow(style, view)
        self.tabs = ChartTabs(style, view)
        self.tabs.picked.connect(self.choose)
        self._across, self._down = (
            QScrollBar(way, view) for way in (Qt.Orientation.Horizontal, Qt.Orientation.Vertical)
        )
        self._beside = (self.thumbnails, self.tabs, self._across, self._down)
        for part in self._beside:
            part.hide()
        for bar in (self._across, self._down):
            bar.valueChanged.connect(self.arrange)

    def show(self, scene: tuple[Chart, ...]) -> bool:
        """Show these charts; returns whether any of them is another than before."""
        # One that is as it was stays the same object: from here on they are told apart by that.
        known = {chart.key: chart for chart in self.charts}
        charts = tuple(
            known[chart.key] if same(known.get(chart.key), chart) else chart for chart in scene
        )
        if len(charts) == len(self.charts) and all(map(operator.is_, charts, self.charts)):
            return False
        self.charts = charts
        alone = sum(not chart.small for chart in charts) == 1
        self._untitled = tuple(c if c.small or not alone else replace(c, title="") for c in charts)
        for key in set(self.items) - {chart.key for chart in charts}:
            self._remove(key)
        self.thumbnails.show_charts([chart for chart in charts if chart.small])
        self.arrange()
        return True

    def choose(self, key: str) -> None:
        """Show this chart where only one has room; another key means the first."""
        if key != self._chosen:
            self._chosen = key
            self.arrange()

    def dim(self, opacity: float) -> None:
        self._opacity = opacity
        for item in self.items.values():
            item.setOpacity(opacity)
        self.thumbnails.set_opacity(opacity)

    def set_style(self, style: ChartStyle) -> None:
        self._style = style
        self.thumbnails.set_style(style)
        self.tabs.set_style(style)
        for item in self.items.values():
            item.set_style(style)

    def follow(self, key: str) -> None:
        """Show all of one chart's data again; nothing where it is not shown."""
        if key in self.items:
            self.items[key].follow()

    def seen(self) -> list[ChartItem]:
        """Items of the large charts that are shown now."""
        return [item for item in self.items.values() if item.isVisible()]

    def shown_keys(self) -> tuple[str, ...]:
        """Keys of the large charts that are shown now."""
        return tuple(item.chart.key for item in self.seen())

    def area(self, key: str) -> QRectF:
        """The rectangle of a chart's data in this widget, in pixels."""
        if key in self.items:
            return QRectF(self.items[key].box)
        return self.thumbnails.area(key).translated(self.thumbnails.pos())

    def chart_at(self, place: QPointF) -> str:
        """The chart whose frame, titles and colour bar included, holds a place of this widget."""
        for chart in self.charts:
            if chart.small and self.area(chart.key).contains(place):
                return chart.key
        inside = [item.chart.key for item in self.seen() if item.box.contains(place)]
        around = [item.chart.key for item in self.seen() if item.boundingRect().contains(place)]
        return next(iter((*inside, *around)), "")

    def item_at(self, place: QPointF) -> ChartItem | None:
        return next((item for item in self.seen() if item.box.contains(place)), None)

    def chip_at(self, place: QPointF) -> Chip | None:
        lanes = (item.lane() for item in self.seen())
        found = (lane.chip_at(place) for lane in lanes if lane is not None)
        return next((chip for chip in found if chip is not None), None)

    def tip_at(self, place: QPointF) -> str:
        """The whole of a label, as rich text, that was cut at a place of this widget; else ''."""
        cut = (text for item in self.seen() for text in item.frame.cut)
        return html(next((whole for box, whole in cut if box.contains(place)), ""))

    def arrange(self) -> None:
        """Give the charts their places: all, or one below tabs; scrolled where it has no room."""
        width, height = float(self._view.width()), float(self._view.height())
        self._canvas.setGeometry(self._view.rect())
        if width < 40 or height < 40:
            for part in self._beside:
                part.hide()
            for item in self.items.values():
                item.setVisible(False)
            return
        found, row = self._fitted(width, height)
        top = row + GAP if row else 0.0
        self.thumbnails.setFixedHeight(row or HEIGHT)
        self.thumbnails.setGeometry(0, 0, self._view.width(), row or HEIGHT)
        self.thumbnails.setVisible(row > 0)
        self._show_tabs(found, round(top))
        top += TAB_ROW if found.tabs else 0.0
        left, up = self._scrolled(found, top)
        for key, item in self.items.items():
            item.setVisible(key in found.places)
        for chart in found.charts:
            item = self._item(chart)
            place = found.places[chart.key]
            box = replace(place.box, x=place.box.x - left, y=place.box.y + top - up)
            item.place(ChartPlace(box, place.room))

    # Inside

    def _remove(self, key: str) -> None:
        item = self.items.pop(key)
        del self._shown[key]
        self._room.pop((key, True), None)
        self._room.pop((key, False), None)
        item.clicked.disconnect()
        self._canvas.removeItem(item)
        item.field.close()
        item.deleteLater()

    def _fitted(self, width: float, height: float) -> tuple[Fitted, int]:
        """The charts in their places below the overviews, and how high the row of these is.

        Where charts would have to scroll below it, it is lower, and the only chart has no title,
        which the row has; where that is not enough, there is no row. Where nothing helps, it stays,
        unless the chart needs hardly more room than there is without it.
        """
        if not any(chart.small for chart in self.charts):
            return fitted(self.charts, self._wanted, width, height, self._chosen), 0
        whole = fitted(self.charts, self._wanted, width, height - HEIGHT - GAP, self._chosen)
        for row, charts in ((HEIGHT, self.charts), (LOW, self._untitled), (0, self.charts)):
            room = height - (row + GAP if row else 0.0)
            found = fitted(charts, self._wanted, width, room, self._chosen)
            spare = 1.0 if row else _HARDLY_MORE
            if found.height <= spare * (room - (TAB_ROW if found.tabs else 0.0)):
                return found, row
        return whole, HEIGHT

    def _item(self, chart: Chart) -> ChartItem:
        """The item that shows this chart now."""
        item = self.items.get(chart.key)
        if item is None:
            item = self.items[chart.key] = ChartItem(chart, self._style)
            item.changed.connect(self._canvas.changes)
            item.setOpacity(self._opacity)
            self._connect(item)
            self._canvas.addItem(item)
        elif self._shown[chart.key] is not chart:
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
        titles = {chart.key: chart.title for chart in self.charts}
        self.tabs.setGeometry(0, top, self._view.width(), round(TAB_ROW))
        if found.tabs:
            pairs = tuple((key, titles[key]) for key in found.tabs)
            self.tabs.show_titles(pairs, found.charts[0].key)
        self.tabs.setVisible(bool(found.tabs))

    def _scrolled(self, found: Fitted, top: float) -> tuple[float, float]:
        """How far the charts are scrolled to the left and up."""
        wide, high, bar = self._view.width(), round(self._view.height() - top), round(SCROLL)
        over = round(found.width) - wide, round(found.height) - high
        right = bar if found.height > high else 0
        below = bar if found.width > wide else 0
        self._across.setGeometry(0, self._view.height() - bar, wide - right, bar)
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


class TimeAxes:
    """Which steps the charts over steps show.

    Args:
        charts: The charts of a view.
        moved: Is called after other steps were shown.
    """

    def __init__(self, charts: ArrangedCharts, moved: Callable[[], object]) -> None:
        self._charts, self._moved = charts, moved
        self._gone_to: tuple[float, float] | None = None  # the events whose steps are shown

    def follow(self) -> None:
        """Show all of every time axis: another run has other steps."""
        self.put({})

    def zoom(self, low: float, high: float) -> None:
        for item in self._charts.items.values():
            if item.chart.timed:
                item.show_steps(low, high)

    def shown(self) -> dict[str, Range | None]:
        """What each time axis shows, by its chart's key; None: all steps."""
        return {
            key: one.shown_steps() for key, one in self._charts.items.items() if one.chart.timed
        }

    def put(self, steps: Mapping[str, Range | None]) -> None:
        """Show what `shown` said; a time axis that it does not name shows all steps."""
        self._gone_to = None
        for key, item in self._charts.items.items():
            if item.chart.timed:
                if (shown := steps.get(key)) is None:
                    item.follow()
                else:
                    item.show_steps(*shown)

    def go_to(self, first: float, last: float, back: bool = True) -> bool:
        """Show the steps around these events on every time axis; False where there is none.

        `back`: where they are shown already, show everything again.
        """
        over_steps = [chart.key for chart in self._charts.charts if chart.timed]
        if not over_steps:
            return False
        if not set(over_steps) & set(self._charts.shown_keys()):  # behind a tab
            self._charts.choose(over_steps[0])
        timed = [item for key, item in self._charts.items.items() if key in over_steps]
        if back and self._gone_to == (first, last) and not any(item.following for item in timed):
            self._gone_to = None
            for item in timed:
                item.follow()
            return True
        self._gone_to = (first, last)
        for item in timed:
            low, high = chart_range(item.chart)[0]
            item.show_steps(*steps_around((first, last), (min(low, first), max(high, last))))
        self._moved()
        return True
