"""The probe examples under the cursor of a scene: told in a card, outlined, pinned by a click."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QObject, QPointF, Signal

from dgn_viewer.plots.chart_item import ChartItem
from dgn_viewer.plots.readout_card import ReadoutCard
from dgn_viewer.plots.spoken_charts import SpokenCharts
from dgn_viewer.plots.thumbnail_row import ThumbnailRow
from dgn_viewer.scene.elements import Chart
from dgn_viewer.scene.example_readout import ExampleReadout, examples_at

Explain = Callable[[Chart, float, float], ExampleReadout | None]


class ExamplePointer(QObject):
    """`items`: the charts that are drawn, by key. `explain`: what is told of the examples at a
    place of a chart, in data units."""

    pointed = Signal(object)  # places in the probe set under the cursor: none, one or two
    lighted = Signal()  # other examples are outlined
    pinned = Signal(object)  # those that were clicked; () where they were let go

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
        self.lit: tuple[int, ...] = ()
        self._items = items
        self._card, self._row, self._spoken = card, row, spoken
        self._found: tuple[int, ...] = ()  # under this cursor
        self._pin: tuple[str, int, int] | None = None  # chart, row, column

    def light(self, examples: tuple[int, ...]) -> None:
        """Outline these probe examples, wherever they are under a cursor."""
        self.lit = examples
        for item in self._items.values():
            item.light(examples)
        self._row.light(examples)
        self.lighted.emit()

    def let_go(self) -> None:
        """Pin nothing any more; the card follows the cursor again."""
        self._pin, self._found = None, ()

    def pin(self, item: ChartItem, place: QPointF) -> None:
        """Pin the examples there; a second click there, or one where there are none, lets go."""
        x, y = item.data_at(place)
        found, pin = examples_at(item.chart, x, y), (item.chart.key, round(y), round(x))
        self._pin = pin if found and pin != self._pin else None
        self.pinned.emit(found if self._pin else ())

    def tell(self, under: ChartItem | None, place: QPointF | None) -> bool:
        """Show the card of the examples that are pinned, or else under the cursor; whether there
        are any."""
        found: tuple[int, ...] = ()
        readout = None
        if under is not None and place is not None and not under.over_follow(place):
            x, y = under.data_at(place)
            found, readout = examples_at(under.chart, x, y), self.explain(under.chart, x, y)
        key, row, column = self._pin or ("", 0, 0)
        pinned = self._items.get(key)
        if pinned is not None and pinned.isVisible():
            readout, place = self.explain(pinned.chart, column, row), _centre(pinned, row, column)
        if found != self._found:  # without a cursor, what that of another panel lights stays
            self._found = found
            self.pointed.emit(found)
        self._spoken.tell(readout.in_words if readout is not None else "")
        if readout is not None and place is not None:
            self._card.show_examples(place, readout, pinned is not None)
        return readout is not None

    def moved(self, place: QPointF | None, down: int, right: int) -> QPointF | None:
        """Where the cursor is after so many entries down and to the right; it begins at the first
        entry. None where no chart is of examples."""
        seen = [item for item in self._items.values() if item.isVisible()]
        found = [item for item in seen if (m := item.chart.matrix) and m.row_examples]
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


def _centre(item: ChartItem, row: int, column: int) -> QPointF:
    """The middle of an entry of a matrix."""
    area = item.plot_area()
    return QPointF(area.across(column), area.along(row))
