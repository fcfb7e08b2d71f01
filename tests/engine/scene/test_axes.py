"""How far axes reach, class lines, and thinned curves, each worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dgn_engine.scene.axes import (
    Range,
    chart_range,
    class_names,
    example_axis,
    example_labels,
    step_axis,
    thin_curve,
)
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix, deep_equal, finite_range
from dgn_engine.scene.panel_spec import View
from dgn_engine.scene.ticks import (
    axis_label,
    axis_ticks,
    bar_ticks,
    format_number,
    linear_ticks,
    log_ticks,
    power_of_ten,
    select_spaced,
)
from tests.engine.panels.pictures import started_run
from tests.snapshots import Recorded


def curve(x: list[float], y: list[float]) -> Curve:
    return Curve("", np.array(x), np.array(y))


def reach(*curves: Curve, x: Axis | None = None, y: Axis | None = None) -> tuple[Range, Range]:
    return chart_range(Chart("c", "", x or Axis(), y or Axis(), curves=curves))


LOG = Axis(log=True)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda: reach(curve([2, 6], [1, 3])), ((2, 6), (0.9, 3.1))),
        (lambda: reach(curve([2, 6], [1, 3]), curve([1], [7])), ((1, 6), (0.7, 7.3))),
        (lambda: reach(curve([1, 2], [3, 3])), ((1, 2), (2.7, 3.3))),
        (lambda: reach(curve([4, 4], [-3, -3])), ((4, 4.4), (-3.3, -2.7))),
        (lambda: reach(curve([0], [0])), ((0, 1), (-1, 1))),
        (lambda: reach(), ((0, 1), (-1, 1))),
        (lambda: reach(curve([], [])), ((0, 1), (-1, 1))),
        (lambda: reach(curve([1, 2, 3], [np.nan, 1, np.inf])), ((1, 3), (0.9, 1.1))),
        (lambda: reach(curve([1, 2], [1, 100]), y=LOG), ((1, 2), (10**-0.1, 10**2.1))),
        (lambda: reach(curve([1, 2], [10, 10]), y=LOG), ((1, 2), (10**0.5, 10**1.5))),
        (lambda: reach(curve([1, 10], [0, 1]), x=LOG), ((10**-0.03, 10**1.03), (-0.05, 1.05))),
        (lambda: reach(curve([1, 2], [-5, 10]), y=LOG), ((1, 2), (10**0.5, 10**1.5))),
        (lambda: reach(curve([1, 2], [-5, 0]), y=LOG), ((1, 2), (0.1, 1.0))),
        (lambda: reach(curve([1, 2], [3, 4]), x=Axis(limits=(0, 9))), ((0, 9), (2.95, 4.05))),
    ],
)
def test_an_axis_reaches_around_its_curves(
    found: Callable[[], tuple[Range, Range]], expected: tuple[Range, Range]
) -> None:
    across, up = found()
    assert across == pytest.approx(expected[0])
    assert up == pytest.approx(expected[1])


def test_a_matrix_reaches_half_a_square_beyond_its_middles() -> None:
    matrix = Matrix("m", np.zeros((2, 5)), "gates", 0.0, 1.0)
    chart = Chart("c", "", Axis(limits=(0, 9)), Axis(), matrix=matrix)
    assert chart_range(chart) == ((-0.5, 4.5), (-0.5, 1.5))


@pytest.mark.parametrize(
    ("curves", "last"),
    [
        ([], 4.0),
        ([curve([], [])], 4.0),
        ([curve([3], [1])], 6.0),  # a first point stands in the middle
        ([curve([1], [1])], 4.0),
        ([curve([3], [1]), curve([1, 5], [1, 2])], 5.0),
        ([curve([1, 7], [1, 2]), curve([9], [1])], 9.0),
        ([curve([1, 3], [1, 2])], 4.0),
    ],
)
def test_an_axis_of_steps_ends_at_the_last_step(curves: list[Curve], last: float) -> None:
    assert step_axis(curves) == Axis(label="step", limits=(0.0, last), epoch=0)


def test_classes_are_parted_by_lines_and_named_in_their_middle() -> None:
    axis = example_axis(np.array([0, 0, 0, 2, 3, 3]), ("a", "b", "c", "d"))
    assert axis == Axis(
        label="example, by class",
        limits=(-0.5, 5.5),
        ticks=((1.0, "a"), (3.0, "c"), (4.5, "d")),
        lines=(2.5, 3.5),
    )
    assert example_axis(np.array([1]), ("a", "b"), "class") == Axis(
        label="class", limits=(-0.5, 0.5), ticks=((0.0, "b"),)
    )
    assert example_axis(np.array([], dtype=int), ()) == Axis(
        label="example, by class", limits=(-0.5, 0.5), ticks=()
    )


def test_names_of_more_than_ten_letters_are_cut_below_an_axis() -> None:
    axis = example_axis(np.array([0, 1]), ("aeroplanes", "automobiles"))
    assert axis.ticks == ((0.0, "aeroplanes"), (1.0, "autom…iles"))


def test_classes_without_a_name_are_numbers() -> None:
    labels = np.array([0, 1, 2])
    assert class_names(View(run=started_run((2,))), labels) == ("cat", "dog", "2")
    assert class_names(View(run=started_run((2,))), np.array([0])) == ("cat",)
    assert class_names(View(), labels) == ("0", "1", "2")
    assert class_names(View(run=started_run((2,))), np.array([], dtype=int)) == ()


def test_examples_are_named_with_their_class() -> None:
    assert example_labels(np.array([1, 0]), ("cat", "dog")) == (
        "example 0, class dog",
        "example 1, class cat",
    )


TWELVE = np.array([3.0, 1, 2, 5, 4, 0, 9, 7, 8, 6, 6.5, 7.5])


def test_a_thinned_curve_keeps_least_and_greatest_of_each_bin_and_what_fills_none() -> None:
    x, y = thin_curve(np.arange(12), TWELVE, -1, 99, most=4)  # two bins of six
    assert x.tolist() == [3, 5, 6, 9]
    assert y.tolist() == [5, 0, 9, 6]
    x, _ = thin_curve(np.arange(13), np.append(TWELVE, 1.0), -1, 99, most=6)  # two bins of five
    assert x.tolist() == [1, 3, 5, 6, 10, 11, 12]
    x, y = thin_curve(np.arange(12), TWELVE, -1, 99, most=12)
    assert x.tolist() == list(range(12))
    assert y is not None
    assert len(thin_curve(np.arange(12), TWELVE, -1, 99, most=11)[0]) < 12
    gaps = TWELVE.copy()
    gaps[[0, 3, 5]] = np.nan
    x, _ = thin_curve(np.arange(12), gaps, -1, 99, most=4)
    assert x.tolist() == [1, 4, 6, 9]


def test_one_point_on_each_side_of_what_is_seen_is_kept() -> None:
    x, _ = thin_curve(np.arange(10) * 10, np.zeros(10), 25, 45)
    assert x.tolist() == [20, 30, 40, 50]
    x, _ = thin_curve(np.arange(10) * 10, np.zeros(10), 30, 40)
    assert x.tolist() == [20, 30, 40, 50]
    assert thin_curve(np.arange(3), np.zeros(3), -5, 9)[0].tolist() == [0, 1, 2]


def test_the_range_of_values_leaves_out_what_is_not_finite() -> None:
    assert finite_range(np.array([np.nan, 2.0, -1.0, np.inf])) == (-1.0, 2.0)
    assert finite_range(np.array([np.nan])) == (0.0, 0.0)


def test_scenes_are_alike_field_by_field() -> None:
    one = Chart("c", "t", Axis(), Axis(), curves=(curve([1], [np.nan]),))
    assert deep_equal(one, Chart("c", "t", Axis(), Axis(), curves=(curve([1], [np.nan]),)))
    assert not deep_equal(one, Chart("c", "t", Axis(), Axis(), curves=(curve([2], [np.nan]),)))
    assert not deep_equal(one, Chart("c", "u", Axis(), Axis(), curves=(curve([1], [np.nan]),)))
    assert not deep_equal((1, 2), (1,))
    assert not deep_equal(1, 1.0)
    assert not deep_equal(np.zeros(2), np.zeros(3))
    assert deep_equal(np.array(["a"]), np.array(["a"]))
    assert deep_equal("a", "".join(["a"]))


def test_on_a_logarithmic_axis_the_first_points_are_not_thinned_away() -> None:
    x = np.arange(0, 100_001)
    y = np.sin(x.astype(float))
    y[70_000] = 7.0
    seen, values = thin_curve(x, y, -np.inf, np.inf, 2000, log=True)
    assert len(seen) <= 2000
    assert seen[:50].tolist() == list(range(1, 51))  # 0 has no place on such an axis
    assert 7.0 in values
    assert (np.diff(seen) > 0).all()
    none = np.zeros(5000)
    assert thin_curve(none - 1, none, -np.inf, np.inf, 2000, log=True)[0].size == 0


# Ticks and numbers of axes, each worked out by hand.

EDGES = {
    "999,999": 999_999.0,
    "−1.23×10⁶": -1_234_567.0,
    "1×10⁷": 9.9996e6,  # not 10×10⁶
    "−9.99×10⁻⁴": -0.000999,
    "1×10⁻³": 0.0009996,
    "4.94×10⁻³²⁴": 5e-324,  # the least number above zero
    "1,000.5": 1000.5,
    "12.35": 12.3456,
    "∞": math.inf,
}


def test_a_number_beside_a_power_is_set_for_reading() -> None:
    assert [format_number(value) for value in EDGES.values()] == list(EDGES)
    assert power_of_ten(-1234567890) == "10⁻¹²³⁴⁵⁶⁷⁸⁹⁰"


LINEAR = (
    *((0, 10, 5), (0, 10, 6), (0.3, 0.7, 5), (0, 100, 3), (0, 9, 1), (-1, 1, 1), (0, 9000, 5)),
    *((0, 10_000, 5), (0, 20_000, 5), (0, 5e5, 2), (0, 5e6, 3), (0, 1e6, 3), (-2e7, 0, 3)),
    *((0, 2e10, 3), (0, 2e13, 3), (0, 1e-3, 2), (0, 1e-3, 3), (0, 1e15, 3), (0, 9e14, 2)),
    *((0, 4e15, 3), (0, 2e-4, 3), (-1e-4, 0, 5), (101, 103, 5), (5, 5, 5), (5, 4, 5)),
    *((0, math.inf, 5), (0, 1, 0)),
)
LOGARITHMIC = (
    *((1, 1000, 5), (1, 10, 5), (1e-8, 1e4, 5), (1, 1e5, 5), (1, 1e5, 6), (2, 9, 5), (0.5, 3, 5)),
    *((15, 700, 3), (11_000, 60_000, 5), (150_000, 6e6, 5), (800, 12_000, 5), (3, 4, 5)),
    *((0, 10, 5), (-1, 10, 5), (10, 10, 5), (1, math.inf, 5), (1, 10, 0)),
)


@pytest.mark.parametrize(("ticks", "cases"), [(linear_ticks, LINEAR), (log_ticks, LOGARITHMIC)])
def test_ticks_are_round_numbers_within_their_axis(
    ticks: Callable[[float, float, int], tuple[tuple[float, str], ...]],
    cases: tuple[tuple[float, float, int], ...],
    recorded: Recorded,
) -> None:
    recorded({f"{low:g} to {high:g}, {most}": ticks(low, high, most) for low, high, most in cases})
    for low, high, most in cases:
        found = [value for value, _ in ticks(low, high, most)]
        assert len(found) <= most
        assert all(low - 1e-9 * abs(low) <= value <= high * (1 + 1e-9) for value in found)


@pytest.mark.parametrize(
    ("places", "gap", "kept"),
    [
        ([0, 10, 20, 30], [6, 6, 6, 6], [0, 2]),
        ([0, 10, 20, 30], [5, 5, 5, 5], [0, 1, 2, 3]),  # they touch, and no more
        ([30, 20, 10, 0], [6, 6, 6, 6], [0, 2]),
        ([0, 10, 20, 30], [9, 2, 1, 1], [0, 2]),  # every second, rather than one more
        ([0, 10, 20, 30, 40, 50], [29, 1, 1, 1, 1, 1], [0, 3, 4, 5]),  # every third would be two
        ([], [], []),
    ],
)
def test_labels_that_would_touch_are_left_out(
    places: list[float], gap: list[float], kept: list[int]
) -> None:
    assert select_spaced([(0.0, "")] * len(places), places, gap) == kept


def test_an_axis_has_its_unit_and_the_ticks_of_its_visible_part() -> None:
    assert axis_label(Axis("time", "s")) == "time (s)"
    assert axis_label(Axis("loss")) == "loss"
    assert axis_ticks(Axis(), (10.0, 0.0), 3) == ((0.0, "0"), (5.0, "5"), (10.0, "10"))
    logarithmic = axis_ticks(Axis(log=True), (-3.0, 0.0), 5)
    assert [text for _, text in logarithmic] == ["10⁻³", "10⁻²", "10⁻¹", "1"]
    assert [place for place, _ in logarithmic] == pytest.approx([-3.0, -2.0, -1.0, 0.0])
    own = Axis(ticks=((0.0, "a"), (2.0, "b"), (3.0, "c"), (5.0, "d")))
    assert axis_ticks(own, (2.0, 4.0), 1) == ((2.0, "b"), (3.0, "c"))
    assert axis_ticks(own, (3.0, 2.0), 1) == ((2.0, "b"), (3.0, "c"))
    logs = Axis(log=True, ticks=((-1.0, "never"), (0.0, "never"), (10.0, "ten"), (1000.0, "far")))
    assert axis_ticks(logs, (0.0, 2.0), 5) == ((1.0, "ten"),)
    assert len(axis_ticks(Axis(log=True), (-400.0, 400.0), 5)) > 0  # no float is so large


def test_a_colour_bar_has_three_ticks_at_most_and_none_without_a_name() -> None:
    matrix = Matrix("m", np.zeros((2, 2)), "diverging", -1.0, 1.0, bar="kernel")
    chart = Chart("c", "", Axis(), Axis(), matrix=matrix)
    assert bar_ticks(chart) == ((-1.0, "−1"), (0.0, "0"), (1.0, "1"))
    nameless = Matrix("m", np.zeros((2, 2)), "diverging", -1.0, 1.0)
    assert bar_ticks(Chart("c", "", Axis(), Axis(), matrix=nameless)) == ()
    assert bar_ticks(Chart("c", "", Axis(), Axis())) == ()


def _bar(low: float, high: float, beyond: tuple[bool, bool]) -> list[str]:
    matrix = Matrix("m", np.eye(2), "sequential", low, high, bar="overlap", beyond=beyond)
    return [text for _, text in bar_ticks(Chart("m", "", Axis(), Axis(), matrix=matrix))]


def test_a_colour_bar_says_which_of_its_ends_values_lie_beyond() -> None:
    assert _bar(0.0, 1.0, (False, False)) == ["0", "0.5", "1.0"]
    assert _bar(0.9312, 0.9876, (True, True)) == ["≤ 0.931", "0.96", "≥ 0.988"]
    assert _bar(0.0, 0.44, (False, True)) == ["0", "0.2", "≥ 0.44"]
    assert _bar(1.0, 1.0, (True, True)) == []
