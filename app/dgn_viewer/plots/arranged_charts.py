"""The layout of a scene's charts in a view: overviews, then tabs or a scrolled arrangement."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, QPointF, QRectF, Qt, Signal
from PySide6.QtWidgets import QScrollBar, QWidget

from dgn_engine.scene.axes import Range, chart_range
from dgn_engine.scene.chart_layout import (
    SCROLL,
    ChartPlace,
    FittedCharts,
    Margins,
    fit_charts,
)
from dgn_engine.scene.elements import Chart, deep_equal
from dgn_engine.scene.mark_labels import Chip, steps_around
from dgn_engine.scene.typeset import label_html
from dgn_viewer.plots.chart_frame import ChartStyle, drawn_range, measure_margins
from dgn_viewer.plots.chart_item import ChartItem
from dgn_viewer.plots.chart_tabs import ChartTabs
from dgn_viewer.plots.pointer_overlay import ChartCanvas
from dgn_viewer.plots.thumbnail_row import GAP, ThumbnailRow

# Tolerated height, relative to the available one, for dropping the overviews: scrolling then hides
# less than a row of overviews would cover.
_HARDLY_MORE = 1.15


def _is_unchanged(old: Chart, new: Chart) -> bool:
    """Return whether two charts are equal; their data first, which a new reading changes."""
    same_data = deep_equal(old.matrix, new.matrix) and deep_equal(old.curves, new.curves)
    return same_data and deep_equal(
        replace(old, matrix=None, curves=()), replace(new, matrix=None, curves=())
    )


class ArrangedCharts(QObject):
    """The chart items of a view by key, so that an item outlives the scenes it appears in.

    Args:
        view: The widget that they fill, together with overviews, tabs and scroll bars.
        canvas: The canvas that paints them.
        style: Their colours and fonts.
        connect: Called with each new item.
    """

    arranged = Signal()  # the charts are laid out: they may have moved, or others are in sight

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
        self.charts: tuple[Chart, ...] = ()  # as drawn by the panel
        self._untitled: tuple[Chart, ...] = ()  # the same, a single large chart without its title
        self.items: dict[str, ChartItem] = {}
        self._shown: dict[str, Chart] = {}  # the charts that the items show
        # The widest margins each chart has needed, with and without a title.
        self._room: dict[tuple[str, bool], Margins] = {}
        self._opacity = 1.0
        self._chosen = ""  # key of the chart to show if only one fits
        self.thumbnails = ThumbnailRow(style, view)
        self.tabs = ChartTabs(style, view)
        self.tabs.picked.connect(self.choose_chart)
        self._across, self._down = (
            QScrollBar(orientation, view)
            for orientation in (Qt.Orientation.Horizontal, Qt.Orientation.Vertical)
        )
        self._beside = (self.thumbnails, self.tabs, self._across, self._down)
        for part in self._beside:
            part.hide()
        for bar in (self._across, self._down):
            bar.valueChanged.connect(self.arrange_items)

    def set_charts(self, scene: tuple[Chart, ...]) -> bool:
        """Show these charts; return whether any of them has changed."""
        # Keep the old object of an unchanged chart: from here on, identity means equality.
        known = {chart.key: chart for chart in self.charts}
        charts = tuple(
            old if (old := known.get(chart.key)) and _is_unchanged(old, chart) else chart
            for chart in scene
        )
        if len(charts) == len(self.charts) and all(map(operator.is_, charts, self.charts)):
            return False
        self.charts = charts
        alone = sum(not chart.small for chart in charts) == 1
        self._untitled = tuple(c if c.small or not alone else replace(c, title="") for c in charts)
        for key in set(self.items) - {chart.key for chart in charts}:
            self._remove_item(key)
        self.thumbnails.show_charts([chart for chart in charts if chart.small])
        self.arrange_items()
        return True

    def choose_chart(self, key: str) -> None:
        """Select the chart to show if only one fits; an unknown key selects the first."""
        if key != self._chosen:
            self._chosen = key
            self.arrange_items()

    def set_opacity(self, opacity: float) -> None:
        self._opacity = opacity
        for item in self.items.values():
            item.setOpacity(opacity)
        self.thumbnails.set_opacity(opacity)

    def set_style(self, style: ChartStyle) -> None:
        if style.theme.scale != self._style.theme.scale:
            self._room.clear()
        self._style = style
        self.thumbnails.set_style(style)
        self.tabs.set_style(style)
        for item in self.items.values():
            item.set_style(style)

    def follow_chart(self, key: str) -> None:
        """Reset the zoom of a chart, if it is shown."""
        if key in self.items:
            self.items[key].follow_data()

    def visible_items(self) -> list[ChartItem]:
        """Return the items of the large charts that are shown."""
        return [item for item in self.items.values() if item.isVisible()]

    def shown_keys(self) -> tuple[str, ...]:
        """Return the keys of the large charts that are shown."""
        return tuple(item.chart.key for item in self.visible_items())

    def data_rect(self, key: str) -> QRectF:
        """Return the rectangle of a chart's data in the view, in pixels."""
        if key in self.items:
            return QRectF(self.items[key].box)
        return self.thumbnails.picture_rect(key).translated(self.thumbnails.pos())

    def chart_at(self, point: QPointF) -> str:
        """Return the key of the chart at a point, including titles and colour bar, or ''."""
        for chart in self.charts:
            if chart.small and self.data_rect(chart.key).contains(point):
                return chart.key
        inside = [item.chart.key for item in self.visible_items() if item.box.contains(point)]
        around = [
            item.chart.key for item in self.visible_items() if item.boundingRect().contains(point)
        ]
        return next(iter((*inside, *around)), "")

    def item_at(self, point: QPointF) -> ChartItem | None:
        return next((item for item in self.visible_items() if item.box.contains(point)), None)

    def chip_at(self, point: QPointF) -> Chip | None:
        lanes = (item.current_lane() for item in self.visible_items())
        chips = (lane.chip_at(point) for lane in lanes if lane is not None)
        return next((chip for chip in chips if chip is not None), None)

    def tip_at(self, point: QPointF) -> str:
        """Return the full text of the elided label at a point, as rich text, or ''."""
        elided = (text for item in self.visible_items() for text in item.frame.cut)
        return label_html(next((full_text for box, full_text in elided if box.contains(point)), ""))

    def arrange_items(self) -> None:
        """Lay out all charts, or a single one below tabs, with scroll bars if needed."""
        width, height = float(self._view.width()), float(self._view.height())
        self._canvas.setGeometry(self._view.rect())
        if width < 40 or height < 40:
            for part in self._beside:
                part.hide()
            for item in self.items.values():
                item.setVisible(False)
            self.arranged.emit()
            return
        layout, row_height = self._fit_charts(width, height)
        top = row_height + GAP if row_height else 0.0
        self.thumbnails.setFixedHeight(row_height or self.thumbnails.full_height)
        self.thumbnails.setGeometry(
            0, 0, self._view.width(), row_height or self.thumbnails.full_height
        )
        self.thumbnails.setVisible(row_height > 0)
        self._show_tabs(layout, round(top))
        top += self.tabs.row_height if layout.tabs else 0.0
        left, up = self._update_scroll_bars(layout, top)
        for key, item in self.items.items():
            item.setVisible(key in layout.places)
        for chart in layout.charts:
            item = self._update_item(chart)
            chart_place = layout.places[chart.key]
            box = replace(
                chart_place.box, x=chart_place.box.x - left, y=chart_place.box.y + top - up
            )
            item.set_place(ChartPlace(box, chart_place.room))
        self.arranged.emit()

    # Private

    def _remove_item(self, key: str) -> None:
        item = self.items.pop(key)
        del self._shown[key]
        self._room.pop((key, True), None)
        self._room.pop((key, False), None)
        item.clicked.disconnect()
        self._canvas.removeItem(item)
        item.field.close()
        item.deleteLater()

    def _fit_charts(self, width: float, height: float) -> tuple[FittedCharts, int]:
        """Return the layout of the charts and the height of the row of overviews, in pixels.

        To avoid scrolling, first reduce the row and drop the title of a single chart, which the row
        shows already; then drop the row, tolerating a little scrolling. If neither helps, keep the
        full row.
        """
        if not any(chart.small for chart in self.charts):
            return self._fit(self.charts, width, height), 0
        full, low = self.thumbnails.full_height, self.thumbnails.low_height
        full_layout = self._fit(self.charts, width, height - full - GAP)
        for row_height, charts in ((full, self.charts), (low, self._untitled), (0, self.charts)):
            available = height - (row_height + GAP if row_height else 0.0)
            layout = self._fit(charts, width, available)
            tolerance = 1.0 if row_height else _HARDLY_MORE
            if layout.height <= tolerance * (
                available - (self.tabs.row_height if layout.tabs else 0.0)
            ):
                return layout, row_height
        return full_layout, full

    def _fit(self, charts: Sequence[Chart], width: float, height: float) -> FittedCharts:
        tab_row = self.tabs.row_height
        return fit_charts(charts, self._needed_margins, width, height, self._chosen, tab_row)

    def _update_item(self, chart: Chart) -> ChartItem:
        """Return the item for a chart, created or updated as needed."""
        item = self.items.get(chart.key)
        if item is None:
            item = self.items[chart.key] = ChartItem(chart, self._style)
            item.changed.connect(self._canvas.discard_picture)
            item.setOpacity(self._opacity)
            self._connect(item)
            self._canvas.addItem(item)
        elif self._shown[chart.key] is not chart:
            item.show_chart(chart)
        self._shown[chart.key] = chart
        item.setVisible(True)
        return item

    def _needed_margins(self, chart: Chart) -> Margins:
        """Return the margins for labels, which never shrink, so that frames do not jump."""
        x, y = chart_range(chart)
        needed = measure_margins(
            chart, self._style, drawn_range(x, chart.x), drawn_range(y, chart.y)
        )
        key = chart.key, bool(chart.title)
        known = self._room.get(key, Margins())
        left, right = max(needed.left, known.left), max(needed.right, known.right)
        self._room[key] = Margins(left, needed.top, right, needed.bottom, needed.lane)
        return self._room[key]

    def _show_tabs(self, layout: FittedCharts, top: int) -> None:
        titles = {chart.key: chart.title for chart in self.charts}
        self.tabs.setGeometry(0, top, self._view.width(), self.tabs.row_height)
        if layout.tabs:
            pairs = tuple((key, titles[key]) for key in layout.tabs)
            self.tabs.show_titles(pairs, layout.charts[0].key)
        self.tabs.setVisible(bool(layout.tabs))

    def _update_scroll_bars(self, layout: FittedCharts, top: float) -> tuple[float, float]:
        """Update the scroll bars; return how far the charts are scrolled to the left and up."""
        width, height, thickness = (
            self._view.width(),
            round(self._view.height() - top),
            round(SCROLL),
        )
        overflow = round(layout.width) - width, round(layout.height) - height
        right_bar = thickness if layout.height > height else 0
        bottom_bar = thickness if layout.width > width else 0
        self._across.setGeometry(0, self._view.height() - thickness, width - right_bar, thickness)
        self._down.setGeometry(width - thickness, round(top), thickness, height - bottom_bar)
        for scroll, maximum, page in (
            (self._across, overflow[0] + right_bar, width),
            (self._down, overflow[1] + bottom_bar, height),
        ):
            maximum = maximum if overflow[scroll is self._down] > 0 else 0
            scroll.blockSignals(True)
            scroll.setRange(0, max(maximum, 0))
            scroll.setPageStep(page)
            scroll.blockSignals(False)
            scroll.setVisible(maximum > 0)
        return float(self._across.value()), float(self._down.value())


