"""What differs between A and B: settings, and numbers at a step that both have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.config import GatingConfig, RunConfig, TrainingConfig
from dgn_viewer.scene.differences import Difference, common_values, differences
from dgn_viewer.scene.panel_spec import ComparedRun, Series, View


def series(points: dict[int, float]) -> Series:
    return Series(np.array(list(points), np.int64), np.array(list(points.values()), np.float64))


def test_only_settings_that_differ_are_listed_with_their_words() -> None:
    a = RunConfig(gating=GatingConfig("DL"), training=TrainingConfig(learning_rate=1e-3, pace=5.0))
    gating = replace(a.gating, regime="FR-II", wiring=(1, 0))
    b = replace(a, gating=gating, training=TrainingConfig(learning_rate=0.01), seed=3)
    found = differences(View(), a, b)
    assert set(found.settings) == {
        Difference("regime", "DL", "FR-II"),
        Difference("learning rate", "0.001", "0.01"),
        Difference("gate layers", "in order", "2 1"),
        Difference("seed", "0", "3"),
    }
    assert differences(View(), a, a).settings == ()
    assert differences(View(), a, None).settings == ()


def test_numbers_are_of_the_newest_step_that_both_have() -> None:
    a, b = series({1: 1.0, 4: 0.5, 9: 0.25}), series({4: 0.75, 8: 0.6})
    assert common_values(a, b) == ((4, 0.5), (4, 0.75))
    view = View(
        series={("training", "train_loss"): a, ("npk", "nu"): series({3: 10.0, 7: 12.0})},
        compared=ComparedRun("b", series={
            ("training", "train_loss"): b, ("npk", "nu"): series({5: 20.0}),
        }),
    )  # fmt: skip
    found = differences(view, None, None)
    assert found.scores == (Difference("train loss", "0.5", "0.75", "+0.25", "step 4"),)
    where = "A 3 · B 5"
    assert found.scalars == (Difference("ν of the path kernel", "10", "20", "+10", where),)


def test_two_steps_of_one_run_are_compared_by_its_own_curves() -> None:
    view = View(
        regime="FR-II",
        wiring=(0, 1),
        series={
            ("training", "train_loss"): series({1: 2.0, 4: 0.5, 9: np.nan}),
            ("npk", "nu"): series({5: 20.0}),
        },
        compared=ComparedRun("b", regime="DL", wiring=(1, 0), step=3, own=True),
    )
    found = differences(view, RunConfig(), RunConfig(seed=4))
    assert found.settings == (
        Difference("regime", "FR-II", "DL"),
        Difference("gate layers", "in order", "2 1"),
    )
    assert found.scores == (Difference("train loss", "0.5", "2", "+1.5", "A 4 · B 1"),)
    assert found.scalars == ()  # nothing was measured up to B
    back = differences(replace(view, cursor=2), None, None)
    assert back.scores == (Difference("train loss", "2", "2", "+0", "step 1"),)


def test_where_one_has_nothing_there_is_no_row() -> None:
    assert common_values(series({}), series({1: 1.0})) is None
    assert common_values(series({5: 1.0}), series({1: 1.0})) is None  # B ends before A begins
    assert common_values(series({1: np.nan, 2: 3.0}), series({1: 2.0, 2: 4.0})) == (
        (2, 3.0),
        (2, 4.0),
    )


def test_shares_are_percent_and_their_difference_is_in_points() -> None:
    view = View(
        series={("training", "test_accuracy"): series({10: 0.9})},
        compared=ComparedRun("b", series={("training", "test_accuracy"): series({10: 0.85})}),
    )
    row = differences(view, None, None).scores[0]
    assert (row.a, row.b, row.change) == ("90.00 %", "85.00 %", "−5.00")
