"""What was measured of another network than the one on show is known as such."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dgn_engine.protocol.catalogue import Catalogue, RegimeEntry
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import EngineReady, Event
from dgn_engine.protocol.training import (
    Diverged,
    Measured,
    Paused,
    RegimeSwapped,
    Rewired,
    SettingChanged,
)
from dgn_engine.scene.panel_spec import View
from dgn_engine.views.history import History
from tests.engine.panels.pictures import started_run

BEGUN = started_run((2,), (3,))
SCORED = Measured(8, 1.0, 1.5, 0.5, 1.75, 0.625)
BETA = SettingChanged(8, BEGUN.config.training.learning_rate, 99.0, "image", 0.0)
UNDONE = RegimeSwapped(8, "FL", "DL", (), (), (), (), undone="Undo regime FL", of_step=4)
NPK = Reading("npk", 8, seconds=0.25)


def frame(step: int, *readings: Reading) -> Frame:
    return Frame(1, step, 0.0, 9.0, None, {reading.probe: reading for reading in readings})


def seen(*happened: Event | Frame) -> dict[str, str]:
    """What is outdated after a run has begun and this has happened, and by what."""
    return {name: mark.label for name, mark in view(*happened).outdated.items()}


def view(*happened: Event | Frame) -> View:
    history = History()
    for one in (BEGUN, *happened):
        if isinstance(one, Frame):
            history.on_frame(one)
        else:
            history.on_event(one)
    return history.view({})


SCORES = {"train_loss", "train_accuracy", "test_loss", "test_accuracy"}


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (RegimeSwapped(8, "DL", "FRG", (), (), (), ()), "FRG"),
        (UNDONE, "undo"),
        (WeightsTaken(8, "x.pt", 2), "weights"),
        (Rewired(8, (1, 0)), "π"),
        (BETA, "β 99"),
    ],
)
def test_a_change_while_paused_outdates_scores_and_readings(event: Event, label: str) -> None:
    found = seen(SCORED, frame(8, NPK), Paused(8), event)
    assert found == dict.fromkeys({*SCORES, "npk"}, label)


def test_a_learning_rate_and_divergence_outdate_nothing() -> None:
    rate = replace(BETA, beta=BEGUN.config.gating.beta, learning_rate=9.0)
    assert seen(SCORED, frame(8, NPK), rate, Diverged(9)) == {}


def test_what_is_measured_again_is_of_the_network_on_show() -> None:
    again = replace(NPK, seconds=0.5)
    assert set(seen(SCORED, frame(8, NPK), UNDONE, frame(8, again))) == SCORES
    train_only = Measured(10, 1.25, 1.0, 0.5)
    assert set(seen(SCORED, UNDONE, train_only)) == {"test_loss", "test_accuracy"}
    assert seen(SCORED, UNDONE, replace(SCORED, step=10)) == {}


def test_a_reading_that_is_gone_is_not_outdated() -> None:
    assert "npk" in seen(frame(8, NPK), UNDONE)
    assert "npk" not in seen(frame(8, NPK), UNDONE, frame(9))


def test_a_copy_of_an_old_reading_is_no_new_one() -> None:
    copy = replace(NPK)
    assert "npk" in seen(frame(8, NPK), UNDONE, frame(8, copy))


def test_a_late_frame_brings_what_was_read_before_the_change() -> None:
    assert "npk" in seen(replace(UNDONE, step=9), frame(9, NPK))
    assert "npk" not in seen(UNDONE, frame(9, replace(NPK, step=9)))


DL = RegimeEntry("DL", "", "", own_gates=False, soft=True, trains_feature=True)
FRG = replace(DL, id="FRG", soft=False, trains_feature=False, drawn_gates=True)
READY = EngineReady(Catalogue((DL, FRG), (), (), (), ()), "")


def test_a_regime_with_drawn_gates_is_not_tested() -> None:
    assert view(READY, BEGUN).tested
    swap = RegimeSwapped(8, "DL", "FRG", (), (), (), ())
    assert not view(READY, BEGUN, SCORED, swap).tested
    assert view(READY, BEGUN, SCORED, swap, replace(UNDONE, before="FRG")).tested
