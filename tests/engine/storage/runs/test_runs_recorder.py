"""The recorder under trouble, and what `dgn runs` does with what it left."""

from __future__ import annotations

import errno
import math
import os
import shutil
import zipfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from dgn_engine.cli import main
from dgn_engine.config import DataConfig, GatingConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import BranchChanges
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import Measured, RegimeSwapped
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.headless_run import HeadlessRun, planned_steps
from dgn_engine.training.readings.watch_budget import WatchBudget
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run, restore_run
from tests.daily import nightly
from tests.engine.conftest import SMALL
from tests.engine.storage.trained_runs import StopAfter, continue_run, train_new_run
from tests.refusals import refused_command

FAST = ["--width", "16", "--depth", "4", "--epochs", "1", "--quiet"]


def measured(step):
    return "Measured", to_plain(Measured(step, 0.0, 0.5, 0.5))


def failing(monkeypatch, name, code):
    """From now on this method of the folder fails, until the patch is undone."""

    def fail(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(RunFolder, name, fail)


def test_a_full_disk_leaves_training_as_it_was_and_is_told(tmp_path, monkeypatch, capsys):
    train_new_run(tmp_path / "whole")
    out = tmp_path / "run"
    failing(monkeypatch, "note_all", errno.ENOSPC)
    assert main(["train", *FAST, "--lr", "1e-3", "--out", str(out)]) == 4
    captured = capsys.readouterr()
    assert "45 steps" in captured.out
    assert "No space left" in captured.err
    assert captured.err.count("\n") == 1


def test_swaps_leave_a_checkpoint_of_the_weights_before(tmp_path):
    config = replace(SMALL, gating=GatingConfig(regime="FL", pretrain_epochs=1))
    train_new_run(tmp_path / "run", config, checkpoint_every=0.0)
    reader = RunReader(tmp_path / "run")
    (swap,) = [event for event in reader.events if isinstance(event, RegimeSwapped)]
    kept = [(one.step, one.kept) for one in reader.checkpoints if one.kept]
    assert kept == [(swap.step, "before FL"), (90, "final")]


def test_a_diverging_run_keeps_its_last_finite_checkpoint(tmp_path, capsys):
    wild = ["--optimiser", "sgd", "--lr", "1e6", "--loss", "squared", "--checkpoint-every", "0"]
    out = tmp_path / "run"
    assert main(["train", *FAST, *wild, "--out", str(out)]) == 3
    reader = RunReader(out)
    assert reader.status == "diverged"
    assert all(one.step < reader.diverged_at for one in reader.checkpoints)
    capsys.readouterr()
    assert main(["train", "--resume", str(out)]) == 3
    assert "diverged at step" in capsys.readouterr().err


def test_frames_are_recorded_where_probes_are_asked_for(tmp_path):
    train_new_run(tmp_path / "run", SMALL, None, ("gates", "npk"), checkpoint_every=0.0)
    reader = RunReader(tmp_path / "run")
    frame = reader.latest_frame(10**6)
    assert set(frame.readings) == {"gates", "npk"}
    assert frame.readings["gates"].arrays["layer_0"].shape == (20, 16)
    assert {event.probe for event in reader.events if hasattr(event, "probe")} == {"gates", "npk"}


TEN_STEPS = replace(
    SMALL, data=DataConfig(train_limit=40, test_limit=10), training=replace(SMALL.training, batch=4)
)
HUNDRED_STEPS = replace(
    TEN_STEPS, training=replace(TEN_STEPS.training, epochs=10), probe_examples=4
)
PLAN = list(planned_steps(0, 100))
NPK = ("npk",)


@pytest.fixture
def timeless(monkeypatch):
    """A recorder whose clock stands still: no frame is due by time."""
    monkeypatch.setattr(WatchBudget, "reading_interval", lambda *_: math.inf)


def steps_of_frames(path):
    reader = RunReader(path)
    for stored in reader.frames:
        seen = reader.frame_of_step(stored.step)
        assert {probe: one.step for probe, one in seen.readings.items()} == {"npk": stored.step}
    return [frame.step for frame in reader.frames]


def test_planned_steps_hold_both_ends_and_every_step_where_there_are_few():
    for length in (*range(300), 10**5, 10**9):
        planned = planned_steps(7, 7 + length)
        assert len(planned) == min(length + 1, 40)
        assert (planned[0], planned[-1]) == (7, 7 + length)
        assert all(before < after for before, after in pairwise(planned))


def test_planned_steps_lie_apart_in_proportion_to_their_distance_from_the_first():
    planned = np.array(planned_steps(0, 10**6))
    far = planned[planned > 100]
    factors = far[1:] / far[:-1]
    assert factors.max() / factors.min() < 1.05
    assert (planned <= 10**3).sum() >= 20  # of a run that ends after a thousandth of it


@pytest.mark.usefixtures("timeless")
@pytest.mark.parametrize(
    ("config", "every", "stops", "steps"),
    [
        (TEN_STEPS, 0, (), list(range(11))),
        (HUNDRED_STEPS, 0, (PLAN[20], PLAN[30]), PLAN),  # and goes on twice
        (TEN_STEPS, 4, (3,), [0, 3, 4, 8, 10]),
        *nightly((TEN_STEPS, 4, (), [0, 4, 8, 10]), (HUNDRED_STEPS, 0, (), PLAN)),
    ],
)
def test_frames_are_those_of_the_plan_however_often_a_run_goes_on(
    tmp_path, config, every, stops, steps
):
    train_new_run(tmp_path / "run", config, StopAfter(*stops[:1]), NPK, record_every=every)
    for after in (*stops[1:], 10**9) if stops else ():
        continue_run(tmp_path / "run", StopAfter(after))
    assert steps_of_frames(tmp_path / "run") == steps


def test_time_makes_no_more_frames_where_their_steps_are_given(tmp_path, monkeypatch):
    monkeypatch.setattr(WatchBudget, "reading_interval", lambda *_: 0.0)
    train_new_run(tmp_path / "run", TEN_STEPS, None, NPK, record_every=4)
    assert steps_of_frames(tmp_path / "run") == [0, 4, 8, 10]


@pytest.mark.parametrize("trained", [True, False])
def test_a_killed_run_that_goes_on_has_the_frames_of_its_plan(tmp_path, monkeypatch, trained):
    """Frames after its last checkpoint are made again, those before it are kept; one that is
    killed while its data are read has none."""
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        if not trained:
            what = "dgn_engine.training.headless_run.Run"
            patch.setattr(what, Mock(side_effect=InterruptedError))
        with pytest.raises(InterruptedError):
            train_new_run(out, HUNDRED_STEPS, StopAfter(killed=PLAN[25]), NPK, checkpoint_every=0.0)
    continue_run(out)
    frames = [frame.step for frame in RunReader(out).frames]
    assert len(frames) == len(set(frames))
    assert set(PLAN) <= set(frames)


@pytest.mark.usefixtures("timeless")
def test_a_branch_keeps_frames_from_where_it_began(tmp_path):
    parent, out = tmp_path / "parent", tmp_path / "branch"
    train_new_run(parent, HUNDRED_STEPS)
    for number in range(2):  # a second branch is as the first
        branch = HeadlessRun(StopAfter(), lambda: False, NPK)
        branch.run_branch(parent, 100, BranchChanges(seed=1), out.with_name(f"{number}"), 20)
    for number in range(2):
        assert steps_of_frames(out.with_name(f"{number}")) == list(planned_steps(100, 120))


@pytest.mark.usefixtures("timeless")
def test_an_interrupted_run_has_a_frame_of_its_last_step_and_can_be_recorded_otherwise(
    tmp_path, capsys
):
    out = tmp_path / "run"
    train_new_run(out, TEN_STEPS, StopAfter(3), NPK, record_every=9)
    assert steps_of_frames(out) == [0, 3]
    assert repr(RunReader(out).frame_of_step(3)) == "<frame of step 3, epoch 0.3: npk of step 3>"
    assert main(["train", "--resume", str(out), "--record", "npk, gates"]) == 0
    assert set(RunReader(out).frame_of_step(10).readings) == {"npk", "gates"}
    train_new_run(tmp_path / "without", TEN_STEPS, StopAfter(3))
    refused_command("train", "--resume", tmp_path / "without", "--record-every", "2")


@pytest.mark.parametrize(
    "options",
    [["--record", "npk", "--record-every", "0"], ["--record-every", "3"], ["--record", "nothing"]],
)
def test_frames_of_no_steps_or_of_nothing_are_refused_and_leave_no_folder(tmp_path, options):
    refused_command("train", *FAST, *options, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_frame_of_a_step_holds_nothing_that_was_read_before(tmp_path):
    folder = RunFolder.create(tmp_path / "run", TEN_STEPS)
    readings = {name: Reading(name, step) for name, step in (("npk", 30), ("gates", 50))}
    folder.add_frame(Frame(1, 50, 5.0, 0.0, None, readings))
    folder.close()
    reader = RunReader(tmp_path / "run")
    assert list(reader.frame_of_step(50).readings) == ["gates"]
    assert reader.latest_frame(60).readings["npk"].step == 30


def test_frames_are_counted_and_their_steps_said(tmp_path, capsys):
    out = tmp_path / "run"
    few = ["--width", "8", "--depth", "3", "--epochs", "1", "--train-limit", "40", "--batch", "4"]
    record = ["--record", "npk", "--record-every", "4", "--test-limit", "10"]
    assert main(["train", *few, *record, "--out", str(out)]) == 0
    assert "Frames of 4 steps, 0 to 10." in capsys.readouterr().err


@pytest.fixture(scope="module")
def finished(module_path):
    out = module_path / "run"
    train_new_run(out, checkpoint_every=0.0)
    return out


@pytest.mark.parametrize("gone", ["weights", "end"])
def test_resume_writes_what_the_disk_did_not_take_of_a_finished_run(tmp_path, finished, gone):
    """And a second time there is nothing to do."""
    out = Path(shutil.copytree(finished, tmp_path / "run"))
    log, weights = out / folder_layout.LOG, out / folder_layout.WEIGHTS
    lines = log.read_bytes().splitlines(keepends=True)
    if gone == "weights":
        weights.unlink()
    else:
        first = next(place for place, line in enumerate(lines) if b'"Saved"' in line)
        assert b'"Finished"' in b"".join(lines[first:])
        log.write_bytes(b"".join(lines[:first]))
        assert RunReader(out).status == "interrupted"
    for _ in range(2):
        assert main(["train", "--resume", str(out)]) == 0
        assert RunReader(out).measured_events == RunReader(finished).measured_events
        assert RunReader(out).status == "finished"
        assert weights.read_bytes() == (finished / folder_layout.WEIGHTS).read_bytes()


def test_a_run_is_shown_kept_exported_and_deleted(tmp_path, finished, capsys):
    out = Path(shutil.copytree(finished, tmp_path / "run"))
    assert main(["runs", "show", str(out)]) == 0
    assert "finished, step 45 of 45" in capsys.readouterr().out
    assert main(["runs", "keep", str(out)]) == 0
    assert (out / folder_layout.CHECKPOINTS / "000000045" / folder_layout.KEEP).exists() or (
        out / folder_layout.CHECKPOINTS / "000000045-1" / folder_layout.KEEP
    ).exists()
    assert main(["runs", "keep", str(out), "--step", "999"]) == 2
    assert main(["runs", "export", str(out), str(tmp_path / "x.dgn")]) == 0
    with zipfile.ZipFile(tmp_path / "x.dgn") as archive:
        assert archive.testzip() is None
        assert {"run/run.json", "run/log.jsonl"} <= set(archive.namelist())
        archive.extractall(tmp_path / "elsewhere")
    assert find_damage(tmp_path / "elsewhere" / "run") == []
    assert main(["runs", "export", str(out), str(tmp_path / "x.csv")]) == 0
    assert (tmp_path / "x.csv").read_text().startswith("step,epoch,train_loss")
    assert main(["runs", "export", str(out), str(tmp_path / "x.doc")]) == 2
    assert main(["runs", "delete", str(out)]) == 2
    (out / "mine.txt").write_text("a stranger's file stays")
    (out / folder_layout.KEPT).mkdir()
    (out / folder_layout.KEPT / "best.safetensors").touch()
    assert main(["runs", "delete", str(out), "--yes"]) == 0
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    assert refused_command("runs", "delete", out, "--yes").kind == "no-run"


# A run that goes on from its folder is bit for bit the one that was never interrupted.


def config_of(regime="DL", **training):
    gating = GatingConfig(regime=regime, pretrain_epochs=1 if regime == "FL" else 0)
    return replace(SMALL, gating=gating, training=replace(SMALL.training, **training))


def fresh(config, recorded=False):
    return Run(1, config, lambda _: None, lambda *_: None, live=False, recorded=recorded)


def everything(run):
    tensors = {name: tensor.clone() for name, tensor in run.trainer.tensors().items()}
    return tensors, run.trainer.counters()


def assert_same(one, other):
    (tensors, counters), (theirs, their_counters) = everything(one), everything(other)
    assert tensors.keys() == theirs.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, theirs[name]), name
    assert counters == their_counters


@pytest.mark.wide
@pytest.mark.parametrize("optimiser", ["adam", "sgd", "rmsprop"])
@pytest.mark.parametrize("regime", ["ReLU", "soft-ReLU", "FR-II", "FR-DI", "FL", "DL"])
def test_a_restored_run_takes_the_same_steps(regime, optimiser):
    config = config_of(regime, optimiser=optimiser, momentum=0.9, batch=64)
    whole = fresh(config)
    for _ in range(15):
        whole.step()
    snapshot = capture_run(whole)
    for _ in range(20):  # into the second epoch, and for FL over the end of its pre-training
        whole.step()
    other = fresh(config, recorded=True)
    restore_run(other, snapshot)
    for _ in range(20):
        other.step()
    assert_same(whole, other)


def test_dials_wiring_and_draws_come_back(make_run):
    run = make_run("DL")
    for _ in range(3):
        run.step()
    run.control.set_beta(4.0)
    run.control.set_learning_rate(0.01)
    run.control.set_value_input("random")
    run.control.rewire_gates((2, 0, 1))
    run.control.swap_regime("FR-II", restart_value=False)
    run.step()
    other = fresh(run.config, recorded=True)
    restore_run(other, capture_run(run))
    assert other.trainer.network.gate == run.trainer.network.gate
    assert other.trainer.network.wiring == (2, 0, 1)
    for one in (run, other):
        for _ in range(4):
            one.step()
        one.control.swap_regime("FR-DI", restart_value=False)
        one.step()
    assert_same(run, other)


def test_a_pending_test_pass_is_taken_again(make_run, events):
    run = make_run("DL")
    while not run.evaluation.has_pending_test:
        run.advance()
    snapshot = capture_run(run)
    other_events = []
    other = Run(1, run.config, other_events.append, lambda *_: None, live=False, recorded=True)
    restore_run(other, snapshot)
    assert other.evaluation.has_pending_test
    for one in (run, other):
        while one.evaluation.has_pending_test:
            one.advance()
    assert events[-1] == other_events[-1]
    assert isinstance(events[-1], Measured)


@pytest.mark.parametrize("regime", [*nightly("DL"), "FL"])
def test_a_run_that_was_interrupted_ends_like_one_that_was_not(tmp_path, regime):
    config = config_of(regime)
    reference = train_new_run(tmp_path / "whole", config)
    train_new_run(tmp_path / "parts", config, StopAfter(30))
    continue_run(tmp_path / "parts", StopAfter(60))
    last = StopAfter()
    outcome = continue_run(tmp_path / "parts", last)
    assert outcome == reference
    continued = [event for event in last.events if isinstance(event, RunContinued)]
    assert [event.remark for event in continued] == [""]
    one, other = (RunReader(tmp_path / name) for name in ("whole", "parts"))
    assert one.measured_events == other.measured_events
    assert [e for e in one.events if isinstance(e, RegimeSwapped)] == [
        e for e in other.events if isinstance(e, RegimeSwapped)
    ]
    assert one.checkpoints[-1].finished
    assert other.checkpoints[-1].finished
    assert_same_weights(one, other)


def assert_same_weights(one, other):
    from safetensors.numpy import load

    found = [load((r.path / "weights.safetensors").read_bytes()) for r in (one, other)]
    assert found[0].keys() == found[1].keys()
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])


