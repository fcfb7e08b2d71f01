"""Places of charts, worked out by hand."""

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
    Box,
    ChartPlace,
    Margins,
    arrange_charts,
    aspect_ratio,
    fit_charts,
    spread_labels,
)
from dgn_engine.scene.elements import Axis, Chart, Matrix

NOTHING = Margins()
TEN = Margins(10, 10, 10, 10)


def curves(key: str, row: int = 0, column: int = 0) -> Chart:
    return Chart(key, key, Axis(), Axis(), row=row, column=column)


def square(key: str, column: int = 0, row: int = 0, shape: tuple[int, int] = (4, 4)) -> Chart:
    matrix = Matrix(key, np.zeros(shape), "gates", 0.0, 1.0)
    return Chart(key, key, Axis(), Axis(), matrix=matrix, square=True, row=row, column=column)


def boxes(
    charts: list[Chart], margins: Margins, width: float, height: float
) -> dict[str, tuple[float, float, float, float]]:
    places = arrange_charts(charts, {chart.key: margins for chart in charts}, width, height)
    return {
        key: (place.box.x, place.box.y, place.box.width, place.box.height)
        for key, place in places.items()
    }


def test_charts_side_by_side_have_one_base_line_one_top_and_equally_wide_data() -> None:
    margins = {"a": Margins(10, 5, 3, 7), "b": Margins(20, 1, 2, 4)}
    assert arrange_charts([curves("a"), curves("b", column=1)], margins, 208, 100) == {
        "a": ChartPlace(Box(10, 5, 82.5, 88), Margins(10, 5, 3, 7)),
        "b": ChartPlace(Box(123.5, 5, 82.5, 88), Margins(20, 5, 2, 7)),
    }


def test_charts_one_below_the_other_begin_and_end_at_one_edge() -> None:
    margins = {"a": Margins(10, 5, 3, 7), "b": Margins(20, 1, 2, 4)}
    assert arrange_charts([curves("a"), curves("b", row=1)], margins, 200, 108) == {
        "a": ChartPlace(Box(20, 5, 177, 38), Margins(20, 5, 3, 7)),
        "b": ChartPlace(Box(20, 59, 177, 45), Margins(20, 1, 3, 4)),
    }


def test_a_chart_over_two_columns_and_rows_has_the_gaps_between_them() -> None:
    wide = replace(curves("wide"), column_span=2)
    below = [curves("a", row=1), curves("b", row=1, column=1)]
    tall = replace(curves("tall", column=2), row_span=2)
    assert boxes([wide, *below, tall], NOTHING, 316, 208) == {
        "wide": (0, 0, 208, 100),
        "a": (0, 108, 100, 100),
        "b": (108, 108, 100, 100),
        "tall": (216, 0, 100, 208),
    }


def test_the_aspect_of_a_matrix_is_width_over_height() -> None:
    assert aspect_ratio(square("a", shape=(2, 5))) == 2.5
    assert aspect_ratio(square("a", shape=(0, 5))) == 1.0
    assert aspect_ratio(curves("a")) == 1.0


def test_a_square_chart_alone_stands_in_the_middle() -> None:
    chart = square("a", shape=(2, 4))  # twice as wide as high
    assert boxes([chart], TEN, 400, 100) == {"a": (120, 10, 160, 80)}
    assert boxes([chart], TEN, 100, 100) == {"a": (10, 10, 80, 40)}


def test_a_square_beside_curves_leaves_them_more_than_half() -> None:
    charts = [square("a"), curves("b", column=1)]
    assert boxes(charts, TEN, 458, 100) == {"a": (10, 10, 80, 80), "b": (118, 10, 330, 80)}
    # 450 / 2.25 = 200 for the square at the most.
    assert boxes(charts, TEN, 458, 300) == {"a": (10, 10, 180, 180), "b": (218, 10, 230, 280)}


def test_two_squares_that_have_to_shrink_stay_equally_large() -> None:
    charts = [square("a"), square("b", column=1)]
    assert boxes(charts, NOTHING, 108, 100) == {"a": (0, 0, 50, 50), "b": (58, 0, 50, 50)}
    assert boxes(charts, NOTHING, 308, 100) == {"a": (50, 0, 100, 100), "b": (158, 0, 100, 100)}


def test_squares_below_a_wide_chart_share_its_width() -> None:
    wide = replace(curves("wide"), column_span=2)
    squares = [square("a", row=1), square("b", row=1, column=1)]
    assert boxes([wide, *squares], NOTHING, 408, 208) == {
        "wide": (0, 0, 408, 100),
        "a": (0, 108, 100, 100),
        "b": (208, 108, 100, 100),
    }


