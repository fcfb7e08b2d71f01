"""What is under the cursor of a scene: told in a card, outlined in all, pinned by a click."""

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
    """`items`: the charts that are drawn, by key. `explain`: what is told of the examples at a
    place of a chart, in data units."""

    pointed = Signal(object)  # the selection under the cursor
    lighted = Signal()  # something else is outlined
    pinned = Signal(object)  # the selection that was clicked; nothing where it was let go

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
        self._found = NOTHING  # under this cursor
        self._pin: tuple[str, int, int] | None = None  # chart, row, column

    def light(self, selection: Selection) -> None:
        """Outline what is selected, in whatever panel the cursor is."""
        self.lit = selection
        for item in self._items.values():
            item.pointer.lit = selection
        self._row.light(selection)
        self.lighted.emit()

    def let_go(self) -> None:
        """Pin nothing any more; the card follows the cursor again."""
        self._pin, self._found = None, NOTHING

    def pin(self, item: ChartItem, place: QPointF) -> None:
        """Pin what is there; a second click there, or one where there is nothing, lets go."""
        x, y = item.data_at(place)
        if item.chart.matrix is None:  # the same place of an axis at any height
            y = 0.0
        found, pin = item.pointer.selection_at(place), (item.chart.key, round(y), round(x))
        self._pin = pin if found != NOTHING and pin != self._pin else None
        self.pinned.emit(found if self._pin else NOTHING)

    def is_pinned(self, item: ChartItem | None) -> bool:
        """Whether what is pinned was clicked in this chart."""
        return item is not None and self._pin is not None and self._pin[0] == item.chart.key

    def tell(self, under: ChartItem | None, place: QPointF | None) -> bool:
        """Show the card of the examples that are pinned, or else under the cursor; whether there
        are any."""
        found, readout = NOTHING, None
        if under is not None and place is not None and not under.over_follow(place):
            x, y = under.data_at(place)
            found, readout = under.pointer.selection_at(place), self.explain(under.chart, x, y)
        key, row, column = self._pin or ("", 0, 0)
        pinned = self._items.get(key)
        told = None
        if pinned is not None and pinned.isVisible():
            told = self.explain(pinned.chart, column, row)
        if pinned is not None and told is not None:
            readout, place = told, _centre(pinned, row, column)
        if found != self._found:  # without a cursor, what that of another panel lights stays
            self._found = found
            self.pointed.emit(found)
        self._spoken.tell(readout.in_words if readout is not None else "")
        if readout is not None and place is not None:
            self._card.show_examples(place, readout, told is not None)
        return readout is not None

    @property
    def told(self) -> ExampleReadout | None:
        """The pictures on the card; None where it shows lines, or nothing."""
        return self._card.examples

    def moved(self, place: QPointF | None, down: int, right: int) -> QPointF | None:
        """Where the cursor is after so many entries down and to the right; it begins at the first
        entry. None where no chart has entries that are linked."""
        seen = [item for item in self._items.values() if item.isVisible()]
        found = [item for item in seen if _has_entries(item.chart)]
        if not found:
            return None
        item = next((one for one in found if place and one.box.contains(place)), None)
        x, y = (0.0, 0.0)
        if item is not None and place is not None:
            x, y = item.data_at(place)
            x, y = x + right, y + down
        item = item or found[0]
        assert item.chart.matrix is not None
        rows, columns = item.chart.matrix.values.shape
        column, row = min(max(round(x), 0), columns - 1), min(max(round(y), 0), rows - 1)
        if not item.box.contains(_centre(item, row, column)):  # it was zoomed out of sight
            item.follow()
        return _centre(item, row, column)


def _has_entries(chart: Chart) -> bool:
    return chart.matrix is not None and bool(chart.matrix.row_examples or chart.y.subjects)


def _centre(item: ChartItem, row: int, column: int) -> QPointF:
    """The middle of an entry of a matrix."""
    area = item.plot_area()
    return QPointF(area.across(column), area.along(row))
