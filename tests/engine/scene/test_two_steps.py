"""What a panel does not compare by itself is put together of its scenes at two steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.scene.axes import chart_range
from dgn_engine.scene.elements import Axis, Chart, Curve, Fact, Matrix, Ramp, Scene
from dgn_engine.scene.scatter import scattered
from dgn_engine.scene.two_steps import scene_of_steps

STEPS = (0, 900)
AT = np.arange(4.0)


def curves(*values: float) -> Chart:
    lines = tuple(Curve(f"c{place}", AT, AT * value) for place, value in enumerate(values))
    return Chart("lines", "Lines", Axis("x"), Axis("y"), lines)


def matrix(low: float, high: float, ramp: Ramp = "sequential") -> Chart:
    values = np.array([[low, high], [high, low]])
    return Chart("map", "Map", Axis(), Axis(), matrix=Matrix("m", values, ramp, low, high, "bar"))


def of_steps(first: Chart, second: Chart) -> tuple[Chart, ...]:
    """Of a panel that draws the first step as if there were no other."""
    return scene_of_steps(Scene((first,)), Scene((first,)), Scene((second,)), STEPS).charts


def test_one_curve_of_each_step_lies_in_one_chart_whose_axes_show_both() -> None:
    [chart] = of_steps(curves(1.0), curves(-5.0))
    assert [(c.name, c.dash) for c in chart.curves] == [
        ("step 900 c0", "dash"),
        ("step 0 c0", "solid"),
    ]
    _, (low, high) = chart_range(chart)
    assert low <= -15.0
    assert high >= 3.0


def test_a_chart_that_is_empty_at_one_step_has_the_axes_of_the_other() -> None:
    [chart] = of_steps(curves(), curves(2.0))
    assert [curve.name for curve in chart.curves] == ["step 900 c0"]
    assert chart_range(chart) == chart_range(curves(2.0))


def cloud(reach: float) -> Chart:
    return replace(curves(), curves=(scattered("cloud", AT * reach, AT, "accent"),))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (curves(*range(1, 6)), curves(*range(1, 6))),
        (cloud(1.0), cloud(7.0)),
        (replace(curves(1.0), square=True), replace(curves(1.0), square=True)),
    ],
)
def test_what_cannot_be_told_apart_in_one_chart_stands_side_by_side(
    first: Chart, second: Chart
) -> None:
    ours, theirs = of_steps(first, second)
    assert [ours.key, theirs.key] == ["lines_step0", "lines_step900"]
    assert ours.row == theirs.row
    assert ours.column + ours.column_span == theirs.column
    assert chart_range(ours) == chart_range(theirs)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (matrix(-1.0, 5.0), ("sequential", -1.0, 5.0)),
        (matrix(-7.0, 7.0, "diverging"), ("diverging", -7.0, 7.0)),
    ],
)
def test_matrices_have_one_scale_and_one_bar(second: Chart, expected: tuple[str, ...]) -> None:
    for chart, bar in zip(of_steps(matrix(0.0, 2.0), second), ("", "bar"), strict=True):
        assert chart.matrix is not None
        assert (chart.matrix.ramp, chart.matrix.low, chart.matrix.high) == expected
        assert chart.matrix.bar == bar


def test_a_chart_over_steps_is_drawn_once_with_a_line_at_each_step() -> None:
    timed = replace(curves(1.0), x=Axis("step", epoch=45))
    [chart] = of_steps(timed, timed)
    assert (chart.delta, chart.curves) == (STEPS, timed.curves)


def test_numbers_of_both_steps_stand_beside_each_other_once_where_they_are_equal() -> None:
    first = Scene((curves(1.0),), (Fact("a", "1"), Fact("b", "2")), note="Same. Old.")
    second = Scene(
        (curves(1.0),), (Fact("a", "1"), Fact("b", "3"), Fact("c", "4")), note="Same. New."
    )
    found = scene_of_steps(first, first, second, STEPS)
    assert {fact.name: fact.value for fact in found.facts} == {"a": "1", "b": "2 | 3", "c": "– | 4"}
    assert found.note == "Same. Old. At step 900: New."


def test_overviews_of_each_step_have_a_row_and_pairs_stand_below_them() -> None:
    small = [replace(matrix(0.0, 1.0), key=f"o{n}", small=True, column=n) for n in range(3)]
    scene = Scene((*small, replace(matrix(0.0, 1.0), row=1, column_span=3)))
    charts = {c.key: c for c in scene_of_steps(scene, scene, scene, STEPS).charts}
    rows = {key: chart.row for key, chart in charts.items()}
    assert {rows[f"o{n}_step0"] for n in range(3)} == {0}
    assert {rows[f"o{n}_step900"] for n in range(3)} == {1}
    assert rows["map_step0"] == rows["map_step900"] == 2
    ends = {chart.column + chart.column_span for chart in charts.values()}
    assert max(ends) == charts["o2_step0"].column + charts["o2_step0"].column_span
