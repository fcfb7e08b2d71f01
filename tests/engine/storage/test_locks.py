"""Locks of run folders: who holds one, what a stranger's lock means, where there are no locks."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.errors import UserError
from dgn_engine.storage import lock
from dgn_engine.storage.inner_path import LinkInside
from dgn_engine.storage.lock import Lock, LockHeldError, LockHolder, find_lock_holder, last_holder

HERE = platform.node()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def left(path: Path, **given: Any) -> LockHolder:
    """A lock that somebody wrote and did not release."""
    path.touch()
    fields = {"pid": 2**22 + 5, "host": HERE, "boot": lock.boot_id(), "inode": path.stat().st_ino}
    owner = LockHolder(**{**fields, **given})
    path.write_text(json.dumps(vars(owner)))
    return owner


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has none."""

    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)


def test_a_lock_names_its_holder_until_it_is_released(path: Path) -> None:
    held = Lock(path)
    held.acquire()
    owner = LockHolder(os.getpid(), HERE, lock.boot_id(), path.stat().st_ino)
    assert find_lock_holder(path) == last_holder(path) == owner
    held.reacquire()  # the same file
    with pytest.raises(LockHeldError) as refused:
        Lock(path).acquire()
    assert f"{path.parent} is" in str(refused.value)
    assert f"process {os.getpid()} on {HERE}." in str(refused.value)
    assert (refused.value.kind, refused.value.elsewhere) == ("in-use", None)
    held.release()
    held.release()
    assert path.read_bytes() == b""
    assert find_lock_holder(path) is last_holder(path) is None


def test_a_lock_that_was_not_released_is_taken_where_nobody_holds_it(path: Path) -> None:
    owner = left(path)
    assert last_holder(path) == owner
    assert find_lock_holder(path) is None
    assert lock.is_abandoned(path)
    mine = Lock(path)
    mine.acquire()
    assert not lock.is_abandoned(path)
    mine.release()
    assert not lock.is_abandoned(path)  # nobody wrote it


@pytest.mark.parametrize("change", [{"host": "elsewhere"}, {"inode": 1}])
def test_a_lock_of_another_machine_or_a_copied_one_is_not_abandoned(
    path: Path, change: dict[str, Any]
) -> None:
    left(path, **change)
    assert not lock.is_abandoned(path)


def test_a_lock_of_another_machine_is_respected_with_what_to_do(path: Path) -> None:
    owner = left(path, host="elsewhere", pid=7)
    with pytest.raises(LockHeldError) as refused:
        Lock(path).acquire()
    assert all(
        words in str(refused.value) for words in ("process 7 on elsewhere", f"delete {path}")
    )
    assert refused.value.elsewhere == owner
    assert last_holder(path) == owner  # it is left as it is
    left(path, host="elsewhere", inode=1)  # a copy of its folder
    mine = Lock(path)
    mine.acquire()
    mine.release()


def test_a_lock_of_a_dead_process_elsewhere_is_emptied_and_no_other(path: Path) -> None:
    lock.free_lock(path, 7, "elsewhere")  # there is none
    assert not path.exists()
    owner = left(path, host="elsewhere", pid=7)
    for pid, host in ((8, "elsewhere"), (7, "nowhere")):
        lock.free_lock(path, pid, host)
        assert last_holder(path) == owner
    lock.free_lock(path, 7, "elsewhere")
    assert path.read_bytes() == b""
    mine = left(path, pid=7)
    lock.free_lock(path, 7, HERE)
    assert last_holder(path) == mine


@pytest.mark.usefixtures("without_locks")
def test_without_locks_the_process_is_asked_for(path: Path) -> None:
    left(path, pid=os.getpid())
    assert find_lock_holder(path) is not None
    with pytest.raises(LockHeldError):
        Lock(path).acquire()
    left(path, pid=os.getpid(), boot="another")  # numbers of processes are given again
    assert find_lock_holder(path) is None
    left(path)
    assert find_lock_holder(path) is None
    mine = Lock(path)
    mine.acquire()
    mine.release()


