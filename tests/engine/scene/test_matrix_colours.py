"""Ranges of colours: percentiles by a sort, pairs, signed maps, scales that are shared."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from dgn_engine.scene import ramps
from dgn_engine.scene.axes import Range
from dgn_engine.scene.chart_settings import ChartSettings, apply_chart_settings
from dgn_engine.scene.elements import Array, Axis, Chart, Matrix, Ramp, Scene
from dgn_engine.scene.matrix_colours import (
    SPANS,
    ColourChoice,
    Span,
    charts_sharing_scale,
    span_range,
    with_colour_range,
)
from dgn_engine.scene.matrix_difference import Subtrahend
from dgn_engine.scene.theme import DARK, LIGHT, Theme


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


def _matrix(scene: Scene, place: int = 0) -> Matrix:
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
    after = _matrix(apply_chart_settings(scene, _spans("a", span="whole")), 0)
    assert (after.low, after.high) == (0.0, 1.0)


def test_what_lies_beyond_the_colours_is_known() -> None:
    matrix = _chart("a", np.array([[0.0, 0.5], [np.nan, 1.0]])).matrix
    assert matrix is not None
    assert with_colour_range(matrix, 0.0, 1.0).beyond == (False, False)
    assert with_colour_range(matrix, 0.1, 1.0).beyond == (True, False)
    assert with_colour_range(matrix, 0.0, 0.9).beyond == (False, True)


def test_a_diverging_map_stays_centred_on_zero_and_another_may_leave_it() -> None:
    chart = _chart("a", np.array([[-1.0, 3.0]]), "bar", "diverging", (-3.0, 3.0))
    matrix = _matrix(apply_chart_settings(Scene((chart,)), _spans("a", span="whole")), 0)
    assert (matrix.low, matrix.high, matrix.beyond) == (-3.0, 3.0, (False, False))
    cut = _matrix(
        apply_chart_settings(Scene((chart,)), _spans("a", span="fixed", fixed=(-0.5, 2.0))), 0
    )
    assert (cut.low, cut.high, cut.beyond) == (-2.0, 2.0, (False, True))
    chart = _chart("a", np.array([[-1.0, 3.0]]), "bar", "diverging", (-3.0, 3.0))
    matrix = _matrix(
        apply_chart_settings(Scene((chart,)), _spans("a", span="whole", ramp="grey")), 0
    )
    assert (matrix.ramp, matrix.low, matrix.high) == ("grey", -1.0, 3.0)


def test_matrices_under_one_bar_stay_under_one_bar() -> None:
    scene = Scene((_chart("a", _alike(seed=1)), _chart("b", 0.5 * _alike(seed=2), "overlap")))
    assert charts_sharing_scale(scene.charts, "a") == ("a", "b")
    after = apply_chart_settings(scene, _spans("a", "b"))
    a, b = _matrix(after, 0), _matrix(after, 1)
    assert (a.low, a.high, a.beyond) == (b.low, b.high, b.beyond)
    assert a.low < 0.5
    assert a.high > 0.9
    assert a.beyond == (True, True)
    assert SPANS["pairs"] in after.note


def test_matrices_with_a_bar_each_have_a_range_each_and_no_other_chart_has_one() -> None:
    scene = Scene((_chart("a", _alike(), "x"), _chart("b", 0.5 * _alike(), "x")))
    assert charts_sharing_scale(scene.charts, "a") == ("a",)
    after = apply_chart_settings(scene, _spans("a"))
    assert _matrix(after, 0).low > 0.8
    assert after.charts[1] is scene.charts[1]
    scene = Scene((_chart("a", _alike()), Chart("c", "", Axis(), Axis())))
    assert charts_sharing_scale(scene.charts, "c") == ()
    assert charts_sharing_scale(scene.charts, "gone") == ()


# Colour ramps: the same for everybody's eyes, and their values in order of lightness.

Colours = NDArray[np.float64]
THEMES = [LIGHT, DARK]
RISING: tuple[Ramp, ...] = ("sequential", "cet_cbl1", "grey")
FALLING: tuple[Ramp, ...] = ("cet_l17",)

# What is left of linear RGB without one kind of cones: Machado, Oliveira and Fernandes 2009.
DICHROMACIES = {
    "none": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def lab(rgb: Colours, eyes: NDArray[Any]) -> Colours:
    """CIE Lab of sRGB colours (n, 3) in 0…255 as these eyes see them."""
    share = rgb / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ eyes.T, 0.0, 1.0) @ _XYZ.T / _XYZ.sum(axis=1)
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = root.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def seen(ramp: Ramp, theme: Theme, eyes: str) -> Colours:
    table = ramps.rgba_table(ramp, theme)[: ramps.EMPTY, :3].astype(np.float64)
    return lab(table, DICHROMACIES[eyes])


@pytest.mark.parametrize("eyes", DICHROMACIES)
@pytest.mark.parametrize("ramp", [*RISING, *FALLING])
def test_a_map_of_sizes_changes_in_lightness_alone_one_way(ramp: Ramp, eyes: str) -> None:
    lightness = seen(ramp, LIGHT, eyes)[:, 0] * (-1 if ramp in FALLING else 1)
    assert (np.diff(lightness[::8]) > 0).all()
    assert lightness[-1] - lightness[0] > 60


@pytest.mark.parametrize("eyes", DICHROMACIES)
@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
def test_the_signs_of_a_signed_map_stay_apart(theme: Theme, eyes: str) -> None:
    colours = seen("diverging", theme, eyes)
    middle = ramps.EMPTY // 2
    for away in range(40, middle + 1, 10):
        apart = np.linalg.norm(colours[middle - away] - colours[middle + away])
        assert apart > 8, away  # 2 is just noticeable


@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
@pytest.mark.parametrize("ramp", get_args(Ramp))
def test_every_ramp_has_a_table_whose_last_entry_is_empty(ramp: Ramp, theme: Theme) -> None:
    table = ramps.rgba_table(ramp, theme)
    assert table.shape == (256, 4)
    assert table[ramps.EMPTY, 3] == 0
    assert (table[: ramps.EMPTY, 3] == 255).all()
    numbers = ramps.colour_table(ramp, theme)
    red, green, blue, _ = (int(part) for part in table[100])
    assert numbers[100] == 0xFF000000 | red << 16 | green << 8 | blue


@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
def test_open_gates_are_told_from_closed_ones_by_lightness(theme: Theme) -> None:
    lightness = seen("gates", theme, "none")[:, 0]
    assert abs(lightness[-1] - lightness[0]) > 40
    hard = Matrix("m", np.array([[0, 1]], dtype=np.uint8), "gates", 0.0, 1.0)
    assert ramps.colour_indices(hard).tolist() == [[0, 254]]


def test_values_beyond_a_range_have_the_colours_of_its_ends() -> None:
    values = np.array([[-1.0, 0.2, 0.5, 0.8, 9.0, np.nan]])
    found = ramps.colour_indices(Matrix("m", values, "sequential", 0.2, 0.8))
    assert found.tolist() == [[0, 0, 127, 254, 254, ramps.EMPTY]]


def test_a_number_has_the_colour_of_its_place_in_the_range_whatever_it_is_stored_as() -> None:
    shares = Matrix("m", np.array([[0.0, 0.25, 0.5, 1.0, np.nan]]), "gates", 0.0, 1.0)
    found = ramps.colour_indices(shares)
    assert found.dtype == np.uint8
    assert found.tolist() == [[0, 64, 127, 254, ramps.EMPTY]]  # 63.5 is rounded to even
    counts = Matrix("m", np.array([[0, 1, 50, 200]], dtype=np.uint8), "sequential", 0.0, 100.0)
    assert ramps.colour_indices(counts).tolist() == [[0, 3, 127, 254]]


# Differences of two matrices of one panel: what is subtracted, what is said, what is refused.

TAGS = ("cat", "dog")
A = np.array([[1.0, 0.25], [0.25, 1.0]])
B = np.array([[1.0, 0.5], [np.nan, 0.5]])


def _tagged(
    key: str, values: Array, bar: str = "", scale: str = "", tags: tuple[str, ...] = TAGS
) -> Chart:
    matrix = Matrix(
        key, values, "sequential", 0.0, 1.0, bar, row_labels=tags, column_labels=tags, scale=scale
    )
    return Chart(key, key.title(), Axis(), Axis(), matrix=matrix, square=True)


def _minus(scene: Scene, key: str, *other: str, **more: object) -> Scene:
    wanted = ChartSettings(minus=Subtrahend(*other))
    return apply_chart_settings(scene, {key: wanted}, **more)  # type: ignore[arg-type]  # of adjusted


def test_a_difference_is_entry_by_entry_and_centred_on_zero() -> None:
    scene = Scene((_tagged("active", A), _tagged("sensitive", B, "overlap")))
    after = _minus(scene, "active", "sensitive")
    matrix = _matrix(after)
    np.testing.assert_array_equal(matrix.values, [[0.0, -0.25], [np.nan, 0.5]])
    assert (matrix.ramp, matrix.low, matrix.high) == ("diverging", -0.5, 0.5)
    assert matrix.bar == "difference"
    assert after.charts[0].title == "Active − Sensitive"
    assert after.charts[0].key == "active"
    assert after.charts[1] is scene.charts[1]


def test_the_shared_bar_moves_to_a_matrix_that_still_needs_it() -> None:
    scene = Scene((_tagged("active", A), _tagged("sensitive", B, "overlap")))
    after = _minus(scene, "sensitive", "active")
    assert _matrix(after, 0).bar == "overlap"
    assert _matrix(after, 1).bar == "difference"


def test_it_is_said_how_both_are_normalised() -> None:
    alike = Scene((_tagged("a", A, scale="unit diagonal"), _tagged("b", B, scale="unit diagonal")))
    assert _minus(alike, "a", "b").note == "A − B: both unit diagonal."
    unlike = Scene((_tagged("a", A, scale="unit diagonal"), _tagged("b", B, scale="as computed")))
    assert _minus(unlike, "a", "b").note == (
        "A (unit diagonal) − B (as computed): normalised differently."
    )
    unknown = Scene((_tagged("a", A), _tagged("b", B)))
    assert _minus(unknown, "a", "b").note == "A − B: both as shown."


def test_other_examples_other_sizes_and_what_is_gone_are_refused() -> None:
    scene = Scene((_tagged("a", A), _tagged("b", B, tags=("dog", "cat"))))
    after = _minus(scene, "a", "b")
    assert after.charts == scene.charts
    assert " A: B " in after.note
    larger = _minus(Scene((_tagged("a", A), _tagged("b", np.eye(3)))), "a", "b")
    assert " A: B has 3 × 3, not 2 × 2." in larger.note
    scene = Scene((_tagged("a", A),))
    after = _minus(scene, "a", "b")
    assert after.charts == scene.charts
    assert " A: " in after.note


def test_a_matrix_of_another_choice_of_the_panel_can_be_subtracted() -> None:
    layers = {"0": A, "1": B}

    def drawn(option: str, value: str) -> Scene | None:
        return Scene((_tagged("layer", layers[value]),)) if option == "part" else None

    after = _minus(drawn("part", "0") or Scene(()), "layer", "layer", "part", "1", drawn_with=drawn)
    np.testing.assert_array_equal(_matrix(after).values, A - B)
    gone = _minus(Scene((_tagged("layer", A),)), "layer", "layer", "other", "1", drawn_with=drawn)
    assert " Layer: " in gone.note
    np.testing.assert_array_equal(_matrix(gone).values, A)


def test_whole_numbers_are_subtracted_as_numbers_and_no_difference_has_a_range_too() -> None:
    gates = np.array([[0, 1]], dtype=np.uint8)
    scene = Scene((_tagged("a", gates, tags=()), _tagged("b", gates[:, ::-1], tags=())))
    np.testing.assert_array_equal(_matrix(_minus(scene, "a", "b")).values, [[-1.0, 1.0]])
    matrix = _matrix(_minus(Scene((_tagged("a", A), _tagged("b", A))), "a", "b"))
    assert (matrix.low, matrix.high) == (-1.0, 1.0)
