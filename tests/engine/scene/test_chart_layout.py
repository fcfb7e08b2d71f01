"""Places of charts, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.scene.chart_layout import (
    Box,
    ChartPlace,
    Margins,
    arrange,
    aspect,
    spread,
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
    places = arrange(charts, {chart.key: margins for chart in charts}, width, height)
    return {
        key: (place.box.x, place.box.y, place.box.width, place.box.height)
        for key, place in places.items()
    }


def test_charts_side_by_side_have_one_base_line_one_top_and_equally_wide_data() -> None:
    margins = {"a": Margins(10, 5, 3, 7), "b": Margins(20, 1, 2, 4)}
    assert arrange([curves("a"), curves("b", column=1)], margins, 208, 100) == {
        "a": ChartPlace(Box(10, 5, 82.5, 88), Margins(10, 5, 3, 7)),
        "b": ChartPlace(Box(123.5, 5, 82.5, 88), Margins(20, 5, 2, 7)),
    }


def test_charts_one_below_the_other_begin_and_end_at_one_edge() -> None:
    margins = {"a": Margins(10, 5, 3, 7), "b": Margins(20, 1, 2, 4)}
    assert arrange([curves("a"), curves("b", row=1)], margins, 200, 108) == {
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
    assert aspect(square("a", shape=(2, 5))) == 2.5
    assert aspect(square("a", shape=(0, 5))) == 1.0
    assert aspect(curves("a")) == 1.0


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
    places = arrange([small, curves("large", row=1)], margins, 200, height)
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
    assert arrange([], {}, 100, 100) == {}


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
    assert spread(wanted, 10, 5, 95) == places
