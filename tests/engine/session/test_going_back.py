"""A run that diverges says so at its step, and goes back to its newest finite state."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import (
    Diverged,
    GoBack,
    Measured,
    Paused,
    RegimeSwapped,
    Resume,
    SetBeta,
    SetLearningRate,
    SettingChanged,
    StartRun,
    SwapRegime,
    Undo,
    UndoChanged,
)
from dgn_engine.protocol.watching import ProbeRequest, SetProbeExamples, Watch
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.run_checkpoints import Snapshot, StoredCheckpoint, load_checkpoint
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.run import Run
from tests.engine.session.conftest import Desk, recompute_step, small_config

CNN = NetConfig("cnn4")
SGD = TrainingConfig(optimiser="sgd", learning_rate=1e3, loss="squared")


def first_bad_step(config: RunConfig, changes: dict[int, float]) -> int:
    """The step whose batch has no finite loss, each loss asked for by itself; 0 where none has."""
    run = Run(1, config, lambda _: None, lambda *_: None, live=False)
    for step in range(1, 41):
        if step - 1 in changes:
            run.trainer.optimizer.set_learning_rate(changes[step - 1])
        run.trainer.step()
        if not math.isfinite(run.trainer.train_score().loss):
            return step
    return 0


def diverging(**changes: Any) -> RunConfig:
    return replace(small_config("ReLU"), training=SGD, **changes)


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        (diverging(), {}),
        (replace(diverging(net=CNN), training=replace(SGD, learning_rate=1e8)), {}),
        (replace(diverging(), training=replace(SGD, pace=500.0)), {}),
        (small_config("DL"), {7: 1e30}),
        (small_config("FL"), {7: 1e30}),
    ],
    ids=["dense", "cnn", "paced", "learning rate", "gates of a file"],
)
def test_a_run_that_diverges_stops_and_says_at_which_step(
    desk: Desk, trained: Path, config: RunConfig, changes: dict[int, float]
) -> None:
    if config.gating.regime == "FL":
        config = replace(config, gating=replace(config.gating, gates_from=str(trained)))
    step = first_bad_step(config, changes)
    assert step > 1
    desk.handle(StartRun(config, paused=True))
    for at, rate in changes.items():
        desk.train(at)
        desk.handle(SetLearningRate(rate))
    desk.handle(Resume())
    while desk.engine.running:
        desk.advance(1)
    said = desk.events_of(Diverged)
    assert [(one.step, one.what, one.last_finite) for one in said] == [(step, "loss", step - 1)]


def test_a_run_that_does_not_diverge_never_says_so(desk: Desk) -> None:
    assert first_bad_step(small_config("DL"), {}) == 0
    desk.handle(Watch((ProbeRequest("npk"), ProbeRequest("gates"))))
    desk.handle(StartRun(small_config("DL"), paused=True))
    desk.train(40)
    assert not desk.events_of(Diverged)
    desk.handle(GoBack())
    assert isinstance(desk.events[-1], Refused)


def test_what_is_not_in_force_after_going_back_cannot_be_undone(paused_desk: Desk) -> None:
    paused_desk.train(3)
    paused_desk.handle(SetBeta(4.0))
    paused_desk.train(9)
    diverge(paused_desk)
    assert paused_desk.last_event(UndoChanged) == UndoChanged("learning rate", "")
    paused_desk.handle(GoBack())
    assert paused_desk.last_event(UndoChanged) == UndoChanged("β", "")
    paused_desk.handle(Undo())
    assert paused_desk.last_event(UndoChanged) == UndoChanged("", "β")
    assert diverge(paused_desk).back_to is not None


def test_changes_below_one_of_the_probe_set_cannot_be_undone_either(paused_desk: Desk) -> None:
    paused_desk.train(5)
    paused_desk.handle(SetBeta(4.0))
    paused_desk.train(1)
    paused_desk.handle(SetProbeExamples(8))
    overflow(paused_desk)
    paused_desk.handle(GoBack())
    run = paused_desk.run
    assert run.put_backs == ((7, 5),)
    assert paused_desk.last_event(UndoChanged).undo == "number of probe examples"
    paused_desk.train(10)
    paused_desk.handle(Undo())
    assert run.put_backs == ((7, 5),)  # nothing that was trained is lost
    assert paused_desk.last_event(UndoChanged).undo == ""


def test_the_step_that_diverged_is_not_the_last_finite_one_once_it_was_left(
    paused_desk: Desk,
) -> None:
    paused_desk.train(5)
    paused_desk.handle(SetBeta(4.0))
    paused_desk.train(2)
    overflow(paused_desk)
    paused_desk.handle(GoBack())
    overflow(paused_desk)
    said = paused_desk.events_of(Diverged)
    assert [(one.step, one.last_finite) for one in said] == [(8, 7), (9, 7)]


def test_steps_after_going_back_to_a_checkpoint_are_had_again_once_that_is_gone(
    recording_desk: Desk,
) -> None:
    desk = recording_desk
    desk.handle(StartRun(small_config("DL"), paused=True))
    run, recording = desk.run, desk.recording
    live: dict[int, list[torch.Tensor]] = {}
    for step in (5, 8, 9, 14, 20, 25, 30):
        if step == 9:
            overflow(desk)
            desk.handle(GoBack())
        else:
            desk.train(step - run.step_count)
        live[step] = desk.copy_value_weights()
        if not step % 5:
            recording.write_checkpoint()
            assert recording.mark_checkpoint().done.wait(60.0)
    assert run.put_backs == ((9, 5),)
    desk.engine.close()
    reader = RunReader(recording.path)
    assert [one.step for one in reader.checkpoints] == [25, 30]
    for step in (8, 14, 20):
        ours = recompute_step(recording.path, step).trainer.network.value.weights
        assert all(map(torch.equal, ours, live[step]))


def test_an_older_checkpoint_is_gone_back_to_where_the_newest_is_damaged_since(
    recording_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording_desk.handle(StartRun(small_config("DL"), paused=True))
    for _ in range(2):
        recording_desk.train(5)
        recording_desk.recording.write_checkpoint()
        assert recording_desk.recording.mark_checkpoint().done.wait(60.0)

    def load_older(one: StoredCheckpoint) -> Snapshot:
        if one.step == 10:
            raise UserError("It is damaged.")
        return load_checkpoint(one)

    monkeypatch.setattr(run_checkpoints, "load_checkpoint", load_older)
    overflow(recording_desk)
    said = recording_desk.last_event(Diverged)
    assert (said.back_to, said.stored) == (5, True)


def overflow(desk: Desk) -> None:
    """The next step has no finite loss, and nothing that can be undone was changed."""
    run = desk.run
    run.trainer.network.value.weights[0].data.fill_(math.inf)
    desk.train(1)
    assert run.diverged


def diverge(desk: Desk, rate: float = 1e30) -> Diverged:
    desk.handle(SetLearningRate(rate), Resume())
    while desk.engine.running:
        desk.advance(1)
    return desk.last_event(Diverged)


def test_it_goes_back_with_weights_optimiser_and_dials_and_trains_on(desk: Desk) -> None:
    desk.handle(StartRun(small_config("DL"), paused=True))
    desk.train(9)
    weights = desk.copy_value_weights()
    said = diverge(desk)
    assert (said.back_to, said.stored) == (9, False)
    desk.handle(Resume())
    assert isinstance(desk.events[-1], Refused)
    desk.handle(GoBack())
    run = desk.run
    assert all(map(torch.equal, desk.copy_value_weights(), weights))
    assert (run.step_count, run.trainer.optimizer.learning_rate, desk.engine.running) == (
        said.step,
        1e-3,
        False,
    )
    swap, setting, paused = desk.events[-3:]
    assert isinstance(swap, RegimeSwapped)
    assert (swap.step, swap.of_step) == (said.step, 9)
    assert isinstance(setting, SettingChanged)
    assert setting.learning_rate == 1e-3
    assert paused == Paused(said.step)
    desk.train(10)
    assert run.step_count == said.step + 10
    assert not run.diverged
    scores = [one for one in desk.events if isinstance(one, Measured) and one.step > said.step]
    assert all(math.isfinite(one.train_loss) for one in scores)


def test_going_back_once_more_goes_further_back_in_a_second_run_as_in_the_first(desk: Desk) -> None:
    for _ in range(2):
        desk.handle(StartRun(small_config("DL"), paused=True))
        desk.train(5)
        desk.handle(SetBeta(6.0))
        desk.train(4)
        assert diverge(desk).back_to == 9
        desk.handle(GoBack())
        assert desk.run.put_backs == ((desk.run.step_count, 9),)
        assert diverge(desk, 1e31).back_to == 5


def test_what_was_undone_is_not_gone_back_to(desk: Desk) -> None:
    desk.handle(StartRun(small_config("FR-II"), paused=True))
    desk.train(3)
    desk.handle(SetBeta(6.0))
    desk.train(2)
    desk.handle(SwapRegime("FR-DI"))
    desk.train(2)
    desk.handle(Undo())  # what could be redone is a finite copy, too, of step 7
    run = desk.run
    run.trainer.network.value.weights[0].data.fill_(math.inf)
    desk.train(1)
    said = desk.last_event(Diverged)
    assert said.back_to == 3
    desk.handle(GoBack())
    assert (run.trainer.regime.name, run.step_count) == ("FR-II", 8)


def test_a_checkpoint_is_gone_back_to_where_it_is_newer(recording_desk: Desk) -> None:
    desk = recording_desk
    desk.handle(StartRun(small_config("DL"), paused=True))
    desk.train(5)
    recording = desk.recording
    recording.write_checkpoint()
    assert recording.mark_checkpoint().done.wait(60.0)
    desk.handle(SetLearningRate(1e30))  # a copy of the same step is as good
    desk.engine._undo.clear_history()
    said = diverge(desk)
    assert (said.back_to, said.stored) == (5, True)
    folder = recording.path
    assert recording.mark_checkpoint().done.wait(60.0)  # what it said is on disk
    assert RunReader(folder).diverged_at == said.step
    desk.handle(GoBack())
    desk.train(6)
    desk.engine.close()
    reader = RunReader(folder)
    assert (reader.diverged_at, reader.outcome) == (None, "stopped")
    steps = [event.step for event in reader.events if isinstance(event, Measured)]
    assert steps == sorted(steps)
    assert reader.checkpoints[-1].step == said.step + 6
    assert all(load_checkpoint(one).all_finite() for one in reader.checkpoints)
    state = RunState()
    for event in desk.events:
        state = state.after(event)
    assert (state.diverged, state.back_to) == (None, None)


def test_the_last_finite_pictures_stay_with_their_step(desk: Desk) -> None:
    desk.handle(Watch((ProbeRequest("npk"), ProbeRequest("gates"))))
    desk.handle(StartRun(small_config("DL"), paused=True))
    desk.train(4)
    desk.advance(3)
    run = desk.run
    before = desk.frames[-1].readings
    assert {one.step for one in before.values()} == {4}
    with torch.no_grad():
        run.trainer.network.value.weights[0].fill_(math.nan)
    run.probed.invalidate_readings()
    desk.advance(3)  # a reading sees it before a loss does
    said = desk.last_event(Diverged)
    assert (said.step, said.what, said.last_finite) == (4, "weights", 4)
    now = desk.frames[-1].readings
    assert {name: (one.step, one.absent) for name, one in now.items()} == {
        "npk": (4, ""),
        "gates": (4, ""),
    }
