"""What differs between A and B: settings, and numbers at a step that both have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.config import GatingConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.training import Measured
from dgn_engine.scene.compared import b_name, compared_reading, compared_view, reason_not_compared
from dgn_engine.scene.differences import Difference, Measurement, Side, find_differences
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.panel_spec import ComparedRun, Series, View
from tests.engine.panels.pictures import make_layers, started_run


def series(points: dict[int, float]) -> Series:
    return Series(np.array(list(points), np.int64), np.array(list(points.values()), np.float64))


def test_only_settings_that_differ_are_listed_with_their_words() -> None:
    a = RunConfig(gating=GatingConfig("DL"), training=TrainingConfig(learning_rate=1e-3, pace=5.0))
    gating = replace(a.gating, regime="FR-II", wiring=(1, 0))
    b = replace(a, gating=gating, training=TrainingConfig(learning_rate=0.01), seed=3)
    view = View(regime="DL", compared=ComparedRun("b", regime="FR-II", wiring=(1, 0), config=b))
    found = find_differences(view, a)
    regime, order = (
        Difference("regime", "DL", "FR-II"),
        Difference("gate layers", "in order", "2 1"),
    )
    seed = Difference("seed", "0", "3")
    assert set(found.settings) == {
        *(regime, order, seed),
        Difference("learning rate", "0.001", "0.01"),
    }
    assert view.compared is not None
    assert (
        find_differences(replace(view, compared=replace(view.compared, config=a)), a).settings == ()
    )
    assert (
        find_differences(replace(view, compared=replace(view.compared, config=None)), a).settings
        == ()
    )
    assert find_differences(replace(view, cursor=3), a).settings == found.settings
    # What can be changed while a run trains is not taken from another step than the one shown.
    back = replace(view, compared=replace(view.compared, at=3, config_at=False))
    found = find_differences(back, a)
    assert set(found.settings) == {regime, order, seed}
    assert found.remark


def numbers(row: Difference) -> list[tuple[float, str, int] | None]:
    return [None if one is None else (one.value, one.run, one.step) for one in row.numbers]


def test_numbers_are_of_the_newest_step_that_both_have() -> None:
    a, b = series({1: 1.0, 4: 0.5, 9: 0.25}), series({4: 0.75, 8: 0.6})
    view = View(
        series={("training", "train_loss"): a, ("npk", "nu"): series({3: 10.0, 7: 12.0})},
        compared=ComparedRun(
            "b", series={("training", "train_loss"): b, ("npk", "nu"): series({5: 20.0})}
        ),
    )
    [loss] = find_differences(view, None).scores
    assert (loss.a, loss.b, loss.change, loss.where) == ("0.5", "0.75", "+0.25", "step 4")
    [nu] = find_differences(view, None).scalars
    assert (nu.a, nu.b, nu.change, nu.where) == ("10", "20", "+10", "A 3 · B 5")


def test_two_steps_of_one_run_are_compared_by_its_own_curves() -> None:
    view = View(
        regime="FR-II",
        wiring=(0, 1),
        series={
            ("training", "train_loss"): series({1: 2.0, 4: 0.5, 9: np.nan}),
            ("npk", "nu"): series({5: 20.0}),
        },
        compared=ComparedRun(
            "b", regime="DL", wiring=(1, 0), step=3, own=True, at=3, config_at=False
        ),
    )
    found = find_differences(view, RunConfig())
    assert found.settings == (
        Difference("regime", "FR-II", "DL"),
        Difference("gate layers", "in order", "2 1"),
    )
    assert [numbers(row) for row in found.scores] == [[(0.5, "", 4), (2.0, "", 1)]]
    [nu] = found.scalars  # nothing was measured up to B
    assert (nu.a, nu.b, nu.change) == ("20", "–", "")
    assert nu.why
    back = find_differences(replace(view, cursor=2), None)
    assert [numbers(row) for row in back.scores] == [[(2.0, "", 1), (2.0, "", 1)]]


@pytest.mark.parametrize(
    ("ours", "theirs", "shown"),
    [
        ({}, {1: 1.0}, [None, (1.0, "", 1)]),
        ({5: 1.0}, {1: 1.0}, [None, (1.0, "", 1)]),  # B ends before A begins
        ({1: np.nan, 2: 3.0}, {1: 2.0, 2: 4.0}, [(3.0, "", 2), (4.0, "", 2)]),
        ({3: 1.0, 15: 2.0}, {12: 3.0, 24: 4.0}, [(2.0, "", 15), (3.0, "", 12)]),
        ({2: 1.0, 4: np.nan}, {2: 3.0, 4: 5.0}, [(1.0, "", 2), (3.0, "", 2)]),
    ],
)
def test_two_runs_are_compared_as_far_as_both_have_come(
    ours: dict[int, float], theirs: dict[int, float], shown: list[tuple[float, str, int] | None]
) -> None:
    key = ("training", "train_loss")
    compared = ComparedRun("b", series={key: series(theirs)})
    [row] = find_differences(View(series={key: series(ours)}, compared=compared), None).scores
    assert numbers(row) == shown


@pytest.mark.parametrize(("step", "run_", "said"), [(3, "a", ""), (4, "a", "4"), (3, "b", "run")])
def test_a_number_of_a_later_step_or_another_run_is_none_of_this_side(
    step: int, run_: str, said: str
) -> None:
    number = Measurement(0.5, run_, step, ("training", "train_loss"))
    reason = Side("B", "x", "a", at=3).reason_against(number, "train loss", 3)
    assert (said in reason, bool(reason)) == (True, bool(said))


def test_shares_are_percent_and_their_difference_is_in_points() -> None:
    view = View(
        series={("training", "test_accuracy"): series({10: 0.9})},
        compared=ComparedRun("b", series={("training", "test_accuracy"): series({10: 0.85})}),
    )
    row = find_differences(view, None).scores[0]
    assert (row.a, row.b, row.change) == ("90.00 %", "85.00 %", "−5.00")


# The compared network (B): its name, its view, and why it is not shown.

READING = Reading("gates", 3)
RECORDED = {("training", "test_loss"): series({1: 2.0})}
OTHER = ComparedRun(
    "other.pt", "ReLU", make_layers((4,), (5,)), (1, 0), 3, {"gates": READING}, RECORDED
)
VIEW = View(
    run=started_run((2,), (3,)),
    regime="DL",
    wiring=(0, 1),
    step=7,
    readings={"npk": Reading("npk", 7)},
    series={("training", "train_loss"): series({1: 3.0})},
    marks=(Mark(1.0, "FL"),),
    last=Measured(6, 1.0, 0.5, 0.5),
    choices={"layer": "1"},
    paused=True,
    diverged=5,
    compared=OTHER,
)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a$b.pt", "B · a_b.pt"),
        ("unchanged from step 12,345", "B · unchanged from step 12,345"),
        ("abcdefghijklmnopqrstuvwxyz123", "B · abcdefghijklm…pqrstuvwxyz123"),
    ],
)
def test_a_long_name_is_cut_in_its_middle(name: str, shown: str) -> None:
    assert b_name(ComparedRun(name)) == shown


def test_the_view_of_b_has_what_is_of_the_examples_from_the_run_and_the_rest_from_b() -> None:
    run_ = VIEW.run
    assert run_ is not None
    assert compared_view(VIEW) == replace(
        VIEW,
        run=replace(run_, layers=OTHER.layers),
        regime="ReLU",
        wiring=(1, 0),
        step=3,
        readings={"gates": READING},
        series=RECORDED,
        marks=(),
        compared=None,
    )
    without = compared_view(replace(VIEW, run=None))
    assert without is not None
    assert without.run is None
    assert compared_view(replace(VIEW, compared=None)) is None


def test_an_absent_reading_of_b_is_none() -> None:
    assert compared_reading(VIEW, "gates") is READING
    assert compared_reading(VIEW, "npk") is None
    assert compared_reading(replace(VIEW, compared=None), "gates") is None
    absent = replace(OTHER, readings={"gates": replace(READING, absent="Too dear.")})
    assert compared_reading(replace(VIEW, compared=absent), "gates") is None
    assert reason_not_compared(replace(VIEW, compared=absent), "gates") == "B · other.pt: Too dear."


def test_why_b_is_not_shown() -> None:
    assert reason_not_compared(replace(VIEW, compared=None), "gates") == ""
    assert reason_not_compared(VIEW, "gates") == ""
    assert reason_not_compared(VIEW, "npk") == "B · other.pt: no reading yet."
    scores_alone = replace(OTHER, layers=())
    assert reason_not_compared(replace(VIEW, compared=scores_alone), "npk") == ""
