"""After a crash at any operation of a short recorded run, the run opens and goes on."""

from __future__ import annotations

import shutil

import pytest

from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.repair import repair
from dgn_engine.storage.runs.run_reader import RunReader
from tests.daily import nightly
from tests.engine.storage.crashed_disk import crashes, write_tree
from tests.engine.storage.recorded_disk import RecordedDisk
from tests.engine.storage.runs import short_run


def content_that_counts(tree):
    """Two trees that differ in the content of unfinished files alone go on alike."""
    return frozenset(
        (path, "" if path.endswith("/lock") or ".part" in path else content)
        for path, content in tree.items()
    )


def test_the_short_run_removes_checkpoints_and_frames(disk):
    with disk:
        short_run.record(disk)
    gone = [one.path for one in disk.operations if one.kind == "unlink"]
    assert any("/frames/" in path and not path.endswith(".part") for path in gone)
    assert any("/checkpoints/" in path for path in gone)
    kept = [one for one in disk.operations if one.kind == "promise"][-1].promise
    assert 0 in kept.checkpoints, "that before the regime changed"


@pytest.mark.parametrize("every", [23, *nightly(1)])
def test_a_run_goes_on_after_a_crash_at_any_operation(disk, tmp_path, every):
    with disk:
        short_run.record(disk)
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
        RunReader(path).checkpoints[-1].path.whole / folder_layout.TENSORS
    ),
    "frame": lambda path: zeroed(RunReader(path).frames[-1].path.whole),
}


def whats_sound(path):
    """Lines, checkpoints and frames by their numbers."""
    reader = RunReader(path)
    lines = {line.seq for line in reader.log.contents.lines}
    return lines, {one.order for one in reader.checkpoints}, {one.serial for one in reader.frames}


@pytest.mark.parametrize(
    ("damaged", "every"), [*((d, 17) for d in DAMAGES), *nightly(*((d, 1) for d in DAMAGES))]
)
def test_a_repair_that_crashes_anywhere_loses_nothing_that_the_next_one_saves(
    disk, tmp_path, damaged, every
):
    with disk:
        path = short_run.record(disk)
    DAMAGES[damaged](path)
    whole = shutil.copytree(disk.root, tmp_path / "whole")
    repair(whole / "runs" / short_run.NAME)
    expected = whats_sound(whole / "runs" / short_run.NAME)
    again = RecordedDisk(disk.root)
    with again:
        repair(path)
    count = 0
    for crash in crashes(again.before, again.operations, every=every):
        place = write_tree(crash.tree, tmp_path / "crashed")
        try:
            repair(place / "runs" / short_run.NAME)
            assert list(short_run.harm(place / "runs" / short_run.NAME)) == []
            assert whats_sound(place / "runs" / short_run.NAME) == expected
        except BaseException as error:
            error.add_note(f"crash after {again.operations[: crash.after][-3:]}, {crash.how}")
            raise
        shutil.rmtree(place)
        count += 1
    assert count > 5 // every
