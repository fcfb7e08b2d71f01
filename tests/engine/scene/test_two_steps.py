"""What a panel does not compare by itself is put together of its scenes at two steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.figures.export_values import csv_text
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.training import LayerInfo
from dgn_engine.scene.axes import chart_range
from dgn_engine.scene.delta_cursor import delta_lines, value_at, with_delta
from dgn_engine.scene.elements import Axis, Chart, Curve, Fact, Matrix, Ramp, Scene
from dgn_engine.scene.gate_agreement import MEANS, gate_agreement
from dgn_engine.scene.scatter import scatter_curve
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
    return replace(curves(), curves=(scatter_curve("cloud", AT * reach, AT, "accent"),))


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


# The gates of two recorded steps against each other: gate by gate, or refused.

LAYERS = (LayerInfo(0, "dense 1", "dense", (4,)), LayerInfo(1, "dense 2", "dense", (3,)))
CONV = (LayerInfo(0, "conv 1", "conv", (4, 5, 5)), LAYERS[1])


def gates(seed: int, step: int = 7) -> Reading:
    generator = np.random.default_rng(seed)
    hard = generator.integers(0, 2, (6, 4)).astype(np.uint8)
    soft = generator.random((6, 3), dtype=np.float32)
    labels = np.arange(6)
    return Reading("gates", step, arrays={"labels": labels, "layer_0": hard, "layer_1": soft})


def test_each_gate_is_counted_on_its_side_of_a_half() -> None:
    ours, theirs = gates(1), gates(2, step=9)
    found = gate_agreement(ours, theirs, (LAYERS, LAYERS))
    whole = 0
    for layer in range(2):
        a, b = (reading.arrays[f"layer_{layer}"] for reading in (ours, theirs))
        width = a.shape[1]
        same = sum(
            (a[row, unit] >= 0.5) == (b[row, unit] >= 0.5)
            for row in range(6)
            for unit in range(width)
        )
        whole += same
        chance = 0.0
        for unit in range(width):
            p, q = ((g[:, unit] >= 0.5).mean() for g in (a, b))
            chance += (p * q + (1 - p) * (1 - q)) / width
        assert found.arrays["equal"][layer] == pytest.approx(same / (6 * width))
        assert found.arrays["chance"][layer] == pytest.approx(chance)
        xor = (a >= 0.5) ^ (b >= 0.5)
        np.testing.assert_array_equal(np.abs(found.arrays[f"difference_{layer}"]), xor)
    assert found.scalars["equal"] == pytest.approx(whole / 42)
    assert found.step == 7  # of A; B's name says its own


def test_of_a_convolution_the_means_are_subtracted_and_no_share_is_made_up() -> None:
    ours, theirs = gates(1), gates(2)
    found = gate_agreement(ours, theirs, (CONV, CONV))
    slow = np.array(ours.arrays["layer_0"], float) - np.array(theirs.arrays["layer_0"], float)
    np.testing.assert_array_equal(found.arrays["difference_0"], slow)
    assert np.isnan(found.arrays["equal"][0])
    assert "equal_0" not in found.scalars
    assert found.facts == {"differences": MEANS}
    alone = gate_agreement(ours, theirs, (CONV[:1], CONV[:1]))
    assert "equal" not in alone.scalars


@pytest.mark.parametrize(
    ("theirs", "layers", "said"),
    [
        (None, LAYERS, " B: "),
        (Reading("gates", 1, absent="Not recorded."), LAYERS, " B: Not recorded."),
        (replace(gates(2), arrays=gates(2).arrays | {"labels": np.zeros(6)}), LAYERS, " examples."),
        (gates(2), (LAYERS[1], LAYERS[0]), " shape."),
    ],
)
def test_what_does_not_belong_together_is_refused_in_a_sentence(
    theirs: Reading | None, layers: tuple[LayerInfo, ...], said: str
) -> None:
    found = gate_agreement(gates(1), theirs, (LAYERS, layers))
    assert said in found.absent
    assert not found.arrays


# Two marked steps: what every curve has done between them, in the chart and in its figure.

REACHED = np.array([1, 5, 10, 20])
TRAIN = Curve("train", REACHED, np.array([2.0, 1.5, np.nan, 0.5]))
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
