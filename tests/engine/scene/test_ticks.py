"""Ticks and numbers of axes, each worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dgn_engine.scene.elements import Axis, Chart, Matrix
from dgn_engine.scene.ticks import (
    axis_label,
    axis_ticks,
    bar_ticks,
    linear_ticks,
    log_ticks,
    number,
    power_of_ten,
    spaced,
)
from tests.snapshots import Recorded

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
    assert [number(value) for value in EDGES.values()] == list(EDGES)
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
    assert spaced([(0.0, "")] * len(places), places, gap) == kept


def test_an_axis_is_named_with_its_unit() -> None:
    assert axis_label(Axis("time", "s")) == "time (s)"
    assert axis_label(Axis("loss")) == "loss"


def test_ticks_of_an_axis_are_those_of_its_visible_part() -> None:
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