@pytest.mark.usefixtures("without_locks")
def test_a_process_of_another_user_lives_as_well(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    left(path)
    monkeypatch.setattr(os, "kill", forbidden)
    assert find_lock_holder(path) is not None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff"])
def test_nonsense_in_a_lock_is_nobody(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert find_lock_holder(path) is last_holder(path) is None
    assert not lock.is_abandoned(path)
    mine = Lock(path)
    mine.acquire()
    mine.release()


def test_nothing_is_locked_through_a_link_or_in_no_folder(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    path.symlink_to(tmp_path / "other")
    for act in (Lock(path).acquire, lambda: lock.is_abandoned(path)):
        with pytest.raises(LinkInside) as link:
            act()
        assert link.value.within == "lock"
    assert find_lock_holder(path) is None
    with pytest.raises(FileNotFoundError):
        Lock(tmp_path / "no" / "lock").acquire()


def test_a_folder_that_was_away_is_locked_again_or_the_reason_is_an_error(
    path: Path, tmp_path: Path
) -> None:
    held = Lock(path)
    held.acquire()
    path.rename(tmp_path / "away")
    held.reacquire()
    assert find_lock_holder(path) is not None
    path.unlink()
    left(path, host="elsewhere", pid=7)
    with pytest.raises(OSError, match="process 7 on elsewhere"):
        held.reacquire()
    held.release()
    assert issubclass(LockHeldError, UserError)


def test_asking_who_writes_refuses_no_writer(path: Path) -> None:
    left(path, pid=os.getpid())  # a living process, which is asked about with a lock
    over, asked = threading.Event(), threading.Event()

    def ask() -> None:
        while not over.is_set():
            find_lock_holder(path)
            lock.is_abandoned(path)
            asked.set()

    askers = [threading.Thread(target=ask) for _ in range(2)]
    for one in askers:
        one.start()
    try:
        assert asked.wait(60)
        for _ in range(40):
            mine = Lock(path)
            mine.acquire()
            mine.release()
            left(path, pid=os.getpid())
    finally:
        over.set()
        for one in askers:
            one.join()


def test_a_second_writer_is_refused_at_once_while_others_ask(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 1e9)
    mine = Lock(path)
    mine.acquire()
    with pytest.raises(LockHeldError):
        Lock(path).acquire()
    mine.release()


def test_one_who_asks_for_ever_is_a_writer_after_a_while(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.01)
    left(path, pid=os.getpid())
    with path.open() as asker:
        fcntl.flock(asker, fcntl.LOCK_SH)
        with pytest.raises(LockHeldError):
            Lock(path).acquire()


def test_a_lock_whose_name_was_given_away_meanwhile_is_taken_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seize, times = lock._try_lock, iter(range(9))

    def slow(handle: int, owner: LockHolder | None, ask: bool = False) -> bool:
        seized = seize(handle, owner, ask)
        if next(times) < 2:  # somebody deletes it, and another makes one
            path.unlink()
            path.touch()
        return seized

    monkeypatch.setattr(lock, "_try_lock", slow)
    mine = Lock(path)
    mine.acquire()
    assert mine.is_named
    monkeypatch.undo()
    with pytest.raises(LockHeldError):
        Lock(path).acquire()
    path.unlink()
    assert not mine.is_named
    mine.reacquire()
    assert mine.is_named
    mine.release()


_FORKING = """
import os, sys, time
from pathlib import Path
from dgn_engine.storage.lock import Lock
mine = Lock(Path(sys.argv[1]))
mine.acquire()
child = os.fork()
if not child:
    os.close(1)
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
if sys.argv[2] == "released":
    mine.release()
    Lock(Path(sys.argv[1])).acquire()
    print("taken again", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("ended", ["released", "died"])
def test_a_forked_child_does_not_keep_the_lock(path: Path, ended: str) -> None:
    made = subprocess.run(
        [sys.executable, "-c", _FORKING, str(path), ended], stdout=subprocess.PIPE, text=True
    )
    child, *said = made.stdout.splitlines()
    try:
        assert said == (["taken again"] if ended == "released" else [])
        os.kill(int(child), 0)  # it lives
        again = Lock(path)
        again.acquire()
        again.release()
    finally:
        os.kill(int(child), signal.SIGKILL)
