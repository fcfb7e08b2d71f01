"""The state of a run after a sequence of events."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pytest

from dgn_engine.config import GatingConfig, RunConfig
from dgn_engine.protocol.branches import ComparisonClosed, ComparisonOpened
from dgn_engine.protocol.catalogue import Catalogue, RegimeEntry
from dgn_engine.protocol.messages import (
    EngineAnswered,
    EngineReady,
    EngineSilent,
    Event,
    Stopped,
    Working,
)
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import HistoryReplayed, RunShown
from dgn_engine.protocol.training import (
    Diverged,
    Finished,
    Measured,
    Paused,
    RegimeSwapped,
    Rewired,
    Running,
    RunStarted,
    SettingChanged,
    UndoChanged,
)
from dgn_engine.protocol.watching import ProbeSet

REGIMES = (
    RegimeEntry("DL", "DL", "", own_gates=False, soft=True, trains_feature=True),
    RegimeEntry("FL", "FL", "", False, soft=False, trains_feature=False, takes_gates=True),
)
READY = EngineReady(Catalogue(REGIMES, (), (), (), ("cpu",)), "2.13")
STARTED = RunStarted(
    run=1,
    config=RunConfig(),
    regime="DL",
    device="cpu",
    layers=(),
    wiring=(0, 1, 2),
    parameters_value=10,
    parameters_feature=9,
    train_examples=100,
    test_examples=10,
    classes=10,
    steps_per_epoch=10,
    total_steps=0,
    probe_set=ProbeSet((), (), (), ""),
    paused=False,
)
SWAPPED = RegimeSwapped(6, "DL", "FL", (), (), (), (), source="x.pt", parameters_feature=7)
SHOWN = RunShown("20260101-a", "finished", 50)
COMPARED = ComparisonOpened("x.pt", "", "ReLU", ())


def after(*events: Event) -> RunState:
    return reduce(RunState.after, events, RunState())


def test_commands_are_obeyed_once_the_engine_is_ready() -> None:
    assert not RunState().ready
    assert after(READY).ready
    assert not after(READY, Stopped()).ready
    assert after(READY, EngineSilent(12.0)).silent
    assert not after(READY, EngineSilent(12.0), EngineAnswered(60.0)).silent
    assert not after(READY, EngineSilent(12.0), Stopped()).silent


def test_a_run_begins_with_the_settings_of_its_configuration() -> None:
    state = after(READY, STARTED)
    assert (state.phase, state.regime, state.wiring, state.step) == ("running", "DL", (0, 1, 2), 0)
    assert state.current_config() == replace(
        RunConfig(), gating=replace(GatingConfig(), regime="DL", wiring=(0, 1, 2))
    )


def test_a_run_may_begin_paused() -> None:
    assert after(READY, replace(STARTED, paused=True)).phase == "paused"


@pytest.mark.parametrize(
    ("event", "phase"),
    [
        (Running(5), "running"),
        (Paused(5), "paused"),
        (Finished(5), "finished"),
        (Diverged(5), "paused"),
    ],
)
def test_the_phase_and_the_step_are_those_of_the_last_event(event: Event, phase: str) -> None:
    state = after(READY, STARTED, event)
    assert (state.phase, state.step) == (phase, 5)
    assert state.has_run
    assert state.paused is (phase != "running")


def test_every_setting_in_force_is_in_the_current_configuration() -> None:
    config = after(
        READY,
        STARTED,
        SettingChanged(5, 0.01, 9.0, "random", 60.0),
        Rewired(6, (2, 1, 0), (1, 0, 0), (0, 0, 2)),
        SWAPPED,
    ).current_config()
    assert config is not None
    assert (config.training.learning_rate, config.training.pace) == (0.01, 60.0)
    assert (config.gating.beta, config.gating.value_input) == (9.0, "random")
    assert (config.gating.wiring, config.gating.rotation) == ((2, 1, 0), (1, 0, 0))
    assert (config.gating.shift, config.gating.regime) == ((0, 0, 2), "FL")


def test_without_a_run_there_is_no_current_configuration() -> None:
    assert after(READY).current_config() is None


def test_a_swap_says_where_the_gates_are_from_and_how_many_weights_make_them() -> None:
    state = after(READY, STARTED, SWAPPED)
    assert (state.gates_source, state.parameters_feature) == ("x.pt", 7)
    assert state.regime_entry == REGIMES[1]


@pytest.mark.parametrize(("regime", "source"), [("FL", "net.pt"), ("DL", "")])
def test_gates_come_from_the_configured_file_where_the_regime_takes_gates(
    regime: str, source: str
) -> None:
    gating = GatingConfig(regime=regime, gates_from="/tmp/net.pt")
    run = replace(STARTED, regime=regime, config=replace(RunConfig(), gating=gating))
    assert after(READY, run).gates_source == source


def test_another_run_begins_with_nothing_of_the_one_before() -> None:
    before = (SWAPPED, COMPARED, UndoChanged("regime FL"), Diverged(7), SHOWN)
    second = replace(STARTED, run=2)
    assert after(READY, STARTED, *before, second) == after(READY, second)


def test_a_recorded_run_that_is_shown_is_no_run_that_stands() -> None:
    state = after(READY, STARTED, SHOWN)
    assert (state.recorded, state.phase, state.step) == (SHOWN, "paused", 50)
    assert not state.paused


def test_a_replayed_history_counts_event_by_event() -> None:
    history = HistoryReplayed((SWAPPED, Rewired(8, (1, 0, 2))))
    assert after(READY, STARTED, history) == after(READY, STARTED, *history.events)


def test_a_diverged_run_is_sound_again_once_its_weights_are_those_of_before() -> None:
    diverged = after(READY, STARTED, Diverged(7))
    assert diverged.diverged == 7
    assert diverged.after(SWAPPED).diverged == 7
    assert diverged.after(replace(SWAPPED, undone="Undo regime FL")).diverged is None
    assert diverged.looking_back(after(READY, STARTED)).diverged == 7


def test_a_comparison_is_open_until_it_is_closed() -> None:
    assert after(READY, STARTED, COMPARED).comparison == COMPARED
    assert after(READY, STARTED, COMPARED, ComparisonClosed()).comparison is None


def test_what_can_be_undone_is_what_was_said_last() -> None:
    state = after(READY, STARTED, UndoChanged("regime FL", "β"))
    assert (state.undo, state.redo) == ("regime FL", "β")


def test_a_slow_thing_is_named_until_a_run_goes_on() -> None:
    reading = after(READY, Working("Reading mnist", 0.4))
    assert reading.working == "Reading mnist, 40 %"
    assert reading.after(STARTED).working == ""
    slow = after(READY, STARTED, Working("Testing"))
    assert slow.working == "Testing"
    for event in (Running(5), Paused(5), Finished(5), Diverged(5)):
        assert slow.after(event).working == ""
    assert slow.after(Rewired(5, (0,))).working == "Testing"


def test_an_inspected_network_is_no_run() -> None:
    state = after(READY, replace(STARTED, inspected="x.pt", paused=True))
    assert state.inspected == "x.pt"
    assert not state.has_run


def test_an_event_that_changes_nothing_leaves_the_same_object() -> None:
    state = after(READY, STARTED)
    assert state.after(Measured(5, 0.5, 1.0, 0.5)) is state


def test_the_rest_of_an_epoch_is_counted_from_the_step_that_was_reached() -> None:
    assert after(READY, STARTED).at(13).epoch_steps == 7
    assert after(READY, STARTED).at(20).epoch_steps == 10


def test_while_it_trains_the_step_is_that_of_the_newest_frame() -> None:
    assert after(Running(5)).at(7).step == 7


@pytest.mark.parametrize("event", [Paused(6), Finished(6)])
def test_a_frame_from_before_the_end_does_not_turn_the_step_back(event: Event) -> None:
    state = after(Running(0)).at(5).after(event)
    assert state.at(5).step == 6
    assert state.at(6) is state