def test_a_run_without_a_checkpoint_begins_again_from_its_seed(tmp_path):
    train_new_run(tmp_path / "run", config_of(), StopAfter(20))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    assert continue_run(tmp_path / "run").step == 45
    reader = RunReader(tmp_path / "run")
    assert [event.step for event in reader.measured_events] == sorted(
        {event.step for event in reader.measured_events}
    )
    assert reader.status == "finished"


def test_other_data_are_refused(tmp_path):
    train_new_run(tmp_path / "run", config_of(), StopAfter(5))
    folder = RunFolder(tmp_path / "run")
    folder.info.tree = {**folder.info.tree, "data_fingerprint": "other"}
    with pytest.raises(UserError, match="fingerprint"):
        continue_run(folder, StopAfter(10))
    folder.close()


def test_why_a_continued_run_may_differ_is_said(tmp_path):
    train_new_run(tmp_path / "run", config_of(), StopAfter(5))
    folder = RunFolder(tmp_path / "run")
    versions = {**folder.info.tree["versions"], "torch": "1.0"}
    folder.info.tree = {**folder.info.tree, "versions": versions}
    again = StopAfter(10)
    continue_run(folder, again)
    told = next(event for event in again.events if isinstance(event, RunContinued))
    assert "torch was 1.0" in told.remark