def test_a_square_over_two_rows_is_as_high_as_both() -> None:
    tall = replace(square("a"), row_span=2)
    charts = [tall, curves("b", column=1), curves("c", row=1, column=1)]
    found = boxes(charts, TEN, 1000, 208)
    assert found["a"] == (10, 10, 188, 188)
    assert found["b"] == (226, 10, 764, 80)


@pytest.mark.parametrize(("height", "picture"), [(100, 40), (400, 64), (1000, 76)])
def test_an_overview_is_small_and_keeps_its_own_margins(height: float, picture: float) -> None:
    small = replace(curves("small"), small=True)
    margins = {"small": Margins(1, 2, 3, 4), "large": TEN}
    places = arrange_charts([small, curves("large", row=1)], margins, 200, height)
    assert places["small"] == ChartPlace(Box(1, 2, 196, picture), Margins(1, 2, 3, 4))
    top = picture + 6 + 8
    rest = max(height - top, 24)
    assert places["large"] == ChartPlace(Box(10, top + 10, 180, max(rest - 20, 8)), TEN)


def test_no_box_is_smaller_than_eight() -> None:
    assert boxes([curves("a")], Margins(50, 50, 50, 50), 60, 60) == {"a": (50, 50, 8, 8)}


def test_in_a_narrow_room_charts_take_their_second_place() -> None:
    charts = [
        replace(curves("a"), narrow=(0, 0, 1, 1)),
        replace(curves("b", column=1), narrow=(1, 0, 1, 1)),
    ]
    assert boxes(charts, NOTHING, 439, 208) == {"a": (0, 0, 439, 100), "b": (0, 108, 439, 100)}
    assert boxes(charts, NOTHING, 440, 208) == {"a": (0, 0, 216, 208), "b": (224, 0, 216, 208)}
    # Curves do not become clearer by their height.
    assert boxes(charts, NOTHING, 440, 9000)["b"][0] == 224


def test_in_a_tall_room_squares_take_their_second_place() -> None:
    charts = [
        replace(square("a"), narrow=(0, 0, 1, 1)),
        replace(square("b", column=1), narrow=(1, 0, 1, 1)),
    ]
    assert boxes(charts, NOTHING, 440, 1008) == {"a": (0, 0, 440, 440), "b": (0, 508, 440, 440)}
    assert boxes(charts, NOTHING, 440, 300) == {"a": (0, 0, 216, 216), "b": (224, 0, 216, 216)}
    # 226² is 1.095 times 216²: not worth another place; 227² is 1.104 times.
    assert boxes(charts, NOTHING, 440, 460)["b"] == (224, 0, 216, 216)
    assert boxes(charts, NOTHING, 440, 462)["b"][:2] != (224, 0)


def test_without_charts_there_is_no_place() -> None:
    assert arrange_charts([], {}, 100, 100) == {}
    assert fit_charts((), room, 100, 100).places == {}


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ([50, 52], [50, 60]),
        ([52, 50], [60, 50]),
        ([0, 99], [10, 90]),
        ([98, 99], [80, 90]),
        ([1, 2, 3], [10, 20, 30]),
        ([30], [30]),
        ([], []),
    ],
)
def test_labels_that_would_overlap_are_moved_apart(
    wanted: list[float], places: list[float]
) -> None:
    assert spread_labels(wanted, 10, 5, 95) == places


# Which charts have room beside each other, which become tabs, and when the room scrolls.

AROUND = Margins(30, 20, 10, 20)
CLASSES = Axis("class", limits=(-0.5, 3.5), ticks=((0.0, "cat"), (2.0, "dog")))


def room(_chart: Chart) -> Margins:
    return AROUND


def titled(key: str, row: int = 0, column: int = 0, narrow: int | None = None) -> Chart:
    place = None if narrow is None else (narrow, 0, 1, 1)
    return Chart(key, f"Title of {key}", Axis(), Axis(), row=row, column=column, narrow=place)


def framed(key: str, column: int = 0, bar: str = "", named: bool = True) -> Chart:
    matrix = Matrix(key, np.zeros((4, 4)), "sequential", 0.0, 1.0, bar=bar)
    y = CLASSES if named else replace(CLASSES, label="", ticks=())
    return Chart(key, key, CLASSES, y, matrix=matrix, column=column, square=True)


PAIR = (titled("a"), titled("b", column=1))
# Two charts side by side: both margins, the gap, twice the least size.
WIDE = 2 * (40 + LEAST_CURVES[0]) + GAP
HIGH = 40 + LEAST_CURVES[1]


def test_charts_that_all_have_their_least_size_stand_as_they_are_arranged() -> None:
    found = fit_charts(PAIR, room, WIDE, HIGH)
    assert found.tabs == ()
    assert found.charts == PAIR
    assert found.places == arrange_charts(PAIR, {"a": AROUND, "b": AROUND}, WIDE, HIGH)
    assert (found.width, found.height) == (WIDE, HIGH)
    assert [place.box.width for place in found.places.values()] == [160, 160]
    assert [place.box.height for place in found.places.values()] == [90, 90]


