"""In which order a run reaches the disk, by the operations that a short one asked for."""

from __future__ import annotations

import json
import re

import pytest

from dgn_engine.storage.atomic_write import save_file
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import KEY
from dgn_engine.storage.session_file.session_reader import adopt_run
from tests.engine.storage.crashed_disk import unsynced
from tests.engine.storage.recorded_disk import DATA, RecordedDisk, replay
from tests.engine.storage.runs import short_run

RUN = f"runs/{short_run.NAME}"
LOG = f"{RUN}/{folder_layout.LOG}"
NEW_CHECKPOINT = re.compile(rf"{RUN}/{folder_layout.CHECKPOINTS}/[0-9]+(-[0-9]+)?")


@pytest.fixture
def recorded(disk):
    with disk:
        short_run.record_run(disk)
    return disk


def before_each(disk, kind):
    """Each operation of a kind, with those before it."""
    for number, one in enumerate(disk.operations):
        if one.kind == kind:
            yield one, disk.operations[:number]


def assert_renamed_when_synced(disk):
    renamed = 0
    for one, before in before_each(disk, "rename"):
        content, names = unsynced(before, 0)
        replaced = {op.to for op in before if op.kind == "rename"}
        inside = {
            op.inode
            for op in before
            if op.path.startswith(f"{one.path}/")
            and (op.kind == "rename" or op.path not in replaced)
        }
        assert not ({one.inode} | inside) & content.keys(), f"{one.path} is renamed, not synced"
        assert not ({one.inode} | inside) & names.keys(), f"{one.path} is renamed, not synced"
        renamed += 1
    assert renamed


def assert_named_when_promised(disk):
    """When something is said to be done, no new name is unsynced but of what is not finished."""
    for _, before in before_each(disk, "promise"):
        _, names = unsynced(before, 0)
        open_ends = [before[number] for numbers in names.values() for number in numbers]
        kept = [one for one in open_ends if one.kind not in ("unlink", "rmdir")]
        assert [one for one in kept if ".part" not in (one.to or one.path)] == []


def test_nothing_is_renamed_before_it_is_synced(recorded):
    assert_renamed_when_synced(recorded)


def test_every_new_name_is_synced_when_something_is_done(recorded):
    assert_named_when_promised(recorded)


def test_the_log_is_synced_before_a_checkpoint_gets_its_name(recorded):
    log = recorded.inode(recorded.root / LOG)
    found = 0
    for one, before in before_each(recorded, "rename"):
        if NEW_CHECKPOINT.fullmatch(one.to):
            assert log not in unsynced(before, 0)[0]
            found += 1
    assert found == 5


def test_the_log_grows_at_its_end_alone(recorded):
    log, size = recorded.inode(recorded.root / LOG), 0
    for one in recorded.operations:
        if one.inode == log and one.kind in DATA:
            assert one.place == size
            size += len(one.content)


def test_only_the_log_and_the_lock_are_written_in_their_place(recorded):
    written = {one.path for one in recorded.operations if one.kind in DATA}
    in_place = {path for path in written if ".part" not in path}
    assert in_place == {LOG, f"{RUN}/{folder_layout.LOCK}"}


def infos(disk):
    """Each `run.json` as it came to be, and how many operations came before."""
    for number, one in enumerate(disk.operations, 1):
        if one.kind == "rename" and one.to == f"{RUN}/{folder_layout.RUN}":
            tree = replay([*disk.before, *disk.operations[:number]])
            yield json.loads(tree[one.to]), number


def changes(operations):
    """What changes the run itself: neither the lock, nor what is not finished, nor `run.json`."""
    own = (f"{RUN}/{folder_layout.LOCK}", f"{RUN}/{folder_layout.RUN}")
    for one in operations:
        name = one.to or one.path
        empty = one.kind == "truncate" and one.path == LOG  # a torn line, of which there is none
        if one.kind in ("promise", "fsync") or ".part" in name or name in own or empty:
            continue
        yield one


def test_the_manifest_is_taken_out_before_a_change_and_comes_back_last(recorded):
    (first, at_first), (second, at_second), (last, at_last) = infos(recorded)
    assert KEY in first
    assert KEY not in second
    assert KEY in last
    assert list(changes(recorded.operations[at_first:at_second])) == []
    assert list(changes(recorded.operations[at_last:])) == []
    for at in (at_first, at_last):
        content, _ = unsynced(recorded.operations[:at], 0)
        assert recorded.inode(recorded.root / LOG) not in content


def test_a_removed_checkpoint_loses_its_name_for_good_before_its_files(recorded):
    gone = [one for one in recorded.operations if one.to.endswith(".gone.part")]
    assert gone
    for one in gone:
        after = recorded.operations[recorded.operations.index(one) + 1 :]
        synced = next(
            n for n, op in enumerate(after) if (op.kind, op.inode) == ("fsync", one.folder)
        )
        inside = [n for n, op in enumerate(after) if op.path.startswith(f"{one.to}/")]
        assert inside
        assert synced < min(inside)


def test_a_file_that_is_saved_is_there_with_its_folders_after_a_crash(disk):
    with disk:
        save_file(disk.root / "a" / "b" / "weights.safetensors", b"weights")
        disk.promise("saved")
    assert_renamed_when_synced(disk)
    assert_named_when_promised(disk)


def test_a_session_that_is_adopted_is_synced_before_it_gets_its_name(disk, tmp_path):
    with disk:
        path = short_run.record_run(disk)
    (tmp_path / "runs").mkdir()
    copied = RecordedDisk(tmp_path / "runs")
    with copied:
        adopt_run(path, tmp_path / "runs" / "mine", "opened")
        copied.promise("adopted")
    assert_renamed_when_synced(copied)
    assert_named_when_promised(copied)
