"""Whole sequences of events, folded into a state that is written out field by field."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pytest

from dgn_engine.config import GatingConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.branches import ComparisonClosed, ComparisonOpened
from dgn_engine.protocol.catalogue import Catalogue, RegimeEntry
from dgn_engine.protocol.files import WeightsTaken
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
    SettingChanged,
    UndoChanged,
)
from tests.engine.views.begun_run import make_run_started

CATALOGUE = Catalogue(
    (
        RegimeEntry("DL", "DL", "", own_gates=False, soft=True, trains_feature=True),
        RegimeEntry("FL", "FL", "", False, soft=False, trains_feature=False, takes_gates=True),
        RegimeEntry("ReLU", "ReLU", "", own_gates=True, soft=False, trains_feature=False),
    ),
    (),
    (),
    (),
    ("cpu",),
)
READY = EngineReady(CATALOGUE, "2.13")
CONFIG = RunConfig(
    gating=GatingConfig(regime="DL", beta=4.0, value_input="ones", gates_from="/data/net.pt"),
    training=TrainingConfig(learning_rate=0.25, pace=30.0),
)
BEGUN = replace(
    make_run_started(layers=()),
    run=3,
    config=CONFIG,
    wiring=(0, 1, 2),
    parameters_feature=9,
    steps_per_epoch=12,
    rotation=(0, 1, 0),
    shift=(2, 0, 0),
)
SETTINGS = SettingChanged(0, 0.25, 4.0, "ones", 30.0)
STATE = RunState(  # READY, BEGUN
    phase="running",
    catalogue=CATALOGUE,
    run=BEGUN,
    regime="DL",
    wiring=(0, 1, 2),
    rotation=(0, 1, 0),
    shift=(2, 0, 0),
    settings=SETTINGS,
    parameters_feature=9,
    probe_examples=64,
)
TO_FL = RegimeSwapped(5, "DL", "FL", (), (), (), (), source="net.pt", parameters_feature=7)
BACK = RegimeSwapped(8, "FL", "DL", (), (), (), (), parameters_feature=9)
OPENED = ComparisonOpened("x.pt", "", "ReLU", ())
SHOWN = RunShown("20260101-a", "finished", 50, "a.dgn", replaced="/runs/b")


def after(*events: Event) -> RunState:
    return reduce(RunState.after, events, RunState())


def begun(*events: Event) -> RunState:
    return after(READY, BEGUN, *events)


def test_nothing_has_happened() -> None:
    assert RunState() == RunState(
        "starting", None, None, "", (), (), (), None, "", 0, 0, "", None, None, None, None, "", ""
    )
    assert after(READY) == RunState(phase="idle", catalogue=CATALOGUE)


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ((), STATE),
        ((TO_FL,), replace(STATE, regime="FL", gates_source="net.pt", parameters_feature=7)),
        ((TO_FL, BACK), STATE),
        (
            (Rewired(4, (1, 0, 2), (0, 3, 0)), Rewired(6, (1, 2, 0))),
            replace(STATE, wiring=(1, 2, 0), rotation=(), shift=()),
        ),
        (
            (SettingChanged(3, 0.5, 4.0, "image", 0.0), SettingChanged(9, 0.5, 6.0, "image", 0.0)),
            replace(STATE, settings=SettingChanged(9, 0.5, 6.0, "image", 0.0)),
        ),
        ((UndoChanged("FL"), UndoChanged("", "FL")), replace(STATE, redo="FL")),
        (
            (Working("Saving"), Paused(14)),
            replace(STATE, phase="paused", step=14),
        ),
        (
            (Paused(14), Working("Saving", 0.5)),
            replace(STATE, phase="paused", step=14, working="Saving, 50 %"),
        ),
        ((Paused(14), Running(14)), replace(STATE, step=14)),
        ((Finished(24),), replace(STATE, phase="finished", step=24)),
        ((Working("Saving"), Finished(24), Running(24)), replace(STATE, step=24)),
        (
            (Working("Saving"), Diverged(7)),
            replace(STATE, phase="paused", step=7, diverged=7),
        ),
        ((Diverged(7), Running(7)), replace(STATE, step=7, diverged=7)),
        (
            (Diverged(7), replace(BACK, undone="Undo FL", source="net.pt")),
            replace(STATE, phase="paused", step=7, gates_source="net.pt"),
        ),
        ((OPENED,), replace(STATE, comparison=OPENED)),
        ((OPENED, ComparisonClosed("It is gone.")), STATE),
        ((OPENED, replace(BEGUN, run=4)), replace(STATE, run=replace(BEGUN, run=4))),
        ((SHOWN,), replace(STATE, recorded=SHOWN, phase="paused", step=50)),
        ((SHOWN, Running(50)), replace(STATE, recorded=SHOWN, step=50)),
        ((SHOWN, BEGUN), STATE),
        ((Paused(14), replace(BEGUN, run=4)), replace(STATE, run=replace(BEGUN, run=4))),
        (
            (replace(BEGUN, paused=True),),
            replace(STATE, phase="paused", run=replace(BEGUN, paused=True)),
        ),
        (
            (HistoryReplayed((TO_FL, Rewired(6, (1, 2, 0)))), OPENED),
            replace(
                STATE,
                regime="FL",
                gates_source="net.pt",
                parameters_feature=7,
                wiring=(1, 2, 0),
                rotation=(),
                shift=(),
                comparison=OPENED,
            ),
        ),
        ((Stopped(),), replace(STATE, phase="stopped")),
        ((Measured(3, 0.1, 1.0, 0.5), WeightsTaken(3, "x.pt", 2)), STATE),
    ],
)
def test_events_lead_to_the_state(events: tuple[Event, ...], state: RunState) -> None:
    assert begun(*events) == state


@pytest.mark.parametrize(("regime", "source"), [("FL", "net.pt"), ("DL", ""), ("FR-II", "")])
def test_the_file_of_the_gates_is_named_in_a_regime_that_takes_gates(
    regime: str, source: str
) -> None:
    assert after(READY, replace(BEGUN, regime=regime)).gates_source == source
    assert after(replace(BEGUN, regime=regime)).gates_source == ""  # no catalogue yet


def test_the_regime_is_looked_up_in_the_catalogue() -> None:
    assert begun(TO_FL).regime_entry == CATALOGUE.regimes[1]
    assert begun(replace(TO_FL, after="new")).regime_entry is None
    assert after(BEGUN).regime_entry is None


@pytest.mark.parametrize(
    ("state", "ready", "has_run", "running", "paused"),
    [
        (RunState(), False, False, False, False),
        (after(READY), True, False, False, False),
        (begun(), True, True, True, False),
        (begun(Paused(1)), True, True, False, True),
        (begun(Finished(1)), True, True, False, True),
        (begun(SHOWN), True, True, False, False),
        (begun(Stopped()), False, False, False, True),
        (after(READY, Stopped()), False, False, False, False),
        (begun(replace(BEGUN, inspected="x.pt", paused=True)), True, False, False, True),
        (after(Running(3)), False, False, True, False),
    ],
)
def test_what_can_be_done_in_a_state(
    state: RunState, ready: bool, has_run: bool, running: bool, paused: bool
) -> None:
    found = (state.is_ready, state.has_run, state.is_running, state.is_paused)
    assert found == (ready, has_run, running, paused)


def test_the_file_that_is_inspected_is_named() -> None:
    assert begun(replace(BEGUN, inspected="x.pt")).inspected_file == "x.pt"
    assert begun().inspected_file == ""
    assert RunState().inspected_file == ""


@pytest.mark.parametrize(("step", "rest"), [(0, 12), (1, 11), (11, 1), (12, 12), (13, 11), (30, 6)])
def test_the_rest_of_an_epoch(step: int, rest: int) -> None:
    assert begun().moved_to_step(step).epoch_steps == rest


def test_without_epochs_one_step_is_the_rest() -> None:
    assert begun(replace(BEGUN, steps_per_epoch=0)).moved_to_step(5).epoch_steps == 1
    assert begun(replace(BEGUN, steps_per_epoch=1)).moved_to_step(5).epoch_steps == 1
    assert RunState().epoch_steps == 1


@pytest.mark.parametrize(
    ("state", "frame", "step"),
    [
        (begun(), 5, 5),
        (begun().moved_to_step(9), 5, 5),  # while it trains the newest frame is right
        (begun(Paused(9)), 8, 9),  # from before the pause
        (begun(Paused(9)), 9, 9),
        (begun(Paused(9)), 10, 10),
        (begun(Finished(9)), 8, 9),
        (begun(SHOWN), 49, 50),
    ],
)
def test_a_frame_moves_the_step_unless_it_is_from_before_a_pause(
    state: RunState, frame: int, step: int
) -> None:
    assert state.moved_to_step(frame) == replace(state, step=step)
    assert (state.moved_to_step(frame) is state) == (state.step == step)


def test_the_current_configuration_has_every_setting_of_now() -> None:
    assert begun().current_config() == replace(
        CONFIG,
        gating=replace(CONFIG.gating, wiring=(0, 1, 2), rotation=(0, 1, 0), shift=(2, 0, 0)),
    )
    changed = begun(
        TO_FL,
        Rewired(6, (2, 1, 0), (1, 0, 0), (0, 0, 3)),
        SettingChanged(7, 0.01, 9.0, "random", 60.0),
    )
    assert changed.current_config() == RunConfig(
        gating=GatingConfig(
            regime="FL",
            beta=9.0,
            value_input="random",
            gates_from="/data/net.pt",
            wiring=(2, 1, 0),
            rotation=(1, 0, 0),
            shift=(0, 0, 3),
        ),
        training=TrainingConfig(learning_rate=0.01, pace=60.0),
    )
    unsettled = replace(changed, settings=None).current_config()
    assert unsettled is not None
    assert (unsettled.training, unsettled.gating.beta) == (CONFIG.training, 4.0)
    assert after(READY).current_config() is None


def test_commands_are_obeyed_once_the_engine_is_ready() -> None:
    assert not RunState().is_ready
    assert after(READY).is_ready
    assert not after(READY, Stopped()).is_ready
    assert after(READY, EngineSilent(12.0)).silent
    assert not after(READY, EngineSilent(12.0), EngineAnswered(60.0)).silent
    assert not after(READY, EngineSilent(12.0), Stopped()).silent


def test_another_run_begins_with_nothing_of_the_one_before() -> None:
    before = (TO_FL, OPENED, UndoChanged("regime FL"), Diverged(7), SHOWN)
    second = replace(BEGUN, run=2)
    assert after(READY, BEGUN, *before, second) == after(READY, second)


def test_a_replayed_history_counts_event_by_event() -> None:
    history = HistoryReplayed((TO_FL, Rewired(8, (1, 0, 2))))
    assert after(READY, BEGUN, history) == after(READY, BEGUN, *history.events)


def test_a_diverged_run_is_sound_again_once_its_weights_are_those_of_before() -> None:
    diverged = after(READY, BEGUN, Diverged(7))
    assert diverged.diverged == 7
    assert diverged.after(TO_FL).diverged == 7
    assert diverged.after(replace(TO_FL, undone="Undo regime FL")).diverged is None
    assert diverged.with_past_settings(after(READY, BEGUN)).diverged == 7


def test_a_slow_thing_is_named_until_a_run_goes_on() -> None:
    reading = after(READY, Working("Reading mnist", 0.4))
    assert reading.working == "Reading mnist, 40 %"
    assert reading.after(BEGUN).working == ""
    slow = after(READY, BEGUN, Working("Testing"))
    assert slow.working == "Testing"
    for event in (Running(5), Paused(5), Finished(5), Diverged(5)):
        assert slow.after(event).working == ""
    assert slow.after(Rewired(5, (0,))).working == "Testing"


def test_an_event_that_changes_nothing_leaves_the_same_object() -> None:
    state = after(READY, BEGUN)
    assert state.after(Measured(5, 0.5, 1.0, 0.5)) is state
