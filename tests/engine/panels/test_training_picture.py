"""The picture of the panel 'Training', worked out by hand from small series."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.config import RunConfig, TrainingConfig
from dgn_engine.scene.chart_settings import ChartSettings, adjusted
from dgn_engine.scene.elements import Axis, Chart, Curve, Fact, Mark, Scene
from dgn_engine.scene.panel_spec import ComparedRun, View
from dgn_engine.scene.readout import describe
from tests.engine.panels.pictures import (
    EPOCH,
    B,
    assert_same,
    beside,
    chart,
    chosen,
    drawn,
    exported,
    layers,
    readouts,
    reason,
    run,
    series,
    table,
)

MARKS = (Mark(2.0, "FL"), Mark(5.0, "π"))
VIEW = View(
    run=run((2,), (3,)),
    regime="FL",
    wiring=(0, 1),
    step=8,
    marks=MARKS,
    series={
        ("training", "train_loss"): series([2, 4, 6], [2.5, 1.25, 0.75]),
        ("training", "train_accuracy"): series([2, 4, 6], [0.25, 0.5, 0.625]),
        ("training", "test_loss"): series([3, 6], [2.0, 1.5]),
        ("training", "test_accuracy"): series([3, 6], [0.4, 0.35]),
        ("ntk", "trace_value"): series([1, 7], [3.0, 4.0]),
    },
)
OTHER = ComparedRun(
    "other.pt",
    "ReLU",
    layers((2,), (3,)),
    (0, 1),
    9,
    series={
        ("training", "test_loss"): series([5, 9], [1.75, 1.0]),
        ("training", "test_accuracy"): series([5, 9], [0.55, 0.9]),
    },
)
LOSS = (
    Curve("train", np.array([2, 4, 6]), np.array([2.5, 1.25, 0.75]), "muted"),
    Curve("test", np.array([3, 6]), np.array([2.0, 1.5]), "accent", thick=True),
)
ACCURACY = (
    Curve("train", np.array([2, 4, 6]), np.array([25.0, 50.0, 62.5]), "muted"),
    Curve("test", np.array([3, 6]), np.array([40.0, 35.0]), "accent", thick=True),
)
FACTS = (
    Fact("test", "35.00 % at step 6", "Accuracy on the whole test set."),
    Fact("best", "40.00 %", "Best test accuracy of this run so far, at step 3."),
    Fact("train loss", "0.75", "Mean loss over the training batches since the last measurement."),
)
NOTE = "Cross entropy loss; train: mean over batches, test: the whole test set."


def picture(
    reach: float,
    loss: tuple[Curve, ...],
    accuracy: tuple[Curve, ...],
    limits: tuple[float, float],
    log: bool = False,
    note: str = NOTE,
    by_span: bool = True,
) -> Scene:
    steps = Axis(label="step", limits=(0.0, reach), epoch=EPOCH)
    return Scene(
        charts=(
            Chart(
                key="loss",
                title="Loss (log)" if log else "Loss",
                x=steps,
                y=Axis(log=log, by_span=by_span),
                curves=loss,
                marks=MARKS,
                narrow=(0, 0, 1, 1),
            ),
            Chart(
                key="accuracy",
                title="Accuracy, %",
                x=steps,
                y=Axis(limits=limits),
                curves=accuracy,
                marks=MARKS,
                column=1,
                narrow=(1, 0, 1, 1),
            ),
        ),
        facts=FACTS,
        step=6,
        note=note,
    )


def test_scores_are_drawn_with_air_around_the_accuracies() -> None:
    # 25 % to 62.5 %: 6 % of 37.5 is 2.25.
    assert_same(drawn("training", VIEW), picture(6.0, LOSS, ACCURACY, (22.75, 64.75)))


def test_the_loss_may_have_a_logarithmic_axis() -> None:
    expected = picture(6.0, LOSS, ACCURACY, (22.75, 64.75), log=True, by_span=False)
    assert_same(drawn("training", chosen(VIEW, scale="log")), expected)


def losses(*values: float) -> View:
    found = series(list(range(1, len(values) + 1)), list(values))
    return replace(VIEW, series={("training", "train_loss"): found}, marks=())


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
    assert chart(drawn("training", view), "loss").y.log == log
    assert ("log" in chart(drawn("training", view), "loss").title) == log
    for scale in ("linear", "log"):  # the user's own choice stays
        assert chart(drawn("training", chosen(view, scale=scale)), "loss").y.log == (scale == "log")
    shown = adjusted(drawn("training", view), {"loss": ChartSettings(log_y=not log)})
    assert chart(shown, "loss").y.log == (not log)
    assert chart(shown, "loss").title == ("Loss" if log else "Loss (log)")


def test_a_lone_huge_loss_lies_beyond_the_axis_and_is_counted() -> None:
    scene = drawn("training", losses(2.0, 1.5, 1.25, 1e9))
    y = chart(scene, "loss").y
    assert not y.log
    assert y.limits is not None
    assert 2.0 < y.limits[1] < 3.0
    assert scene.note.startswith("1 loss above the axis, up to 1×10⁹. ")
    whole = drawn("training", chosen(losses(2.0, 1.5, 1.25, 1e9), scale="linear"))
    assert chart(whole, "loss").y.limits is None
    assert "above" not in whole.note
    rest = drawn("training", losses(2.0, 1.5, 1e-4, 1e9))  # two axes of the same kind
    assert chart(rest, "loss").y.log


def test_the_axis_is_chosen_by_what_is_in_view() -> None:
    scene = drawn("training", losses(2.0, 0.001, 0.0011, 0.0012, 0.001))
    assert chart(scene, "loss").y.log
    end = adjusted(scene, {"loss": ChartSettings(last=3)})
    assert not chart(end, "loss").y.log


def test_the_scores_of_b_are_dashed_and_lie_under_those_of_the_run() -> None:
    steps = np.array([5, 9])
    b_loss = Curve("B test", steps, np.array([1.75, 1.0]), "compared", "dash", thick=True)
    b_accuracy = Curve("B test", steps, np.array([55.0, 90.0]), "compared", "dash", thick=True)
    expected = picture(  # 25 % to 90 %: 6 % of 65 is 3.9
        9.0, (b_loss, *LOSS), (b_accuracy, *ACCURACY), (21.1, 93.9), note=f"{NOTE} Dashed: {B}."
    )
    assert_same(drawn("training", beside(VIEW, OTHER)), expected)


def test_a_compared_network_without_scores_changes_nothing() -> None:
    beside_file = beside(VIEW, ComparedRun("other.pt", "ReLU", layers((2,))))
    assert_same(drawn("training", beside_file), picture(6.0, LOSS, ACCURACY, (22.75, 64.75)))


def test_the_cursor_reads_the_nearest_points_and_the_marks_near_it() -> None:
    loss = chart(drawn("training", VIEW), "loss")
    assert readouts(loss, (0.0, 0.0), (3.0, 9.0), (3.1, 0.0), (4.6, 0.0), (100.0, 0.0)) == [
        ("step 2", "train  2.5", "test  2"),
        ("step 3", "train  2.5", "test  2"),
        ("step 3", "train  1.25", "test  2"),
        ("step 4", "train  1.25", "test  1.5"),
        ("step 6", "train  0.75", "test  1.5"),
    ]
    assert describe(loss, 4.0, 0.0, near=1.0) == ("step 4", "train  1.25", "test  2", "step 5: π")
    assert describe(loss, 3.5, 0.0, near=1.5)[-2:] == ("step 2: FL", "step 5: π")


def test_the_exported_table_names_the_quantity_of_each_column() -> None:
    scene = drawn("training", VIEW)
    assert table(chart(scene, "accuracy")) == [
        ["curve", "step", "Accuracy, %"],
        ["train", "2", "25.0"],
        ["train", "4", "50.0"],
        ["train", "6", "62.5"],
        ["test", "3", "40.0"],
        ["test", "6", "35.0"],
    ]
    assert exported(scene) == {
        "loss.axes": ["step", "Loss"],
        "loss.train.x": (3,),
        "loss.train.y": (3,),
        "loss.test.x": (2,),
        "loss.test.y": (2,),
        "accuracy.axes": ["step", "Accuracy, %"],
        "accuracy.train.x": (3,),
        "accuracy.train.y": (3,),
        "accuracy.test.x": (2,),
        "accuracy.test.y": (2,),
    }


def first_score(**changes: float) -> View:
    values = {"train_loss": 2.5, "train_accuracy": 0.25} | changes
    recorded = {("training", name): series([1], [value]) for name, value in values.items()}
    return replace(VIEW, series=recorded, marks=())


def test_a_first_score_is_a_point_in_the_middle_of_four_steps() -> None:
    scene = drawn("training", first_score())
    loss = chart(scene, "loss")
    assert loss.x.limits == (0.0, 4.0)
    assert_same(
        loss.curves, (Curve("train", np.array([1]), np.array([2.5]), "muted", marker=True),)
    )
    assert scene.step == 1
    assert [fact.name for fact in scene.facts] == ["train loss"]


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        ((0.25, 0.25), (24.0, 26.0)),  # one percentage point of air at the least
        ((0.0, 1.0), (-1.0, 101.0)),  # never far beyond what is possible
        ((0.5, 0.9), (47.6, 92.4)),
    ],
)
def test_accuracies_have_a_little_air(
    values: tuple[float, float], limits: tuple[float, float]
) -> None:
    view = replace(VIEW, series={("training", "train_accuracy"): series([1, 2], list(values))})
    assert chart(drawn("training", view), "accuracy").y.limits == pytest.approx(limits)


def test_the_loss_is_named_as_it_is_configured() -> None:
    config = RunConfig(training=TrainingConfig(loss="squared"))
    note = drawn("training", replace(VIEW, run=run((2,), config=config))).note
    assert note.startswith("Squared loss; train: mean")
    assert drawn("training", replace(VIEW, run=None)).note == ""


def test_without_scores_the_panel_says_what_will_come() -> None:
    nothing = "Loss and accuracy on training batches and on the test set, from step 1 on."
    assert reason("training", replace(VIEW, series={})) == nothing
    no_points = {("training", "test_loss"): series([], [])}
    assert reason("training", replace(VIEW, series=no_points)) == nothing
    inspected = replace(run((2,)), inspected="x.pt")
    assert reason("training", replace(VIEW, run=inspected)) == (
        "x.pt is inspected, not trained: it has no curves here."
    )
    # One of the two is enough.
    one = drawn("training", replace(VIEW, series={("training", "test_loss"): series([2], [3.0])}))
    assert [len(each.curves) for each in one.charts] == [1, 0]
    assert chart(one, "accuracy").y.limits is None
    assert one.facts == ()


def facts(view: View) -> dict[str, str]:
    return {fact.name: fact.value for fact in drawn("training", view).facts}


def test_a_score_of_another_network_says_what_came_after_it() -> None:
    undo = Mark(8.0, "undo", "undo")
    stale = replace(VIEW, outdated={"test_accuracy": undo})
    assert facts(stale) == {
        "test": "35.00 % at step 6, before undo",
        "best": "40.00 %",
        "train loss": "0.75",
    }
    assert facts(replace(VIEW, outdated={"train_loss": undo}))["train loss"] == "0.75, before undo"


def test_a_regime_without_test_examples_says_so_and_names_the_last_score() -> None:
    swap = Mark(8.0, "FRG")
    scene = drawn(
        "training", replace(VIEW, regime="FRG", tested=False, outdated={"test_accuracy": swap})
    )
    test = scene.facts[0]
    assert (test.name, test.value) == ("test", "none in FRG")
    assert test.about.endswith("nothing is tested. The last one: 35.00 % at step 6, before FRG.")
    assert facts(replace(first_score(), regime="FRG", tested=False))["test"] == "none in FRG"


def test_a_loss_that_is_no_number_is_called_so() -> None:
    assert facts(first_score(train_loss=float("nan")))["train loss"] == "not finite"