@pytest.mark.parametrize(("width", "height"), [(WIDE - 1, 400), (WIDE, HIGH - 1)])
def test_one_pixel_less_makes_tabs_of_them(width: float, height: float) -> None:
    found = fit_charts(PAIR, room, width, height)
    assert found.tabs == ("a", "b")
    assert [chart.key for chart in found.charts] == ["a"]
    assert set(found.places) == {"a"}


def test_the_chosen_tab_is_shown_and_one_that_is_gone_is_the_first() -> None:
    assert [one.key for one in fit_charts(PAIR, room, 250, 200, "b").charts] == ["b"]
    assert [one.key for one in fit_charts(PAIR, room, 250, 200, "gone").charts] == ["a"]


def test_a_chart_behind_a_tab_has_the_whole_room_below_the_tabs_and_no_title() -> None:
    found = fit_charts(PAIR, room, 250, 200, "b")
    box = found.places["b"].box
    assert (box.x, box.y) == (30, 20)
    assert (box.width, box.height) == (250 - 40, 200 - TAB_ROW - 40)
    assert found.charts[0].title == ""


def test_the_second_place_of_charts_is_taken_before_tabs() -> None:
    charts = (titled("a", narrow=0), replace(titled("b", column=1), narrow=(1, 0, 1, 1)))
    found = fit_charts(charts, room, 500, 2 * HIGH + GAP)  # each 206 wide: fits side by side
    assert found.tabs == ()
    found = fit_charts(charts, room, WIDE - 1, 2 * HIGH + GAP)  # one below the other
    assert found.tabs == ()
    assert {place.box.x for place in found.places.values()} == {30}
    # Narrow and low: side by side, though a narrow room stacks them otherwise.
    assert fit_charts(charts, room, WIDE, HIGH).tabs == ()


def test_a_single_chart_scrolls_below_its_least_size() -> None:
    alone = (titled("a"),)
    low = HIGH - LEAST_CURVES[1] + LOW_CURVES
    assert fit_charts(alone, room, 300, low).height == low  # all of it in sight
    found = fit_charts(alone, room, 300, low - 10)
    assert found.tabs == ()
    assert (found.width, found.height) == (300 - SCROLL, low)
    assert found.places["a"].box.height == LOW_CURVES
    found = fit_charts(alone, room, 150, 400)
    assert (found.width, found.height) == (40 + LEAST_CURVES[0], 400 - SCROLL)
    assert found.places["a"].box.width == LEAST_CURVES[0]


def test_a_matrix_keeps_its_least_size() -> None:
    pair = (framed("a"), framed("b", 1))
    least = 2 * (40 + LEAST_MATRIX[0]) + GAP
    assert fit_charts(pair, room, least, 40 + LEAST_MATRIX[1]).tabs == ()
    assert fit_charts(pair, room, least, 39 + LEAST_MATRIX[1]).tabs == ("a", "b")
    assert fit_charts(pair, room, least - 2, 400).tabs == ("a", "b")
    low = fit_charts((framed("a"),), room, 400, 50).places["a"].box
    assert (low.width, low.height) == LEAST_MATRIX


def test_a_matrix_alone_has_the_names_and_the_scale_that_it_shared_and_no_other_scale() -> None:
    pair = (framed("a"), framed("b", 1, bar="overlap", named=False))
    first = fit_charts(pair, room, 200, 200, "a").charts[0]
    second = fit_charts(pair, room, 200, 200, "b").charts[0]
    for chart in (first, second):
        assert chart.matrix is not None
        assert chart.matrix.bar == "overlap"
        assert (chart.y.label, chart.y.ticks) == (CLASSES.label, CLASSES.ticks)
    other = framed("b", 1, bar="kernel value")
    assert other.matrix is not None
    other = replace(other, matrix=replace(other.matrix, high=7.0))
    first = fit_charts((framed("a"), other), room, 200, 200, "a").charts[0]
    assert first.matrix is not None
    assert first.matrix.bar == ""


def test_overviews_stand_elsewhere_and_leave_no_rows_behind() -> None:
    small = [replace(framed(f"s{i}", i), small=True, square=False) for i in range(6)]
    large = replace(framed("large"), square=False, row=3, column_span=3)
    unit = replace(framed("unit"), row=3, column=3, column_span=3)
    found = fit_charts((*small, large, unit), room, 700, 300)
    assert set(found.places) == {"large", "unit"}
    assert found.places["large"].box.y == AROUND.top
    alone = fit_charts((*small, large), room, 700, 300)
    assert alone.tabs == ()
    assert alone.places["large"].box.height == 300 - 40
