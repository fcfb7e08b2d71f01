"""Undo and redo: as if it had not been done, with weights, optimiser and regime as they were."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dgn_engine.config import NetConfig, TrainingConfig
from dgn_engine.protocol.files import TakeGates, TakeWeights
from dgn_engine.protocol.messages import Refused
from dgn_engine.protocol.runs import ContinueRun
from dgn_engine.protocol.training import (
    Advance,
    ChangesListed,
    Diverged,
    Redo,
    RegimeSwapped,
    Rewire,
    Rewired,
    Rotate,
    SetBeta,
    SetLearningRate,
    SettingChanged,
    SetValueInput,
    StartRun,
    SwapRegime,
    Undo,
    UndoChanged,
    UndoMany,
    UndoSetting,
)
from dgn_engine.protocol.watching import SetProbeExamples
from dgn_engine.session import undo
from dgn_engine.storage.runs.run_checkpoints import read_state
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.run_snapshot import capture_run
from dgn_engine.training.trainer import Trainer
from tests.engine.session.conftest import Desk, recompute_step, small_config


@pytest.fixture
def begun(desk: Desk) -> Desk:
    desk.handle(StartRun(small_config("DL"), paused=True))
    desk.train(7)
    return desk


def whole(desk: Desk) -> dict[str, Tensor]:
    """All that is learnt or drawn, optimiser state included."""
    return {name: t.detach().clone() for name, t in desk.run.trainer.tensors().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def undisturbed(steps: int) -> dict[str, Tensor]:
    other = Desk()
    other.handle(StartRun(small_config("DL"), paused=True))
    other.train(7)
    other.train(steps)
    found = whole(other)
    other.engine.close()
    return found


def change(desk: Desk, path: Path, part: str) -> None:
    ticket = desk.open(path).ticket
    taken = {
        "gates": TakeGates(ticket),
        "gates alone": TakeGates(ticket, restart_value=False),
        "weights": TakeWeights(ticket),
        "regime": SwapRegime("FR-II", restart_value=True),
    }[part]
    desk.handle(taken)


@pytest.mark.parametrize("part", ["gates", "gates alone", "weights", "regime"])
def test_what_is_undone_at_once_was_never_done(begun: Desk, trained: Path, part: str) -> None:
    before = whole(begun)
    change(begun, trained, part)
    assert not same(whole(begun), before)
    begun.handle(Undo())
    assert same(whole(begun), before)
    assert begun.run.trainer.regime.name == "DL"
    begun.train(9)
    assert same(whole(begun), undisturbed(9))


def test_steps_are_not_taken_back_and_redo_returns_to_what_was_learnt(
    begun: Desk, trained: Path
) -> None:
    before = whole(begun)
    change(begun, trained, "gates")
    assert begun.last_event(UndoChanged) == UndoChanged("gates of trained.safetensors", "")
    begun.train(5)
    learnt = whole(begun)
    begun.handle(Undo())
    assert begun.run.step_count == 12
    assert same(whole(begun), before)
    told = begun.last_event(RegimeSwapped)
    assert (told.before, told.after, told.step, told.of_step) == ("FL", "DL", 12, 7)
    for part in ("trained.safetensors (FL → DL)", "step 7,", "step 12."):
        assert part in told.sentence
    assert begun.last_event(UndoChanged) == UndoChanged("", "gates of trained.safetensors")
    begun.train(3)
    begun.handle(Redo())
    assert same(whole(begun), learnt)
    assert begun.run.trainer.regime.name == "FL"
    assert begun.last_event(UndoChanged) == UndoChanged("gates of trained.safetensors", "")


def test_an_undo_knows_whose_gates_are_in_force_again(begun: Desk, trained: Path) -> None:
    def owner() -> str:
        told = begun.last_event(RegimeSwapped)
        return told.source

    change(begun, trained, "gates")
    for command in (SetLearningRate(0.5), SwapRegime("FR-II", restart_value=True)):
        begun.handle(command)
        begun.handle(Undo())
        assert owner() == trained.name
    begun.handle(Undo())
    assert owner() == ""


def test_biases_that_came_with_gates_go_with_them(desk: Desk, tmp_path: Path) -> None:
    biased = tmp_path / "biased.pt"
    torch.manual_seed(3)
    parts = [torch.nn.Linear(a, b) for a, b in ((64, 16), (16, 16), (16, 16), (16, 10))]
    torch.save(torch.nn.Sequential(*parts).state_dict(), biased)
    desk.handle(StartRun(small_config("DL"), paused=True))
    desk.train(3)
    before = whole(desk)
    change(desk, biased, "gates")
    assert "feature.biases.0" in whole(desk)
    desk.handle(Undo())
    assert same(whole(desk), before)
    desk.train(2)  # the optimiser holds the weights that are there now
    assert not same(whole(desk), before)
    desk.handle(Redo())
    assert "feature.biases.0" in whole(desk)


CONV = NetConfig("cnn4", (("channels", 4),))
ROADS = {
    "Adam": small_config("DL"),
    "momentum": replace(
        small_config("DL"),
        training=TrainingConfig(optimiser="sgd", momentum=0.9, learning_rate=0.01),
    ),
    "convolutions": replace(small_config("DL"), net=CONV),
}


@pytest.mark.parametrize("road", ROADS)
def test_every_change_is_undone_to_the_step_before_it(road: str) -> None:
    """After steps were taken, too: weights, optimiser, settings, scores and the batches to come."""
    desk, twin = Desk(), Desk()
    for one in (desk, twin):
        one.handle(StartRun(ROADS[road], paused=True))
        one.train(7)
    run = desk.run
    settings = undo._settings_of(run)
    layers = len(settings.order)
    changes = (
        Rewire((1, 0, *range(2, layers))),
        Rotate((0, 3, *[0] * (layers - 2))),
        SetLearningRate(0.5),
        SetBeta(2.0),
        SetValueInput("ones"),
        SwapRegime("FR-II"),
    )
    for change in changes:
        desk.handle(change)
        desk.train(3)
        assert not same(whole(desk), whole(twin))
        desk.handle(Undo())
        assert same(whole(desk), whole(twin))
        assert undo._settings_of(run) == settings
        assert run.trainer.test_score() == twin.run.trainer.test_score()
    assert run.step_count == 7 + 3 * len(changes)
    desk.train(20)
    twin.train(20)
    assert same(whole(desk), whole(twin))
    for one in (desk, twin):
        one.engine.close()


def test_a_setting_is_put_back_alone_and_both_ways_are_done_again(begun: Desk) -> None:
    run = begun.run
    before = whole(begun)
    begun.handle(Rewire((1, 0, 2)))
    begun.train(4)
    begun.handle(SetLearningRate(0.5), SetLearningRate(0.25))  # one change within a second
    begun.train(4)
    learnt = whole(begun)
    listed = begun.last_event(ChangesListed)
    assert listed.last_setting == "the learning rate"
    begun.handle(UndoSetting())
    assert run.trainer.optimizer.learning_rate == 1e-3
    assert begun.last_event(UndoChanged) == UndoChanged("gate order", "learning rate")
    begun.handle(UndoSetting())
    assert begun.last_event(Rewired) == Rewired(15, (0, 1, 2))
    assert same(whole(begun), learnt)
    begun.handle(Redo(), Redo())
    assert (run.trainer.optimizer.learning_rate, run.trainer.network.wiring) == (0.25, (1, 0, 2))
    assert same(whole(begun), learnt)
    begun.handle(Undo(), Undo())  # what they put back is still the run before each change
    assert same(whole(begun), before)
    begun.handle(Redo(), Redo())
    assert same(whole(begun), learnt)
    assert begun.last_event(UndoChanged) == UndoChanged("learning rate", "")
    begun.handle(SwapRegime("ReLU"), UndoSetting())
    assert isinstance(begun.events[-1], Refused)
    assert run.trainer.regime.name == "ReLU"


def test_a_setting_that_is_set_to_what_it_was_is_no_change(begun: Desk) -> None:
    begun.handle(SwapRegime("ReLU"), Undo(), SetLearningRate(1e-3), Rewire((0, 1, 2)))
    assert begun.last_event(UndoChanged) == UndoChanged("", "regime ReLU")


def test_a_new_change_leaves_nothing_to_redo_and_a_new_run_nothing_to_undo(
    begun: Desk,
) -> None:
    begun.handle(SwapRegime("ReLU"), Undo(), SetBeta(2.0), Redo())
    assert begun.refusal == ("empty", "redo")
    begun.handle(SwapRegime("no such regime"))  # refused: not remembered
    begun.handle(Undo(), Undo())
    assert begun.refusal == ("empty", "undo")
    begun.handle(SwapRegime("ReLU"), StartRun(small_config("DL"), paused=True), Undo())
    assert begun.refusal == ("empty", "undo")


def test_a_setting_that_made_the_run_diverge_is_undone_and_it_trains_again(begun: Desk) -> None:
    """Also where the user has turned settings in vain before."""
    before = whole(begun)
    begun.handle(SetLearningRate(1e30), Advance(40))
    while begun.engine.running:
        begun.engine.advance()
    assert isinstance(begun.last_event(Diverged), Diverged)
    assert capture_run(begun.run) is None
    begun.handle(UndoSetting())
    assert isinstance(begun.events[-1], Refused)  # there are no weights to keep
    begun.handle(SetBeta(3.0), SetProbeExamples(30), Undo(), Undo())
    assert same(whole(begun), before)
    assert begun.run.trainer.optimizer.learning_rate == 1e-3
    twin = undisturbed(20)
    begun.train(20)
    assert same(whole(begun), twin)


def test_the_record_tells_of_the_undo_and_keeps_what_it_left(recording_desk: Desk) -> None:
    recording_desk.handle(StartRun(small_config("DL"), paused=True))
    recording_desk.train(7)
    recording_desk.handle(SwapRegime("FR-II"))
    recording_desk.train(5)
    recording_desk.handle(Undo())
    recording = recording_desk.recording
    folder = recording.path
    recording_desk.engine.close()
    reader = RunReader(folder)
    told = [event.undone for event in reader.events if isinstance(event, RegimeSwapped)]
    assert told == ["", "Undo regime FR-II"]
    assert {one.kept for one in reader.checkpoints} >= {
        "before FR-II",
        "before undo of regime FR-II",
    }


def test_an_undone_setting_stands_in_the_record_and_the_run_goes_on_as_without_it(
    recording_desk: Desk,
) -> None:
    recording_desk.handle(StartRun(small_config("DL"), paused=True))
    recording_desk.train(7)
    recording_desk.handle(SetLearningRate(0.5), Rewire((1, 0, 2)))
    recording_desk.train(5)
    recording = recording_desk.recording
    recording._every = 1e9
    recording_desk.handle(UndoMany(2))
    while recording._recorder.is_saving:
        time.sleep(0.01)
    recording_desk.advance(1)
    assert recording._recorder.mark_written().done.wait(60)
    folder = recording.path
    last = RunReader(folder).find_checkpoint()  # a kill would not bring back what was undone
    assert read_state(last.path)["dials"]["learning_rate"] == 1e-3
    recording_desk.train(3)
    recording_desk.engine.close()
    changes = [
        event
        for event in RunReader(folder).events
        if isinstance(event, RegimeSwapped | Rewired | SettingChanged)
    ]
    assert [type(event) for event in changes[-4:]] == [
        *(RegimeSwapped, Rewired),
        *(RegimeSwapped, SettingChanged),
    ]
    told = [event for event in changes if isinstance(event, RegimeSwapped)]
    assert [(event.undone, event.step, event.of_step) for event in told] == [
        ("Undo gate order", 12, 7),
        ("Undo learning rate", 12, 7),
    ]
    assert changes[-3] == Rewired(12, (0, 1, 2))
    assert replace(changes[-1], pace=0.0) == SettingChanged(
        12, 1e-3, small_config().gating.beta, "image", 0.0
    )
    for step, steps in ((9, None), (13, 8), (14, 9)):  # a branch begins at any of its steps
        run = recompute_step(folder, step)
        assert run.trainer.undone_steps == (0 if steps is None else 5)
        if steps is not None:
            found = {name: t.detach().clone() for name, t in run.trainer.tensors().items()}
            assert same(found, undisturbed(steps - 7))
    recording_desk.handle(ContinueRun(str(folder), paused=True))
    assert recording_desk.run.step_count == 15
    recording_desk.train(20)
    assert same(whole(recording_desk), undisturbed(23))


def test_a_recorded_run_is_copied_once_at_a_swap_and_once_at_its_undo(
    recording_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording_desk.handle(StartRun(small_config("DL"), paused=True))
    recording_desk.train(7)
    copies: list[int] = []
    tensors = Trainer.tensors

    def counted(trainer: Trainer) -> dict[str, Tensor]:
        copies.append(trainer.step_count)
        return tensors(trainer)

    monkeypatch.setattr(Trainer, "tensors", counted)
    recording_desk.handle(SwapRegime("FR-II"))
    assert copies == [7]
    recording_desk.handle(Undo())
    assert copies == [7, 7]
