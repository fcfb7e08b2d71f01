"""A disk that is full at each operation of a recorded run, one after another: nothing is lost,
nothing is there twice, and what was synced stays.
"""

from __future__ import annotations

import math

import pytest

from dgn_engine.errors import UserError
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import log
from dgn_engine.storage.runs.log import decode_line
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from tests.daily import nightly
from tests.engine.storage.crashed_disk import crashes
from tests.engine.storage.recorded_disk import RecordedDisk, full_at
from tests.engine.storage.runs import short_run

LAST = 4  # steps: one checkpoint is removed


def lived_through(disk):
    """Recorded with every failure waited for; the folder's path."""
    path = disk.root / short_run.NAME
    recorder = short_run.SteppedRecorder(opened(path))
    for step in range(1, LAST + 1):
        recorder.note("Measured", to_plain(Measured(step, 0.0, 0.5, 0.5)))
        recorder.add_frame(short_run.frame(step))
        recorder.checkpoint(short_run.snapshot(step), "before FL" if step == 1 else "")
        recorder.mark()
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
    assert [event.step for event in reader.measured] == list(range(1, LAST + 1))
    names = [line.name for line in reader.log.lines]
    assert names.count("RecordingPaused") == names.count("RecordingResumed")
    assert list(short_run.harm(path)) == []
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
