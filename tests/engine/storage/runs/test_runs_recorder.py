"""The recorder under trouble, and what `dgn runs` does with what it left."""

from __future__ import annotations

import errno
import math
import os
from dataclasses import replace
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import load_file

from dgn_engine.cli import main
from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import BranchChanges
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.training import Measured, RegimeSwapped
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import verify
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.headless_run import HeadlessRun, planned_steps
from dgn_engine.training.readings.watch_budget import WatchBudget

SMALL = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(epochs=1, learning_rate=1e-3),
    probe_examples=20,
)
FAST = ["--width", "16", "--depth", "4", "--epochs", "1", "--quiet"]


class Deaf:
    def stepped(self, step):
        pass

    def on_event(self, event):
        pass


def trained(path, config=SMALL, probes=()):
    folder = RunFolder.create(path, config)
    return HeadlessRun(Deaf(), lambda: False, probes, checkpoint_every=0.0).train(config, folder)


def measured(step):
    return "Measured", to_plain(Measured(step, 0.0, 0.5, 0.5))


def failing(monkeypatch, name, code):
    """From now on this method of the folder fails, until the patch is undone."""

    def fail(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(RunFolder, name, fail)


def test_a_full_disk_leaves_training_as_it_was_and_is_told(tmp_path, monkeypatch, capsys):
    trained(tmp_path / "whole")
    out = tmp_path / "run"
    failing(monkeypatch, "note_all", errno.ENOSPC)
    assert main(["train", *FAST, "--lr", "1e-3", "--out", str(out)]) == 4
    captured = capsys.readouterr()
    assert "45 steps" in captured.out
    assert "No space left" in captured.err
    assert captured.err.count("\n") == 1


def test_swaps_leave_a_checkpoint_of_the_weights_before(tmp_path):
    config = replace(SMALL, gating=GatingConfig(regime="FL", pretrain_epochs=1))
    trained(tmp_path / "run", config)
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
    trained(tmp_path / "run", probes=("gates", "npk"))
    reader = RunReader(tmp_path / "run")
    frame = reader.latest_frame(10**6)
    assert set(frame.readings) == {"gates", "npk"}
    assert frame.readings["gates"].arrays["layer_0"].shape == (20, 16)
    assert {event.probe for event in reader.events if hasattr(event, "probe")} == {"gates", "npk"}


def steps_of_frames(path, config, **settings):
    """Frames of a run of a recorder whose clock stands still: none is due by time."""
    folder = RunFolder.create(path, config)
    HeadlessRun(Deaf(), lambda: False, ("npk",), checkpoint_every=0.0, **settings).train(
        config, folder
    )
    reader = RunReader(path)
    for stored in reader.frames:
        seen = reader.frame(stored.step)
        assert (seen.step, seen.readings["npk"].step) == (stored.step, stored.step)
    return [frame.step for frame in reader.frames]


class Stops(Deaf):
    """Asks to stop after so many steps."""

    def __init__(self, after):
        self.after, self.step = after, 0

    def stepped(self, step):
        self.step = step

    def asked(self):
        return self.step >= self.after


TEN_STEPS = replace(
    SMALL,
    data=DataConfig(train_limit=40, test_limit=10),
    training=replace(SMALL.training, batch=4),
)


HUNDRED_STEPS = replace(
    TEN_STEPS, training=replace(TEN_STEPS.training, epochs=10), probe_examples=4
)


class Kills(Deaf):
    """Ends the run by an exception after so many steps."""

    def __init__(self, after):
        self.after = after

    def stepped(self, step):
        if step == self.after:
            raise InterruptedError


def test_a_short_run_has_a_frame_of_every_step(tmp_path, monkeypatch):
    monkeypatch.setattr(WatchBudget, "interval", lambda *_: math.inf)
    assert steps_of_frames(tmp_path / "run", TEN_STEPS) == list(range(11))


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


def test_a_run_of_many_steps_keeps_frames_of_its_planned_steps_without_any_time_for_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(WatchBudget, "interval", lambda *_: math.inf)
    assert steps_of_frames(tmp_path / "run", HUNDRED_STEPS) == list(planned_steps(0, 100))


def test_a_run_that_goes_on_keeps_to_its_plan(tmp_path, monkeypatch):
    monkeypatch.setattr(WatchBudget, "interval", lambda *_: math.inf)
    out = tmp_path / "run"
    folder = RunFolder.create(out, HUNDRED_STEPS)
    first, then = planned_steps(0, 100)[20], planned_steps(0, 100)[30]
    stop = Stops(first)
    HeadlessRun(stop, stop.asked, ("npk",)).train(HUNDRED_STEPS, folder)
    folder.close()
    for stop in (Stops(then), Deaf()):
        HeadlessRun(stop, getattr(stop, "asked", lambda: False)).go_on(RunFolder(out))
    frames = [frame.step for frame in RunReader(out).frames]
    assert frames == list(planned_steps(0, 100))


def test_a_killed_run_that_goes_on_has_the_frames_of_its_plan(tmp_path):
    """Frames after its last checkpoint are made again, those before it are kept."""
    out = tmp_path / "run"
    folder = RunFolder.create(out, HUNDRED_STEPS)
    kills = Kills(planned_steps(0, 100)[25])
    with pytest.raises(InterruptedError):
        HeadlessRun(kills, lambda: False, ("npk",), checkpoint_every=0.0).train(
            HUNDRED_STEPS, folder
        )
    HeadlessRun(Deaf(), lambda: False).go_on(RunFolder(out))
    frames = [frame.step for frame in RunReader(out).frames]
    assert len(frames) == len(set(frames))
    assert set(planned_steps(0, 100)) <= set(frames)


def test_a_run_that_is_killed_while_data_are_read_goes_on_with_its_frames(tmp_path, monkeypatch):
    out = tmp_path / "run"
    folder, killed = RunFolder.create(out, HUNDRED_STEPS), HeadlessRun(Deaf(), bool, ("npk",))
    with monkeypatch.context() as patch:
        patch.setattr("dgn_engine.training.headless_run.Run", Mock(side_effect=InterruptedError))
        with pytest.raises(InterruptedError):
            killed.train(HUNDRED_STEPS, folder)
    folder.close()
    HeadlessRun(Deaf(), lambda: False).go_on(RunFolder(out))
    frames = [frame.step for frame in RunReader(out).frames]
    assert set(planned_steps(0, 100)) <= set(frames)


def test_a_branch_keeps_frames_from_where_it_began(tmp_path, monkeypatch):
    monkeypatch.setattr(WatchBudget, "interval", lambda *_: math.inf)
    parent, out = tmp_path / "parent", tmp_path / "branch"
    HeadlessRun(Deaf(), lambda: False).train(HUNDRED_STEPS, RunFolder.create(parent, HUNDRED_STEPS))
    HeadlessRun(Deaf(), lambda: False, ("npk",)).branch_off(
        parent, 100, BranchChanges(seed=1), out, 60
    )
    assert [frame.step for frame in RunReader(out).frames] == list(planned_steps(100, 160))


def test_a_frame_is_recorded_every_so_many_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(WatchBudget, "interval", lambda *_: math.inf)
    assert steps_of_frames(tmp_path / "a", TEN_STEPS, record_every=4) == [0, 4, 8, 10]
    monkeypatch.setattr(WatchBudget, "interval", lambda *_: 0.0)
    assert steps_of_frames(tmp_path / "b", TEN_STEPS, record_every=4) == [0, 4, 8, 10]


def test_an_interrupted_run_has_a_frame_of_its_last_step(tmp_path, monkeypatch):
    monkeypatch.setattr(WatchBudget, "interval", lambda *_: math.inf)
    folder = RunFolder.create(tmp_path / "run", TEN_STEPS)
    three = Stops(3)
    HeadlessRun(three, three.asked, ("npk",), record_every=9).train(TEN_STEPS, folder)
    reader = RunReader(tmp_path / "run")
    assert [frame.step for frame in reader.frames] == [0, 3]
    with pytest.raises(UserError, match=r"no frame of step 2; the nearest are of steps 0 and 3\."):
        reader.frame(2)
    assert repr(reader.frame(3)) == "<frame of step 3, epoch 0.3: npk of step 3>"


def test_a_run_that_goes_on_is_recorded_as_before(tmp_path, monkeypatch):
    monkeypatch.setattr(WatchBudget, "interval", lambda *_: math.inf)
    folder = RunFolder.create(tmp_path / "run", TEN_STEPS)
    three = Stops(3)
    HeadlessRun(three, three.asked, ("npk",), record_every=4).train(TEN_STEPS, folder)
    folder.close()
    HeadlessRun(Deaf(), lambda: False).go_on(RunFolder(tmp_path / "run"))
    reader = RunReader(tmp_path / "run")
    assert [frame.step for frame in reader.frames] == [0, 3, 4, 8, 10]
    assert all(list(reader.frame(step).readings) == ["npk"] for step in (0, 3, 4, 8, 10))


def test_a_run_that_goes_on_can_be_recorded_otherwise(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(WatchBudget, "interval", lambda *_: math.inf)
    out = tmp_path / "run"
    three = Stops(3)
    HeadlessRun(three, three.asked).train(TEN_STEPS, RunFolder.create(out, TEN_STEPS))
    assert main(["train", "--resume", str(out), "--record-every", "2"]) == 2
    assert "run was not recorded as frames before" in capsys.readouterr().err
    assert main(["train", "--resume", str(out), "--record", "npk, gates"]) == 0
    assert "Frames of 8 steps, 3 to 10." in capsys.readouterr().err
    assert set(RunReader(out).frame(10).readings) == {"npk", "gates"}


def test_a_frame_of_a_step_holds_nothing_that_was_read_before(tmp_path):
    folder = RunFolder.create(tmp_path / "run", TEN_STEPS)
    readings = {name: Reading(name, step) for name, step in (("npk", 30), ("gates", 50))}
    folder.add_frame(Frame(1, 50, 5.0, 0.0, None, readings))
    folder.close()
    reader = RunReader(tmp_path / "run")
    assert list(reader.frame(50).readings) == ["gates"]
    assert reader.latest_frame(60).readings["npk"].step == 30


def test_frames_are_counted_and_their_steps_said(tmp_path, capsys):
    out = tmp_path / "run"
    few = ["--width", "8", "--depth", "3", "--epochs", "1", "--train-limit", "40", "--batch", "4"]
    record = ["--record", "npk", "--record-every", "4", "--test-limit", "10"]
    assert main(["train", *few, *record, "--out", str(out)]) == 0
    assert "Frames of 4 steps, 0 to 10." in capsys.readouterr().err


def test_resume_writes_the_weights_of_a_finished_run_that_the_disk_did_not_take(tmp_path, capsys):
    out = tmp_path / "run"
    trained(out)
    wanted = load_file(out / folder_layout.WEIGHTS)
    (out / folder_layout.WEIGHTS).unlink()
    measured = RunReader(out).measured
    assert main(["train", "--resume", str(out)]) == 0
    found = load_file(out / folder_layout.WEIGHTS)
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    assert RunReader(out).measured == measured
    assert RunReader(out).status == "finished"
    assert main(["train", "--resume", str(out)]) == 0
    assert "is finished: 45 steps" in capsys.readouterr().out


def test_resume_writes_the_end_of_a_finished_run_that_the_disk_did_not_take(tmp_path, capsys):
    out = tmp_path / "run"
    trained(out)
    measured = RunReader(out).measured
    log = out / folder_layout.LOG
    lines = log.read_bytes().splitlines(keepends=True)
    first = next(place for place, line in enumerate(lines) if b'"Saved"' in line)
    assert b'"Finished"' in b"".join(lines[first:])
    log.write_bytes(b"".join(lines[:first]))
    assert RunReader(out).status == "interrupted"
    assert main(["train", "--resume", str(out)]) == 0
    assert RunReader(out).measured == measured
    assert RunReader(out).status == "finished"
    assert main(["train", "--resume", str(out)]) == 0
    assert "is finished: 45 steps" in capsys.readouterr().out


def test_a_run_is_shown_kept_exported_and_deleted(tmp_path, capsys):
    import zipfile

    out = tmp_path / "run"
    trained(out)
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
    assert verify(tmp_path / "elsewhere" / "run") == []
    assert main(["runs", "export", str(out), str(tmp_path / "x.csv")]) == 0
    assert (tmp_path / "x.csv").read_text().startswith("step,epoch,train_loss")
    assert main(["runs", "export", str(out), str(tmp_path / "x.doc")]) == 2
    assert main(["runs", "delete", str(out)]) == 2
    (out / "mine.txt").write_text("a stranger's file stays")
    (out / folder_layout.KEPT).mkdir()
    (out / folder_layout.KEPT / "best.safetensors").touch()
    assert main(["runs", "delete", str(out), "--yes"]) == 0
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    assert main(["runs", "delete", str(out), "--yes"]) == 2
    assert "nothing was deleted" in capsys.readouterr().err
