"""What the cursor says of curves and matrices; panels' own pictures are tested with the panels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.scene.elements import Axis, Chart, Curve, Mark, Matrix
from dgn_engine.scene.readout import describe, nearest


def curve(name: str, x: list[float], y: list[float]) -> Curve:
    return Curve(name, np.array(x), np.array(y))


@pytest.mark.parametrize(
    ("x", "index"),
    [(-9.0, 0), (0.0, 0), (4.9, 0), (5.0, 0), (5.1, 1), (10.0, 1), (16.0, 2), (99.0, 2)],
)
def test_the_nearest_point_of_a_curve(x: float, index: int) -> None:
    assert nearest(curve("", [0, 10, 20], [1, 2, 3]), x) == index


def test_an_empty_curve_has_no_nearest_point_and_is_not_named() -> None:
    empty = curve("empty", [], [])
    assert nearest(empty, 1.0) is None
    chart = Chart("c", "Loss", Axis("step"), Axis(), curves=(empty, curve("", [3], [4])))
    assert describe(chart, 1.0, 0.0) == ("step 3", "Loss  4")
    assert describe(Chart("c", "Loss", Axis("step"), Axis(), curves=(empty,)), 1.0, 0.0) == ()


def test_edges_without_a_name_are_told_only_where_nothing_has_one() -> None:
    edge, named = curve("", [1], [9]), curve("mean", [1], [2])
    chart = Chart("c", "Loss", Axis("step"), Axis(), curves=(named, edge))
    assert describe(chart, 1.0, 0.0) == ("step 1", "mean  2")


def test_a_place_with_a_name_is_told_by_it() -> None:
    axis = Axis("regime", ticks=((0.0, "FR"), (1.0, "FL")), places=True)
    chart = Chart("c", "", axis, Axis(), curves=(curve("a", [0.1, 1.1], [3, 4]),))
    assert describe(chart, 0.9, 0.0) == ("FL", "a  4")


def test_the_place_is_that_of_the_curve_that_is_nearest() -> None:
    a, b = curve("a", [0, 8], [1, 2]), curve("b", [3, 6], [5, 7])
    chart = Chart("c", "", Axis(), Axis(), curves=(a, b))
    assert describe(chart, 3.5, 0.0) == ("x 3", "a  1", "b  5")
    assert describe(chart, 7.5, 0.0) == ("x 8", "a  2", "b  7")


def test_marks_are_named_where_they_are_near() -> None:
    marks = (Mark(10.0, "FL"), Mark(1200.0, "π"))
    chart = Chart("c", "", Axis("step"), Axis(), curves=(curve("a", [9], [1]),), marks=marks)
    assert describe(chart, 10.0, 0.0) == ("step 9", "a  1", "step 10: FL")
    assert describe(chart, 1190.0, 0.0, near=10.0) == ("step 9", "a  1", "step 1,200: π")
    assert describe(chart, 1190.0, 0.0, near=9.9) == ("step 9", "a  1")
    alone = Chart("c", "", Axis("step"), Axis(), marks=marks)
    assert describe(alone, 10.0, 0.0) == ("step 10: FL",)


MATRIX = Matrix(
    "m",
    np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.5]]),
    "gates",
    0.0,
    1.0,
    row_name="example",
    column_name="unit",
    row_labels=("first",),
)


@pytest.mark.parametrize(
    ("x", "y", "lines"),
    [
        (0.0, 0.0, ("first", "unit 0", "1")),
        (1.2, -0.4, ("first", "unit 1", "undefined (zero diagonal)")),
        (2.4, 1.4, ("example 1", "unit 2", "6.5")),
        (2.6, 0.0, ()),
        (0.0, 1.6, ()),
        (-0.6, 0.0, ()),
        (0.0, -0.6, ()),
    ],
)
def test_an_entry_of_a_matrix_is_named_by_row_and_column(
    x: float, y: float, lines: tuple[str, ...]
) -> None:
    assert describe(Chart("c", "", Axis(), Axis(), matrix=MATRIX), x, y) == lines


def test_where_lines_are_smoothed_the_cursor_tells_the_raw_values_and_says_so() -> None:
    raw = replace(curve("train", [0, 1, 2], [1.0, 9.0, 1.0]), faint=True)
    line = replace(curve("train", [0, 1, 2], [1.0, 5.0, 4.0]), smoothed=0.9)
    chart = Chart("c", "Loss", Axis("step"), Axis(), curves=(raw, line))
    assert describe(chart, 1.0, 0.0) == ("step 1 · raw; lines smoothed 0.9", "train  9")
