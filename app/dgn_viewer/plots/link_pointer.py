"""The selection under the cursor: described in a card, outlined in all panels, pinned by clicks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QObject, QPointF, Signal

from dgn_engine.scene.elements import Chart
from dgn_engine.scene.example_readout import ExampleReadout
from dgn_engine.scene.selection import NOTHING, Selection
from dgn_viewer.plots.chart_item import ChartItem
from dgn_viewer.plots.readout_card import ReadoutCard
from dgn_viewer.plots.spoken_charts import SpokenCharts
from dgn_viewer.plots.thumbnail_row import ThumbnailRow

Explain = Callable[[Chart, float, float], ExampleReadout | None]


class LinkPointer(QObject):
    """The link between the cursor of a scene and the selection shared by all panels.

    Attributes:
        explain: Returns the readout of the examples at a point of a chart, in data coordinates.
        lit: The outlined selection.
    """

    pointed = Signal(object)  # the selection under the cursor
    lighted = Signal()  # the outlines have changed
    pinned = Signal(object)  # the clicked selection; `NOTHING` after unpinning

    def __init__(
        self,
        parent: QObject,
        items: Mapping[str, ChartItem],
        card: ReadoutCard,
        row: ThumbnailRow,
        spoken: SpokenCharts,
    ) -> None:
        super().__init__(parent)
        self.explain: Explain = lambda *_: None
        self.lit = NOTHING
        self._items = items
        self._card, self._row, self._spoken = card, row, spoken
        self._found = NOTHING  # the selection under the cursor
        self._pin: tuple[str, int, int] | None = None  # (chart key, row, column)

    def outline_selection(self, selection: Selection) -> None:
        """Outline a selection, regardless of which panel the cursor is in."""
        self.lit = selection
        for item in self._items.values():
            item.pointer.lit = selection
        self._row.outline_selection(selection)
        self.lighted.emit()

    def clear_pin(self) -> None:
        """Clear the pin, so that the card follows the cursor again."""
        self._pin, self._found = None, NOTHING

    def pin_at(self, item: ChartItem, place: QPointF) -> None:
        """Pin the selection at a point; clicking it again, or an empty point, unpins."""
        x, y = item.data_at(place)
        if item.chart.matrix is None:  # the height does not matter in a chart of curves
            y = 0.0
        selection, pin = item.pointer.selection_at(place), (item.chart.key, round(y), round(x))
        self._pin = pin if selection != NOTHING and pin != self._pin else None
        self.pinned.emit(selection if self._pin else NOTHING)

    def is_pinned(self, item: ChartItem | None) -> bool:
        """Return whether the pin belongs to this chart."""
        return item is not None and self._pin is not None and self._pin[0] == item.chart.key

    def show_card(self, under: ChartItem | None, place: QPointF | None) -> bool:
        """Show the card of the pinned examples, or else of those under the cursor.

        Returns:
            Whether there are any examples to show.
        """
        selection, readout = NOTHING, None
        if under is not None and place is not None and not under.is_over_follow(place):
            x, y = under.data_at(place)
            selection, readout = under.pointer.selection_at(place), self.explain(under.chart, x, y)
        key, row, column = self._pin or ("", 0, 0)
        pinned = self._items.get(key)
        pinned_readout = None
        if pinned is not None and pinned.isVisible():
            pinned_readout = self.explain(pinned.chart, column, row)
        if pinned is not None and pinned_readout is not None:
            readout, place = pinned_readout, _entry_centre(pinned, row, column)
        # Report changes only: without a cursor here, another panel's selection must stay.
        if selection != self._found:
            self._found = selection
            self.pointed.emit(selection)
        self._spoken.describe_cursor(readout.in_words if readout is not None else "")
        if readout is not None and place is not None:
            self._card.show_examples(place, readout, pinned_readout is not None)
        return readout is not None

    @property
    def shown_examples(self) -> ExampleReadout | None:
        """The examples on the card; None if it shows text or nothing."""
        return self._card.examples

    def cursor_after_move(self, place: QPointF | None, down: int, right: int) -> QPointF | None:
        """Return the cursor position after moving by matrix entries.

        Args:
            place: The current position; without one, start at the first entry.
            down: Number of rows.
            right: Number of columns.

        Returns:
            The centre of the new entry; None if no chart has linked entries.
        """
        visible = [item for item in self._items.values() if item.isVisible()]
        candidates = [item for item in visible if _has_entries(item.chart)]
        if not candidates:
            return None
        item = next(
            (candidate for candidate in candidates if place and candidate.box.contains(place)), None
        )
        x, y = (0.0, 0.0)
        if item is not None and place is not None:
            x, y = item.data_at(place)
            x, y = x + right, y + down
        item = item or candidates[0]
        assert item.chart.matrix is not None
        rows, columns = item.chart.matrix.values.shape
        column, row = min(max(round(x), 0), columns - 1), min(max(round(y), 0), rows - 1)
        if not item.box.contains(_entry_centre(item, row, column)):  # outside of the zoomed range
            item.follow_data()
        return _entry_centre(item, row, column)


def _has_entries(chart: Chart) -> bool:
    return chart.matrix is not None and bool(chart.matrix.row_examples or chart.y.subjects)


def _entry_centre(item: ChartItem, row: int, column: int) -> QPointF:
    """Return the centre of a matrix entry in scene coordinates."""
    area = item.plot_area()
    return QPointF(area.pixel_x(column), area.pixel_y(row))
