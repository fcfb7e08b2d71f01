"""Two marked steps: what every curve has done between them, in the chart and in its figure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.figures.export_values import csv_text
from dgn_engine.scene.delta_cursor import delta_lines, value_at, with_delta
from dgn_engine.scene.elements import Axis, Chart, Curve, Scene

STEPS = np.array([1, 5, 10, 20])
TRAIN = Curve("train", STEPS, np.array([2.0, 1.5, np.nan, 0.5]))
TEST = Curve("test", np.array([10, 20]), np.array([0.8, 0.4]))
LOSS = Chart("loss", "Loss", Axis("step", epoch=10), Axis(), (TRAIN, TEST))
OTHER = Chart("spectrum", "Eigenvalues", Axis("index"), Axis(), (TRAIN,))


@pytest.mark.parametrize(
    ("step", "known"), [(0.0, None), (1.0, 2.0), (4.9, 2.0), (12.0, 1.5), (99.0, 0.5)]
)
def test_a_value_is_the_last_that_was_known(step: float, known: float | None) -> None:
    slow = None
    for x, y in zip(TRAIN.x, TRAIN.y, strict=True):
        if x <= step and np.isfinite(y):
            slow = float(y)
    assert value_at(TRAIN, step) == slow == known


def test_between_two_marks_every_curve_has_a_difference_or_says_that_it_has_none() -> None:
    said = delta_lines(replace(LOSS, delta=(5.0, 20.0)))
    assert said[:2] == ("Δ step +15 (5 → 20)", "train  −1")
    assert not any(letter.isdigit() for letter in said[2])
    back = delta_lines(replace(LOSS, delta=(20.0, 10.0)))
    assert back == ("Δ step −10 (20 → 10)", "train  +1", "test  +0.4")
    powers = replace(LOSS, y=Axis(log=True), delta=(10.0, 20.0))
    assert delta_lines(powers)[2] == "test  −0.4 (×0.5)"
    assert delta_lines(LOSS) == ()


def test_charts_over_steps_carry_the_marks_and_the_note_the_differences() -> None:
    scene = Scene((LOSS, OTHER), note="Cross entropy.")
    shown = with_delta(scene, (5, 20))
    assert [chart.delta for chart in shown.charts] == [(5.0, 20.0), ()]
    assert shown.note.startswith("Δ step +15 (5 → 20). Loss: train  −1, test ")
    assert shown.note.endswith(" Cross entropy.")
    assert with_delta(scene, ()) is scene
    assert with_delta(Scene((OTHER,)), (5, 20)) == Scene((OTHER,))
    assert with_delta(scene, (5,)).note == "Cross entropy."
    behind = with_delta(Scene((OTHER, LOSS)), (5, 20))  # the first chart is not over steps
    assert behind.note == shown.note.removesuffix(" Cross entropy.")
    assert csv_text(shown.charts[0]) == csv_text(LOSS)  # numbers stay as they are
