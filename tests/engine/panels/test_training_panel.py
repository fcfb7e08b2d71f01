"""The panel 'Training': its axes, its facts, and what it says of scores of another network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.config import RunConfig, TrainingConfig
from dgn_engine.scene.chart_settings import ChartSettings, apply_chart_settings
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.panel_spec import ComparedRun, View
from dgn_engine.scene.readout import describe_point
from tests.engine.panels.known_readings import BOTH, A
from tests.engine.panels.pictures import (
    B,
    assert_same,
    draw_scene,
    find_chart,
    make_layers,
    make_series,
    read_points,
    started_run,
    with_choices,
    with_compared,
)


def losses(*values: float) -> View:
    found = make_series(list(range(1, len(values) + 1)), list(values))
    return replace(A, series={("training", "train_loss"): found}, marks=())


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ((2.0, 0.5, 0.0021), False),  # less than three decades
        ((2.0, 0.5, 0.0019), True),
        ((2.0, 0.5, 0.0019, float("nan")), True),
        ((1.0, 1.0, 1.0, 90.0), False),
        ((1.0, 1.0, 1.0, 110.0), True),  # it ends far above the others
        ((110.0, 1.0, 1.0, 1.0), False),  # it only began there
        ((0.0, 0.0, 1.0), False),  # a logarithm of 0 there is none of
    ],
)
def test_the_loss_axis_is_logarithmic_while_losses_span_decades(
    values: tuple[float, ...], log: bool
) -> None:
    view = losses(*values)
    assert find_chart(draw_scene("training", view), "loss").y.log == log
    assert ("log" in find_chart(draw_scene("training", view), "loss").title) == log
    for scale in ("linear", "log"):  # the user's own choice stays
        assert find_chart(
            draw_scene("training", with_choices(view, scale=scale)), "loss"
        ).y.log == (scale == "log")
    shown = apply_chart_settings(
        draw_scene("training", view), {"loss": ChartSettings(log_y=not log)}
    )
    assert find_chart(shown, "loss").y.log == (not log)
    assert find_chart(shown, "loss").title == ("Loss" if log else "Loss (log)")


def test_a_lone_huge_loss_lies_beyond_the_axis_and_is_counted() -> None:
    scene = draw_scene("training", losses(2.0, 1.5, 1.25, 1e9))
    y = find_chart(scene, "loss").y
    assert not y.log
    assert y.limits is not None
    assert 2.0 < y.limits[1] < 3.0
    assert scene.note.startswith("1 loss ")
    assert "1×10⁹" in scene.note
    two = draw_scene("training", losses(*[2.0] * 60, 1e9, 1e9, *[1.25] * 60)).note
    assert two.startswith("2 losses ")
    whole = draw_scene("training", with_choices(losses(2.0, 1.5, 1.25, 1e9), scale="linear"))
    assert find_chart(whole, "loss").y.limits is None
    assert "10⁹" not in whole.note
    rest = draw_scene("training", losses(2.0, 1.5, 1e-4, 1e9))  # two axes of the same kind
    assert find_chart(rest, "loss").y.log


def test_the_axis_is_chosen_by_what_is_in_view() -> None:
    scene = draw_scene("training", losses(2.0, 0.001, 0.0011, 0.0012, 0.001))
    assert find_chart(scene, "loss").y.log
    end = apply_chart_settings(scene, {"loss": ChartSettings(last=3)})
    assert not find_chart(end, "loss").y.log


def test_of_a_compared_network_without_scores_nothing_is_drawn() -> None:
    network = ComparedRun("b", "ReLU", make_layers((2,)))
    scene, alone = draw_scene("training", with_compared(A, network)), draw_scene("training", A)
    assert_same(scene.charts, alone.charts)
    assert [fact.value for fact in scene.facts] == [f"A {f.value} | B –" for f in alone.facts]
    assert B in draw_scene("training", BOTH).note


def test_the_cursor_reads_the_nearest_points_and_the_marks_near_it() -> None:
    loss = find_chart(
        draw_scene("training", replace(A, marks=(Mark(2.0, "FL"), Mark(5.0, "π")))), "loss"
    )
    assert read_points(loss, (0.0, 0.0), (3.0, 9.0), (3.1, 0.0), (4.6, 0.0), (100.0, 0.0)) == [
        ("step 2", "train  2.5", "test  2"),
        ("step 3", "train  2.5", "test  2"),
        ("step 3", "train  1.25", "test  2"),
        ("step 4", "train  1.25", "test  1.5"),
        ("step 6", "train  0.75", "test  1.5"),
    ]
    assert describe_point(loss, 4.0, 0.0, near=1.0)[3:] == ("step 5: π",)
    assert describe_point(loss, 3.5, 0.0, near=1.5)[-2:] == ("step 2: FL", "step 5: π")


def first_score(**changes: float) -> View:
    values = {"train_loss": 2.5, "train_accuracy": 0.25} | changes
    recorded = {("training", name): make_series([1], [value]) for name, value in values.items()}
    return replace(A, series=recorded, marks=())


def test_a_first_score_is_a_point_in_the_middle_of_four_steps() -> None:
    scene = draw_scene("training", first_score())
    loss = find_chart(scene, "loss")
    assert loss.x.limits == (0.0, 4.0)
    assert [curve.marker for curve in loss.curves] == [True]
    assert scene.step == 1
    assert [fact.name for fact in scene.facts] == ["train loss"]


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        ((0.25, 0.25), (24.0, 26.0)),  # one percentage point of air at the least
        ((0.0, 1.0), (-1.0, 101.0)),  # never far beyond what is possible
        ((0.5, 0.9), (47.6, 92.4)),  # 6 % of 40
    ],
)
def test_accuracies_have_a_little_air(
    values: tuple[float, float], limits: tuple[float, float]
) -> None:
    view = replace(A, series={("training", "train_accuracy"): make_series([1, 2], list(values))})
    assert find_chart(draw_scene("training", view), "accuracy").y.limits == pytest.approx(limits)


def test_the_loss_is_named_as_it_is_configured() -> None:
    config = RunConfig(training=TrainingConfig(loss="squared"))
    assert draw_scene("training", replace(A, run=started_run((2,), config=config))).note.startswith(
        "Squared "
    )
    assert draw_scene("training", A).note.startswith("Cross entropy ")
    assert draw_scene("training", replace(A, run=None)).note == ""


def test_one_of_both_scores_is_enough() -> None:
    one = draw_scene(
        "training", replace(A, series={("training", "test_loss"): make_series([2], [3.0])})
    )
    assert [len(each.curves) for each in one.charts] == [1, 0]
    assert find_chart(one, "accuracy").y.limits is None
    assert one.facts == ()


def facts(view: View) -> dict[str, str]:
    return {fact.name: fact.value for fact in draw_scene("training", view).facts}


def test_a_score_of_another_network_says_what_came_after_it() -> None:
    undo = Mark(8.0, "undo", "undo")
    stale = facts(replace(A, outdated={"test_accuracy": undo}))
    assert stale["test"] == "35.00 %, before undo"
    assert (stale["best"], stale["train loss"]) == ("40.00 %", "0.75")
    assert facts(replace(A, outdated={"train_loss": undo}))["train loss"] == "0.75, before undo"
    assert "at step 6" in draw_scene("training", A).facts[0].about
    assert "at step 3" in draw_scene("training", A).facts[1].about  # the best


def test_a_regime_without_test_examples_says_so_and_names_the_last_score() -> None:
    swap = Mark(8.0, "FRG")
    scene = draw_scene(
        "training", replace(A, regime="FRG", tested=False, outdated={"test_accuracy": swap})
    )
    assert (scene.facts[0].name, scene.facts[0].value) == ("test", "none in FRG")
    assert "35.00 % at step 6, before FRG" in scene.facts[0].about
    assert facts(replace(first_score(), regime="FRG", tested=False))["test"] == "none in FRG"


def test_a_loss_that_is_no_number_is_called_so() -> None:
    assert facts(first_score(train_loss=float("nan")))["train loss"] == "not finite"
    nothing = np.full(2, np.nan)
    lost = {key: replace(one, values=nothing, steps=one.steps[:2]) for key, one in A.series.items()}
    assert facts(replace(A, series=lost)) == {
        "test": "–",
        "best": "–",
        "train loss": "not finite",
    }
