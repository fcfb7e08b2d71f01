"""After a crash at any operation of a short recorded run, the run opens and goes on."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace

import pytest
import safetensors.numpy

from dgn_engine.config import DataConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import folder_layout, log
from dgn_engine.storage.runs.log import decode_line
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training import recording
from dgn_engine.training.headless_run import HeadlessRun
from tests.daily import nightly
from tests.engine.conftest import SMALL
from tests.engine.storage.crashed_disk import crashes, write_tree
from tests.engine.storage.recorded_disk import RecordedDisk, full_at
from tests.engine.storage.runs import short_run


def content_that_counts(tree):
    """Two trees that differ in the content of unfinished files alone go on alike."""
    return frozenset(
        (path, "" if path.endswith("/lock") or ".part" in path else content)
        for path, content in tree.items()
    )


def test_the_short_run_removes_checkpoints_and_frames(disk):
    with disk:
        short_run.record_run(disk)
    gone = [one.path for one in disk.operations if one.kind == "unlink"]
    assert any("/frames/" in path and not path.endswith(".part") for path in gone)
    assert any("/checkpoints/" in path for path in gone)
    kept = [one for one in disk.operations if one.kind == "promise"][-1].promise
    assert 0 in kept.checkpoints, "that before the regime changed"


@pytest.mark.parametrize("every", [23, *nightly(1)])
def test_a_run_goes_on_after_a_crash_at_any_operation(disk, tmp_path, every):
    with disk:
        short_run.record_run(disk)
    promises = [one.promise for one in disk.operations if one.kind == "promise"]
    gone_on = set()
    for crash in crashes(disk.before, disk.operations, every=every):
        place = write_tree(crash.tree, tmp_path / "crashed")
        path = place / "runs" / short_run.NAME
        key = content_that_counts(crash.tree)
        try:
            if not crash.promises:
                if path.exists():
                    RunReader(path)
            else:
                later = promises[min(len(crash.promises), len(promises) - 1)]
                promise = crash.promises[-1].common(later)
                short_run.assert_kept(path, promise, crash.ordered)
                if key not in gone_on:
                    gone_on.add(key)
                    short_run.assert_goes_on(path, promise, crash.ordered)
        except BaseException as error:
            error.add_note(f"crash after {disk.operations[: crash.after][-3:]}, {crash.how}")
            raise
        shutil.rmtree(place)
    assert len(gone_on) > 100 // every


def zeroed(path):
    path.write_bytes(bytes(path.stat().st_size))


def damage_line(log):
    lines = log.read_bytes().split(b"\n")
    lines[1] = bytes(len(lines[1]))
    log.write_bytes(b"\n".join(lines))


DAMAGES = {
    "log": lambda path: damage_line(path / folder_layout.LOG),
    "description": lambda path: zeroed(path / folder_layout.RUN),
    "configuration": lambda path: zeroed(path / folder_layout.CONFIG),
    "checkpoint": lambda path: zeroed(
        RunReader(path).checkpoints[-1].path.full_path / folder_layout.TENSORS
    ),
    "frame": lambda path: zeroed(RunReader(path).frames[-1].path.full_path),
}


def whats_sound(path):
    """Lines, checkpoints and frames by their numbers."""
    reader = RunReader(path)
    lines = {line.seq for line in reader.log.all_contents.lines}
    return lines, {one.order for one in reader.checkpoints}, {one.serial for one in reader.frames}


@pytest.mark.parametrize(
    ("damaged", "every"), [*((d, 17) for d in DAMAGES), *nightly(*((d, 1) for d in DAMAGES))]
)
def test_a_repair_that_crashes_anywhere_loses_nothing_that_the_next_one_saves(
    disk, tmp_path, damaged, every
):
    with disk:
        path = short_run.record_run(disk)
    DAMAGES[damaged](path)
    whole = shutil.copytree(disk.root, tmp_path / "whole")
    repair_run_folder(whole / "runs" / short_run.NAME)
    expected = whats_sound(whole / "runs" / short_run.NAME)
    again = RecordedDisk(disk.root)
    with again:
        repair_run_folder(path)
    count = 0
    for crash in crashes(again.before, again.operations, every=every):
        place = write_tree(crash.tree, tmp_path / "crashed")
        try:
            repair_run_folder(place / "runs" / short_run.NAME)
            assert list(short_run.find_harm(place / "runs" / short_run.NAME)) == []
            assert whats_sound(place / "runs" / short_run.NAME) == expected
        except BaseException as error:
            error.add_note(f"crash after {again.operations[: crash.after][-3:]}, {crash.how}")
            raise
        shutil.rmtree(place)
        count += 1
    assert count > 5 // every


# A real run ends bit for bit as if there had been no crash.

CONFIG = replace(
    SMALL,
    data=DataConfig("digits", train_limit=60, test_limit=20),
    training=replace(SMALL.training, batch=10),
    probe_examples=4,
)


class Patient:
    """Waits after each step until its checkpoint is written."""

    def on_step(self, _):
        assert self.run._recording._recorder.flush()

    def on_event(self, event):
        pass


def headless():
    watcher = Patient()
    watcher.run = HeadlessRun(watcher, lambda: False, ("gates",), checkpoint_every=0.0)
    return watcher.run


def steps_of(tree):
    """What a run can go on from: its checkpoints, and whether its last weights are there."""
    ending = f"/{folder_layout.MANIFEST}"
    names = frozenset(path for path in tree if path.endswith(ending) and ".part" not in path)
    return names, f"run/{folder_layout.WEIGHTS}" in tree


def result(path):
    weights = safetensors.numpy.load((path / folder_layout.WEIGHTS).read_bytes())
    reader = RunReader(path)
    assert reader.status == "finished"
    assert find_damage(path) == []
    return reader.measured_events, {name: array.tobytes() for name, array in weights.items()}


@pytest.mark.parametrize("every", [13, *nightly(1)])
def test_a_run_that_crashed_anywhere_ends_as_if_it_had_not(disk, tmp_path, monkeypatch, every):
    monkeypatch.setattr(recording, "COPY_SHARE", math.inf)  # a checkpoint at every step, always
    with disk:
        headless().train(CONFIG, RunFolder.create(disk.root / "run", CONFIG))
    expected = result(disk.root / "run")
    seen = set()
    for crash in crashes(disk.before, disk.operations, every=every):
        key = steps_of(crash.tree)
        if key in seen or f"run/{folder_layout.RUN}" not in crash.tree or not crash.ordered:
            continue
        seen.add(key)
        path = write_tree(crash.tree, tmp_path / "crashed") / "run"
        headless().continue_folder(RunFolder(path))
        assert result(path) == expected, (disk.operations[: crash.after][-3:], crash.how)
        shutil.rmtree(path.parent)
    assert len(seen) > 4 // every


# A disk that is full at each operation: nothing is lost or there twice, and what was synced stays.

LAST = 4  # steps: one checkpoint is removed


def lived_through(disk):
    """Recorded with every failure waited for; the folder's path."""
    path = disk.root / short_run.NAME
    recorder = short_run.SteppedRecorder(opened(path))
    for step in range(1, LAST + 1):
        recorder.write_note("Measured", to_plain(Measured(step, 0.0, 0.5, 0.5)))
        recorder.add_frame(short_run.make_frame(step))
        recorder.save_checkpoint(short_run.make_snapshot(step), "before FL" if step == 1 else "")
        recorder.mark_written()
        recorder.work(tries=20)
        disk.promise(step)
    recorder.folder.close()
    return path


