"""Ranges of colours: percentiles by a sort, pairs, signed maps, scales that are shared."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest

from dgn_engine.scene.axes import Range
from dgn_engine.scene.chart_settings import ChartSettings, adjusted
from dgn_engine.scene.elements import Array, Axis, Chart, Matrix, Ramp, Scene
from dgn_engine.scene.matrix_colours import SPANS, ColourChoice, Span, ranged, sharing, span_range


def by_hand(values: list[float], share: float) -> float:
    """The percentile of a sorted list, between two entries in proportion."""
    ordered = sorted(value for value in values if math.isfinite(value))
    place = share / 100 * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _chart(
    key: str, values: Array, bar: str = "", ramp: Ramp = "sequential", reach: Range = (0.0, 1.0)
) -> Chart:
    matrix = Matrix(key, values, ramp, *reach, bar=bar)
    return Chart(key, key.title(), Axis("class"), Axis(), matrix=matrix, square=True)


def _alike(n: int = 12, seed: int = 0) -> Array:
    """As Λ of a CNN is: ones on the diagonal, and nearly one beside it."""
    values = 0.9 + 0.05 * np.random.default_rng(seed).random((n, n))
    np.fill_diagonal(values, 1.0)
    return values


def _matrix(scene: Scene, place: int) -> Matrix:
    matrix = scene.charts[place].matrix
    assert matrix is not None
    return matrix


def _spans(*keys: str, span: Span = "pairs", **more: object) -> dict[str, ChartSettings]:
    choice = ColourChoice(span, **more)  # type: ignore[arg-type]  # keywords of ColourChoice
    return {key: ChartSettings(colours=choice) for key in keys}


@pytest.mark.parametrize(("span", "low", "high"), [("middle_98", 1, 99), ("middle_90", 5, 95)])
@pytest.mark.parametrize("shape", [(7, 9), (1, 2), (40, 40)])
def test_percentiles_are_those_of_a_sorted_list(
    span: Literal["middle_98", "middle_90"], low: float, high: float, shape: tuple[int, int]
) -> None:
    values = np.random.default_rng(3).normal(size=shape)
    values.flat[0] = np.nan if values.size > 2 else 1.0
    listed = values.ravel().tolist()
    expected = by_hand(listed, low), by_hand(listed, high)
    np.testing.assert_allclose(span_range([values], span) or (), expected)


def test_pairs_are_what_lies_off_the_diagonal() -> None:
    values = _alike(12)
    listed = [values[i, j] for i in range(12) for j in range(12) if i != j]
    expected = by_hand(listed, 1), by_hand(listed, 99)
    np.testing.assert_allclose(span_range([values], "pairs") or (), expected)
    assert (span_range([values], "pairs") or (0, 1))[1] < 0.96


def test_several_matrices_have_one_range_over_the_values_of_all() -> None:
    one, two = np.array([[0.0, 1.0]]), np.array([[2.0, 9.0]])
    assert span_range([one, two], "whole") == (0.0, 9.0)
    assert span_range([one, -two], "symmetric") == (-9.0, 9.0)


@pytest.mark.parametrize("span", ["whole", "middle_98", "middle_90", "pairs"])
@pytest.mark.parametrize("value", [0.0, 2.0, -2.0])
def test_a_constant_matrix_has_the_range_between_0_and_its_value(span: Span, value: float) -> None:
    ends = (min(value, 0.0), max(value, 0.0)) if value else (0.0, 1.0)
    assert span_range([np.full((3, 3), value)], span) == ends


@pytest.mark.parametrize("values", [np.zeros((0, 0)), np.full((2, 2), np.nan)])
def test_nothing_finite_has_no_range(values: Array) -> None:
    assert span_range([values], "whole") is None
    scene = Scene((_chart("a", values),))
    after = _matrix(adjusted(scene, _spans("a", span="whole")), 0)
    assert (after.low, after.high) == (0.0, 1.0)


def test_what_lies_beyond_the_colours_is_known() -> None:
    matrix = _chart("a", np.array([[0.0, 0.5], [np.nan, 1.0]])).matrix
    assert matrix is not None
    assert ranged(matrix, 0.0, 1.0).beyond == (False, False)
    assert ranged(matrix, 0.1, 1.0).beyond == (True, False)
    assert ranged(matrix, 0.0, 0.9).beyond == (False, True)


def test_a_diverging_map_stays_centred_on_zero() -> None:
    chart = _chart("a", np.array([[-1.0, 3.0]]), "bar", "diverging", (-3.0, 3.0))
    matrix = _matrix(adjusted(Scene((chart,)), _spans("a", span="whole")), 0)
    assert (matrix.low, matrix.high, matrix.beyond) == (-3.0, 3.0, (False, False))
    cut = _matrix(adjusted(Scene((chart,)), _spans("a", span="fixed", fixed=(-0.5, 2.0))), 0)
    assert (cut.low, cut.high, cut.beyond) == (-2.0, 2.0, (False, True))


def test_another_map_may_leave_the_centre() -> None:
    chart = _chart("a", np.array([[-1.0, 3.0]]), "bar", "diverging", (-3.0, 3.0))
    matrix = _matrix(adjusted(Scene((chart,)), _spans("a", span="whole", ramp="grey")), 0)
    assert (matrix.ramp, matrix.low, matrix.high) == ("grey", -1.0, 3.0)


def test_matrices_under_one_bar_stay_under_one_bar() -> None:
    scene = Scene((_chart("a", _alike(seed=1)), _chart("b", 0.5 * _alike(seed=2), "overlap")))
    assert sharing(scene.charts, "a") == ("a", "b")
    after = adjusted(scene, _spans("a", "b"))
    a, b = _matrix(after, 0), _matrix(after, 1)
    assert (a.low, a.high, a.beyond) == (b.low, b.high, b.beyond)
    assert a.low < 0.5
    assert a.high > 0.9
    assert a.beyond == (True, True)
    assert SPANS["pairs"] in after.note


def test_matrices_with_a_bar_each_have_a_range_each() -> None:
    scene = Scene((_chart("a", _alike(), "x"), _chart("b", 0.5 * _alike(), "x")))
    assert sharing(scene.charts, "a") == ("a",)
    after = adjusted(scene, _spans("a"))
    assert _matrix(after, 0).low > 0.8
    assert after.charts[1] is scene.charts[1]


def test_sharing_is_about_matrices() -> None:
    scene = Scene((_chart("a", _alike()), Chart("c", "", Axis(), Axis())))
    assert sharing(scene.charts, "c") == ()
    assert sharing(scene.charts, "gone") == ()
