"""Differences of two matrices of one panel: what is subtracted, what is said, what is refused."""

from __future__ import annotations

import numpy as np

from dgn_engine.scene.chart_settings import ChartSettings, adjusted
from dgn_engine.scene.elements import Array, Axis, Chart, Matrix, Scene
from dgn_engine.scene.matrix_difference import Subtrahend

TAGS = ("cat", "dog")
A = np.array([[1.0, 0.25], [0.25, 1.0]])
B = np.array([[1.0, 0.5], [np.nan, 0.5]])


def _chart(
    key: str, values: Array, bar: str = "", scale: str = "", tags: tuple[str, ...] = TAGS
) -> Chart:
    matrix = Matrix(
        key, values, "sequential", 0.0, 1.0, bar, row_labels=tags, column_labels=tags, scale=scale
    )
    return Chart(key, key.title(), Axis(), Axis(), matrix=matrix, square=True)


def _minus(scene: Scene, key: str, *other: str, **more: object) -> Scene:
    wanted = ChartSettings(minus=Subtrahend(*other))
    return adjusted(scene, {key: wanted}, **more)  # type: ignore[arg-type]  # of adjusted


def _matrix(scene: Scene, place: int = 0) -> Matrix:
    matrix = scene.charts[place].matrix
    assert matrix is not None
    return matrix


def test_a_difference_is_entry_by_entry_and_centred_on_zero() -> None:
    scene = Scene((_chart("active", A), _chart("sensitive", B, "overlap")))
    after = _minus(scene, "active", "sensitive")
    matrix = _matrix(after)
    np.testing.assert_array_equal(matrix.values, [[0.0, -0.25], [np.nan, 0.5]])
    assert (matrix.ramp, matrix.low, matrix.high) == ("diverging", -0.5, 0.5)
    assert matrix.bar == "difference"
    assert after.charts[0].title == "Active − Sensitive"
    assert after.charts[0].key == "active"
    assert after.charts[1] is scene.charts[1]


def test_the_shared_bar_moves_to_a_matrix_that_still_needs_it() -> None:
    scene = Scene((_chart("active", A), _chart("sensitive", B, "overlap")))
    after = _minus(scene, "sensitive", "active")
    assert _matrix(after, 0).bar == "overlap"
    assert _matrix(after, 1).bar == "difference"


def test_it_is_said_how_both_are_normalised() -> None:
    alike = Scene((_chart("a", A, scale="unit diagonal"), _chart("b", B, scale="unit diagonal")))
    assert _minus(alike, "a", "b").note == "A − B: both unit diagonal."
    unlike = Scene((_chart("a", A, scale="unit diagonal"), _chart("b", B, scale="as computed")))
    assert _minus(unlike, "a", "b").note == (
        "A (unit diagonal) − B (as computed): normalised differently."
    )
    unknown = Scene((_chart("a", A), _chart("b", B)))
    assert _minus(unknown, "a", "b").note == "A − B: both as shown."


def test_other_examples_and_other_sizes_are_refused() -> None:
    scene = Scene((_chart("a", A), _chart("b", B, tags=("dog", "cat"))))
    after = _minus(scene, "a", "b")
    assert after.charts == scene.charts
    assert " A: B " in after.note
    larger = _minus(Scene((_chart("a", A), _chart("b", np.eye(3)))), "a", "b")
    assert " A: B has 3 × 3, not 2 × 2." in larger.note


def test_what_is_gone_is_said() -> None:
    scene = Scene((_chart("a", A),))
    after = _minus(scene, "a", "b")
    assert after.charts == scene.charts
    assert " A: " in after.note


def test_a_matrix_of_another_choice_of_the_panel_can_be_subtracted() -> None:
    layers = {"0": A, "1": B}

    def drawn(option: str, value: str) -> Scene | None:
        return Scene((_chart("layer", layers[value]),)) if option == "part" else None

    after = _minus(drawn("part", "0") or Scene(()), "layer", "layer", "part", "1", drawn_with=drawn)
    np.testing.assert_array_equal(_matrix(after).values, A - B)
    gone = _minus(Scene((_chart("layer", A),)), "layer", "layer", "other", "1", drawn_with=drawn)
    assert " Layer: " in gone.note
    np.testing.assert_array_equal(_matrix(gone).values, A)


def test_whole_numbers_are_subtracted_as_numbers() -> None:
    gates = np.array([[0, 1]], dtype=np.uint8)
    scene = Scene((_chart("a", gates, tags=()), _chart("b", gates[:, ::-1], tags=())))
    np.testing.assert_array_equal(_matrix(_minus(scene, "a", "b")).values, [[-1.0, 1.0]])


def test_equal_matrices_differ_by_zero_in_a_range_that_can_be_drawn() -> None:
    matrix = _matrix(_minus(Scene((_chart("a", A), _chart("b", A))), "a", "b"))
    assert (matrix.low, matrix.high) == (-1.0, 1.0)
