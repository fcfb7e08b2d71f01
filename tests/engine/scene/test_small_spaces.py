"""Which charts have room beside each other, which become tabs, and when the room scrolls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.scene.chart_layout import (
    GAP,
    LEAST_CURVES,
    LEAST_MATRIX,
    LOW_CURVES,
    SCROLL,
    TAB_ROW,
    Margins,
    arrange,
    fitted,
)
from dgn_engine.scene.elements import Axis, Chart, Matrix

AROUND = Margins(30, 20, 10, 20)
CLASSES = Axis("class", limits=(-0.5, 3.5), ticks=((0.0, "cat"), (2.0, "dog")))


def room(_chart: Chart) -> Margins:
    return AROUND


def curves(key: str, row: int = 0, column: int = 0, narrow: int | None = None) -> Chart:
    place = None if narrow is None else (narrow, 0, 1, 1)
    return Chart(key, f"Title of {key}", Axis(), Axis(), row=row, column=column, narrow=place)


def square(key: str, column: int = 0, bar: str = "", named: bool = True) -> Chart:
    matrix = Matrix(key, np.zeros((4, 4)), "sequential", 0.0, 1.0, bar=bar)
    y = CLASSES if named else replace(CLASSES, label="", ticks=())
    return Chart(key, key, CLASSES, y, matrix=matrix, column=column, square=True)


PAIR = (curves("a"), curves("b", column=1))
# Two charts side by side: both margins, the gap, twice the least size.
WIDE = 2 * (40 + LEAST_CURVES[0]) + GAP
HIGH = 40 + LEAST_CURVES[1]


def test_charts_that_all_have_their_least_size_stand_as_they_are_arranged() -> None:
    found = fitted(PAIR, room, WIDE, HIGH)
    assert found.tabs == ()
    assert found.charts == PAIR
    assert found.places == arrange(PAIR, {"a": AROUND, "b": AROUND}, WIDE, HIGH)
    assert (found.width, found.height) == (WIDE, HIGH)
    assert [place.box.width for place in found.places.values()] == [160, 160]
    assert [place.box.height for place in found.places.values()] == [90, 90]


@pytest.mark.parametrize(("width", "height"), [(WIDE - 1, 400), (WIDE, HIGH - 1)])
def test_one_pixel_less_makes_tabs_of_them(width: float, height: float) -> None:
    found = fitted(PAIR, room, width, height)
    assert found.tabs == ("a", "b")
    assert [chart.key for chart in found.charts] == ["a"]
    assert set(found.places) == {"a"}


def test_the_chosen_tab_is_shown_and_one_that_is_gone_is_the_first() -> None:
    assert [one.key for one in fitted(PAIR, room, 250, 200, "b").charts] == ["b"]
    assert [one.key for one in fitted(PAIR, room, 250, 200, "gone").charts] == ["a"]


def test_a_chart_behind_a_tab_has_the_whole_room_below_the_tabs_and_no_title() -> None:
    found = fitted(PAIR, room, 250, 200, "b")
    box = found.places["b"].box
    assert (box.x, box.y) == (30, 20)
    assert (box.width, box.height) == (250 - 40, 200 - TAB_ROW - 40)
    assert found.charts[0].title == ""


def test_the_second_place_of_charts_is_taken_before_tabs() -> None:
    charts = (curves("a", narrow=0), replace(curves("b", column=1), narrow=(1, 0, 1, 1)))
    found = fitted(charts, room, 500, 2 * HIGH + GAP)  # each 206 wide: fits side by side
    assert found.tabs == ()
    found = fitted(charts, room, WIDE - 1, 2 * HIGH + GAP)  # one below the other
    assert found.tabs == ()
    assert {place.box.x for place in found.places.values()} == {30}
    # Narrow and low: side by side, though a narrow room stacks them otherwise.
    assert fitted(charts, room, WIDE, HIGH).tabs == ()


def test_a_single_chart_scrolls_below_its_least_size() -> None:
    alone = (curves("a"),)
    low = HIGH - LEAST_CURVES[1] + LOW_CURVES
    assert fitted(alone, room, 300, low).height == low  # all of it in sight
    found = fitted(alone, room, 300, low - 10)
    assert found.tabs == ()
    assert (found.width, found.height) == (300 - SCROLL, low)
    assert found.places["a"].box.height == LOW_CURVES
    found = fitted(alone, room, 150, 400)
    assert (found.width, found.height) == (40 + LEAST_CURVES[0], 400 - SCROLL)
    assert found.places["a"].box.width == LEAST_CURVES[0]


def test_a_matrix_keeps_its_least_size() -> None:
    pair = (square("a"), square("b", 1))
    least = 2 * (40 + LEAST_MATRIX[0]) + GAP
    assert fitted(pair, room, least, 40 + LEAST_MATRIX[1]).tabs == ()
    assert fitted(pair, room, least, 39 + LEAST_MATRIX[1]).tabs == ("a", "b")
    assert fitted(pair, room, least - 2, 400).tabs == ("a", "b")
    low = fitted((square("a"),), room, 400, 50).places["a"].box
    assert (low.width, low.height) == LEAST_MATRIX


def test_a_matrix_alone_has_the_scale_and_the_names_that_it_shared() -> None:
    pair = (square("a"), square("b", 1, bar="overlap", named=False))
    first = fitted(pair, room, 200, 200, "a").charts[0]
    second = fitted(pair, room, 200, 200, "b").charts[0]
    for chart in (first, second):
        assert chart.matrix is not None
        assert chart.matrix.bar == "overlap"
        assert (chart.y.label, chart.y.ticks) == (CLASSES.label, CLASSES.ticks)


def test_a_scale_of_other_numbers_is_not_borrowed() -> None:
    other = square("b", 1, bar="kernel value")
    assert other.matrix is not None
    other = replace(other, matrix=replace(other.matrix, high=7.0))
    first = fitted((square("a"), other), room, 200, 200, "a").charts[0]
    assert first.matrix is not None
    assert first.matrix.bar == ""


def test_overviews_stand_elsewhere_and_leave_no_rows_behind() -> None:
    small = [replace(square(f"s{i}", i), small=True, square=False) for i in range(6)]
    large = replace(square("large"), square=False, row=3, column_span=3)
    unit = replace(square("unit"), row=3, column=3, column_span=3)
    found = fitted((*small, large, unit), room, 700, 300)
    assert set(found.places) == {"large", "unit"}
    assert found.places["large"].box.y == AROUND.top
    alone = fitted((*small, large), room, 700, 300)
    assert alone.tabs == ()
    assert alone.places["large"].box.height == 300 - 40


def test_nothing_has_no_places() -> None:
    assert fitted((), room, 100, 100).places == {}