class TimeAxes:
    """The ranges of the time axes in a view.

    Args:
        charts: The charts of the view.
        moved: Called after `go_to` has changed the ranges.
    """

    def __init__(self, charts: ArrangedCharts, moved: Callable[[], object]) -> None:
        self._charts, self._moved = charts, moved
        self._gone_to: tuple[float, float] | None = None  # steps of the events zoomed to
        self.linked_range: Callable[[], Range | None] = lambda: None  # of all views, if linked

    def show_all_steps(self) -> None:
        """Show all steps on every time axis."""
        self.restore_ranges({})

    def follow_linked_range(self) -> None:
        """Show the linked range on every time axis, or all steps."""
        self.show_all_steps()
        for item in self._charts.items.values():
            self.zoom_new_axis(item)

    def zoom_new_axis(self, item: ChartItem) -> None:
        """Show the linked range in a chart that was not there when it was chosen."""
        steps = self.linked_range()
        if steps is not None and item.chart.has_step_axis:
            item.show_steps(*steps)

    def zoom_steps(self, low: float, high: float) -> None:
        for item in self._charts.items.values():
            if item.chart.has_step_axis:
                item.show_steps(low, high)

    def shown_ranges(self) -> dict[str, Range | None]:
        """Return the range of each time axis by chart key; None stands for all steps."""
        return {
            key: item.shown_steps()
            for key, item in self._charts.items.items()
            if item.chart.has_step_axis
        }

    def restore_ranges(self, steps: Mapping[str, Range | None]) -> None:
        """Restore ranges from `shown_ranges`; a missing time axis shows all steps."""
        self._gone_to = None
        for key, item in self._charts.items.items():
            if item.chart.has_step_axis:
                if (shown := steps.get(key)) is None:
                    item.follow_data()
                else:
                    item.show_steps(*shown)

    def go_to(self, first: float, last: float, back: bool = True) -> bool:
        """Zoom every time axis to these events; return False if there is no time axis.

        Args:
            first: The step of the first event.
            last: The step of the last event.
            back: If the axes are zoomed to these events already, show all steps again.
        """
        over_steps = [chart.key for chart in self._charts.charts if chart.has_step_axis]
        if not over_steps:
            return False
        if not set(over_steps) & set(self._charts.shown_keys()):  # behind a tab
            self._charts.choose_chart(over_steps[0])
        timed = [item for key, item in self._charts.items.items() if key in over_steps]
        if back and self._gone_to == (first, last) and not any(item.following for item in timed):
            self._gone_to = None
            for item in timed:
                item.follow_data()
            return True
        self._gone_to = (first, last)
        for item in timed:
            low, high = chart_range(item.chart)[0]
            item.show_steps(*steps_around((first, last), (min(low, first), max(high, last))))
        self._moved()
        return True
