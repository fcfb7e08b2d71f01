"""What the recorded disk sees, and what it makes of a crash."""

from __future__ import annotations

import errno
import io
import os
import shutil

import pytest

from tests.engine.storage.crashed_disk import crashes
from tests.engine.storage.recorded_disk import full_at


def kinds(disk):
    return [(one.kind, one.path) for one in disk.operations]


def test_bytes_are_written_when_they_leave_the_program(disk):
    with disk, (disk.root / "a").open("wb") as file:
        file.write(b"one")
        file.write(b"two")
        assert kinds(disk) == [("create", "a")]
        os.fsync(file.fileno())
        file.flush()
    assert kinds(disk) == [("create", "a"), ("fsync", "a"), ("write", "a")]
    assert disk.operations[-1].content == b"onetwo"


def test_every_way_to_write_is_seen(disk):
    (disk.root / "there").write_bytes(b"before")
    disk.__init__(disk.root)
    with disk:
        (disk.root / "text").write_text("text")
        with open(disk.root / "text", "a") as file:  # noqa: PTH123 - another way
            file.write("more")
        with io.FileIO(disk.root / "there", "r+") as file:
            file.seek(3)
            file.write(b"XY")
            file.truncate(5)
        handle = os.open(disk.root / "low", os.O_RDWR | os.O_CREAT)
        os.write(handle, b"low")
        os.pwrite(handle, b"L", 0)
        os.ftruncate(handle, 2)
        os.close(handle)
        (disk.root / "a" / "b").mkdir(parents=True)
        shutil.copyfile(disk.root / "low", disk.root / "a" / "b" / "copy")
        shutil.copytree(disk.root / "a", disk.root / "c")
        (disk.root / "a" / "b").rename(disk.root / "d")
        shutil.rmtree(disk.root / "c")
        (disk.root / "text").unlink()
    assert disk.tree() == {
        **{"a": None, "d": None, "d/copy": b"Lo", "low": b"Lo"},
        "there": b"befXY",
    }


def test_what_is_written_unseen_fails_the_test(disk):
    real = os.open  # taken before the disk is recorded
    with pytest.raises(AssertionError, match="not recorded"), disk:
        os.close(real(disk.root / "a", os.O_CREAT | os.O_WRONLY))


def contents(disk, name="a"):
    """What may be there under a name when all is done; None: nothing."""
    crashed = list(crashes(disk.before, disk.operations))
    return {one.tree.get(name) for one in crashed if one.after == len(disk.operations)}


def test_a_new_name_is_safe_when_its_folder_was_synced(disk):
    with disk:
        (disk.root / "a").write_bytes(b"x")
        disk.promise("written")
    assert contents(disk) == {None, b"", b"x"}
    with disk:
        with (disk.root / "a").open("rb+") as file:
            os.fsync(file.fileno())
        handle = os.open(disk.root, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        disk.promise("synced")
    assert contents(disk) == {b"x"}


def test_a_rename_without_a_sync_may_leave_an_empty_file(disk):
    with disk:
        (disk.root / "part").write_bytes(b"new")
        (disk.root / "part").rename(disk.root / "a")
        disk.promise("renamed")
    assert contents(disk) == {None, b"", b"new"}


def test_writes_before_a_sync_that_failed_are_not_saved_by_the_next(disk):
    with disk, (disk.root / "a").open("wb", buffering=0) as file:
        os.fsync(os.open(disk.root, os.O_RDONLY))
        file.write(b"old")
        disk.fails = full_at(disk.asked)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            os.fsync(file.fileno())
        os.fsync(file.fileno())
        disk.promise("synced at last")
        assert contents(disk) == {b"", b"old"}
        file.seek(0)
        file.write(b"old")
        os.fsync(file.fileno())
        disk.promise("written again")
        assert contents(disk) == {b"old"}


def test_half_of_what_fails_may_be_written(disk):
    disk.fails, disk.torn = full_at(1), True
    with disk, pytest.raises(OSError, match="space"):
        (disk.root / "a").write_bytes(b"abcd")
    assert (disk.root / "a").read_bytes() == b"ab"