def opened(path):
    """A new run, tried until the disk has room; what failed has left a whole run or nothing."""
    for _ in range(20):
        try:
            if path.exists():
                return RunFolder(path, frames_cap=short_run.CAP)
            return RunFolder.create(path, short_run.CONFIG, frames_cap=short_run.CAP)
        except UserError:
            assert not path.exists() or RunReader(path).log.lines == ()
    raise AssertionError("the disk has room by now")


def disk_below(root, name):
    (root / name).mkdir()
    return RecordedDisk(root / name)


def assert_nothing_lost(path):
    reader = RunReader(path)
    assert [event.step for event in reader.measured_events] == list(range(1, LAST + 1))
    names = [line.name for line in reader.log.lines]
    assert names.count("RecordingPaused") == names.count("RecordingResumed")
    assert list(short_run.find_harm(path)) == []
    steps = [one.step for one in reader.checkpoints]
    assert steps == sorted(steps)
    assert {1, LAST} <= set(steps)
    assert reader.checkpoints[0].kept == "before FL"
    orders = [one.order for one in reader.checkpoints]
    serials = [one.serial for one in reader.frames]
    frames = [one.step for one in reader.frames]
    for numbers in (orders, serials, frames):
        assert numbers == sorted(set(numbers))


def assert_synced_stays(disk):
    """Where all that is unsynced is lost, at each moment when something was said to be done."""
    for number, one in enumerate(disk.operations, 1):
        if one.kind != "promise":
            continue
        for crash in crashes(disk.before, disk.operations[:number], first=number):
            lines = crash.tree[f"{short_run.NAME}/log.jsonl"]
            sound = [decode_line(line) for line in lines.split(b"\n")[:-1]]
            steps = {line.fields["step"] for line in sound if line and line.name == "Measured"}
            assert steps >= set(range(1, one.promise + 1)), (one.promise, crash.how)
            states = [path for path in crash.tree if path.endswith("/state.json")]
            assert any(f"/{one.promise:09}" in path for path in states), crash.how


@pytest.fixture(params=[math.inf, 0.0], ids=["synced when asked", "synced at each line"])
def kinds(request, disk, monkeypatch):
    """What is asked for where nothing fails."""
    monkeypatch.setattr(log, "SYNC_EVERY", request.param)
    asked = []
    disk.fails = lambda _, kind: asked.append(kind) or 0
    with disk:
        assert_nothing_lost(lived_through(disk))
    return asked


def assert_lived_through(root, number, torn=False, width=1):
    disk = disk_below(root, f"full-{number}")
    disk.fails, disk.torn = full_at(*range(number, number + width)), torn
    try:
        with disk:
            path = lived_through(disk)
        assert_nothing_lost(path)
        assert_synced_stays(disk)
    except BaseException as error:
        error.add_note(f"operation {number} failed")
        raise


@pytest.mark.parametrize("every", [13, *nightly(1)])
def test_a_disk_that_is_full_at_any_operation_loses_nothing(kinds, tmp_path, every):
    assert {"create", "mkdir", "write", "truncate", "fsync", "rename", "unlink"} <= set(kinds)
    for number in range(0, len(kinds), every):
        assert_lived_through(tmp_path, number)


@pytest.mark.parametrize("every", [9, *nightly(1)])
def test_half_of_any_write_loses_nothing(kinds, tmp_path, every):
    for number in [n for n, kind in enumerate(kinds) if kind == "write"][::every]:
        assert_lived_through(tmp_path, number, torn=True)


@pytest.mark.parametrize("every", [25, *nightly(4)])
def test_a_disk_that_is_full_for_a_while_loses_nothing(kinds, tmp_path, every):
    for number in range(0, len(kinds), every):
        assert_lived_through(tmp_path, number, width=7)
