"""What a session does a second time: nothing of the first run, network, pause or branch is left."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.protocol.branches import (
    CloseComparison,
    CompareFile,
    CompareRun,
    ComparisonOpened,
)
from dgn_engine.protocol.files import (
    CheckNetwork,
    CloseFile,
    FileScored,
    InspectFile,
    NetworkChecked,
    SaveWeights,
    TakeWeights,
)
from dgn_engine.protocol.runs import OpenSession, RunShown, SaveSession, SessionSaved
from dgn_engine.protocol.training import (
    Advance,
    Measured,
    SetLearningRate,
    StartRun,
    SwapRegime,
    Undo,
)
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training import metrics
from tests.engine.session.conftest import PROBES, Desk, small_config, train_alone

LIMIT = 500.0  # seconds for a child or a thread on a machine with much else to do


def save(desk: Desk, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    desk.handle(SaveWeights(str(path)))
    return path


def gates_of(desk: Desk, layer: int = 0) -> np.ndarray:
    """Of the network that is trained now, on its probe set."""
    return desk.run.probed.probe_context().gates[layer].numpy()


# B after another B


def test_b_is_headed_by_the_step_of_its_weights_and_not_of_the_newest_line(
    recording_desk: Desk, tmp_path: Path
) -> None:
    recording_desk.handle(StartRun(small_config("ReLU"), paused=True))
    recording_desk.train(4)
    recording_desk.handle(SwapRegime("soft-ReLU"))  # the checkpoint before it stays
    recording_desk.train(6)  # the log goes on
    folder = recording_desk.recording.path
    assert recording_desk.recording.mark_checkpoint().done.wait(LIMIT)
    for one in RunReader(folder).checkpoints:
        if one.step != 4:
            shutil.rmtree(one.path.full_path)
    assert (RunReader(folder).find_checkpoint().step, RunReader(folder).step) == (4, 10)
    weights = save(recording_desk, tmp_path / "at_10.safetensors")
    recording_desk.handle(CompareRun(str(folder)), CompareRun(str(folder), 4))
    recording_desk.train(2)
    recording_desk.handle(CompareFile(recording_desk.open(weights).ticket))
    recording_desk.recording.write_checkpoint()
    assert recording_desk.recording.mark_checkpoint().done.wait(LIMIT)
    recording_desk.handle(CompareRun(str(folder)))
    opened = recording_desk.events_of(ComparisonOpened)
    assert [(one.number, one.step) for one in opened] == [(1, 4), (2, 4), (3, 10), (4, 12)]


def test_the_second_b_is_read_anew_and_nothing_is_read_after_the_last(
    desk: Desk, tmp_path: Path
) -> None:
    files = []
    for seed in (1, 2):
        desk.handle(StartRun(small_config("ReLU", seed=seed), paused=True))
        files.append((save(desk, tmp_path / f"{seed}.safetensors"), desk.engine.run))
    desk.handle(StartRun(small_config("ReLU"), paused=True), Watch(PROBES))
    x = desk.run.probed.probe_context().x
    shown = []
    for number, (path, run) in enumerate(files, 1):
        desk.handle(CompareFile(desk.open(path).ticket))
        desk.advance(8)
        frame = desk.frames[-1]
        assert frame.comparison == number
        assert run is not None
        theirs = run.trainer.network.trace(x).value.gates[0].numpy()
        assert np.array_equal(frame.compared["gates"].arrays["layer_0"], theirs)
        equal = float((theirs == gates_of(desk)).mean())
        assert frame.readings["agreement"].arrays["equal"][0] == pytest.approx(equal)
        shown.append(theirs)
    assert not np.array_equal(shown[0], shown[1])
    desk.handle(CloseComparison())
    desk.advance(3)
    assert (desk.frames[-1].compared, desk.engine.state.comparison.take_scalars()) == ({}, ())


# the second pause, and a score between two networks


def test_each_score_is_of_the_steps_since_the_one_before(desk: Desk) -> None:
    twin = train_alone(small_config(), 0)
    steps = []
    for _ in range(14):
        twin.trainer.step()
        steps.append(twin.trainer.train_score())
    desk.handle(StartRun(small_config(), paused=True))
    for count in (6, 2, 6):
        desk.train(count)
    scores = desk.events_of(Measured)
    assert {5, 7, 10, 14} <= {one.step for one in scores}
    for before, one in zip((None, *scores), scores, strict=False):
        since = steps[before.step if before else 0 : one.step]
        examples = sum(step.examples for step in since)
        loss = sum(step.loss * step.examples for step in since) / examples
        assert one.train_loss == pytest.approx(loss)


def test_an_undo_within_a_test_pass_leaves_no_score_of_two_networks(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "CHUNK_VALUES", 1)  # so that a pass takes several chunks
    data = DataConfig("digits", train_limit=96)
    desk.handle(StartRun(replace(small_config(), data=data), paused=True))
    desk.train(2)
    desk.handle(SetLearningRate(0.5), Advance(1))
    run = desk.run
    while not run.evaluation.has_pending_test:
        desk.advance(1)
    desk.advance(1)
    assert (run.step_count, run.evaluation.has_pending_test) == (3, True)
    desk.handle(Undo())
    assert not run.evaluation.has_pending_test
    desk.train(1)
    tested = {one.step: one for one in desk.events_of(Measured) if one.test_loss is not None}
    assert 3 not in tested
    score = run.trainer.test_score()
    assert (tested[4].test_loss, tested[4].test_accuracy) == (score.loss, score.accuracy)


# the second run, with the same panels


def test_a_second_run_is_read_from_its_own_first_step(desk: Desk) -> None:
    desk.handle(Watch((ProbeRequest("gates"), ProbeRequest("drift"))))
    desk.handle(StartRun(small_config("ReLU", seed=1), paused=True))
    desk.advance(3)
    desk.train(12)
    desk.advance(3)
    moved = desk.frames[-1].readings["drift"]
    assert (moved.step, moved.scalars["features"] > 0.0) == (12, True)
    desk.handle(StartRun(small_config("ReLU", seed=2), paused=True))
    desk.advance(4)
    frame = desk.frames[-1]
    assert (frame.run, frame.step) == (2, 0)
    assert {one.step for one in frame.readings.values()} == {0}
    assert frame.readings["drift"].scalars["features"] == 0.0
    ours = frame.readings["gates"].arrays["layer_0"]
    assert np.array_equal(ours, gates_of(desk))


# the second file


def test_two_files_of_one_name_are_two_files(desk: Desk, tmp_path: Path) -> None:
    desk.handle(StartRun(small_config("ReLU", seed=1), paused=True))
    paths, weights = [], []
    for place in ("a", "b"):
        desk.train(3)
        paths.append(save(desk, tmp_path / place / "x.safetensors"))
        weights.append(desk.copy_value_weights())
    desk.handle(StartRun(small_config("ReLU"), paused=True))
    tickets = [desk.open(path).ticket for path in paths]
    for ticket, theirs in zip(tickets[::-1], weights[::-1], strict=True):
        desk.handle(TakeWeights(ticket))
        assert all(map(torch.equal, desk.copy_value_weights(), theirs))


def test_closing_one_file_leaves_the_data_that_are_read_for_another(
    paused_desk: Desk, trained: Path
) -> None:
    first, second = (paused_desk.open(trained).ticket for _ in range(2))
    paused_desk.handle(CheckNetwork(second, DataConfig("digits", train_limit=50)), CloseFile(first))
    paused_desk.advance_until(lambda: bool(paused_desk.events_of(NetworkChecked)))
    (checked,) = paused_desk.events_of(NetworkChecked)
    assert (checked.ticket, checked.network.fits) == (second, True)


def test_a_file_of_ours_is_scored_on_examples_that_it_was_not_trained_on(
    desk: Desk, tmp_path: Path
) -> None:
    theirs = DataConfig("digits", train_limit=200, split_seed=5)
    desk.handle(StartRun(replace(small_config("ReLU"), data=theirs), paused=True))
    desk.train(60)
    network = desk.run.trainer.network
    path = save(desk, tmp_path / "x.safetensors")
    desk.handle(StartRun(small_config(), paused=True), InspectFile(desk.open(path).ticket))
    desk.advance_until(lambda: (last := desk.events_of(FileScored)[-1]).examples == last.total)
    score = desk.events_of(FileScored)[-1]
    right = {}
    for name, data in (("their split", theirs), ("ours", small_config().data)):
        held_out = load_examples(data)
        x = torch.from_numpy(held_out.test_x).reshape(len(held_out.test_y), -1)
        with torch.no_grad():
            right[name] = int((network(x).argmax(1).numpy() == held_out.test_y).sum())
    assert score.right == right["their split"] != right["ours"]


# the second time that a session file is opened


def test_a_session_that_went_on_is_saved_and_opened_once_more(
    recording_desk: Desk, tmp_path: Path
) -> None:
    def opened(path: Path) -> None:
        shown = len(recording_desk.events_of(RunShown))
        recording_desk.handle(OpenSession(str(path)))
        recording_desk.advance_until(lambda: len(recording_desk.events_of(RunShown)) > shown)

    recording_desk.handle(Watch(PROBES[:1]), StartRun(small_config("ReLU", seed=3), paused=True))
    for place, step in enumerate((4, 9), 1):
        recording_desk.train(step - recording_desk.run.step_count)
        recording_desk.advance(2)
        weights, file = recording_desk.copy_value_weights(), tmp_path / f"{place}.dgn"
        recording_desk.handle(SaveSession(str(file)))
        recording_desk.advance_until(
            lambda count=place: len(recording_desk.events_of(SessionSaved)) == count
        )  # type: ignore[misc]
        opened(file)
        assert recording_desk.events_of(RunShown)[-1].step == step
        recording_desk.handle(Advance(1))
        assert recording_desk.engine.running
        assert all(map(torch.equal, recording_desk.copy_value_weights(), weights))
        recording_desk.advance_until(lambda: not recording_desk.engine.running)
    undisturbed = train_alone(small_config("ReLU", seed=3), 10)
    assert all(
        map(
            torch.equal,
            recording_desk.copy_value_weights(),
            undisturbed.trainer.network.value.weights,
        )
    )
