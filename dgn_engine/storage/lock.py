"""Lock a run's folder for one writer; the lock names its process and ends with it."""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.inner_path import FilePath, InnerPath, as_inner_path
from dgn_engine.storage.plain_data import from_plain, to_plain

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PATIENCE = 5.0  # seconds that a writer waits for processes that only query the lock
_TICK = 0.001
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True)
class LockHolder:
    """The writer of a lock. `inode`: of the lock file, so that a copied folder is not locked."""

    pid: int
    host: str
    boot: str
    inode: int

    def is_process(self, pid: int) -> bool:
        """Return whether it is this process of this machine since boot: process ids are reused."""
        return (self.pid, self.host, self.boot) == (pid, platform.node(), boot_id())


class LockHeldError(UserError):
    """Another process writes.

    `elsewhere`: the process of another machine that wrote the lock; it may be dead, which cannot be
    seen from here.
    """

    def __init__(self, sentence: str, elsewhere: LockHolder | None = None) -> None:
        super().__init__(sentence, kind="in-use")
        self.elsewhere = elsewhere


class Lock:
    """A lock from `acquire` to `release`, or to the end of the process, however it ends."""

    def __init__(self, path: FilePath) -> None:
        self._path = as_inner_path(path)
        self._handle: int | None = None
        _LOCKS.add(self)

    def acquire(self) -> None:
        """Lock; raises `LockHeldError` if another process writes, `OSError` without a file."""
        until = time.monotonic() + PATIENCE
        while not self._take_named(time.monotonic() > until):
            time.sleep(_TICK)

    def _take_named(self, last: bool) -> bool:
        """Lock the file of this name; False if it was replaced meanwhile or is being queried."""
        handle = self._path.open(os.O_RDWR | os.O_CREAT)
        try:
            owner = _read_owner(handle)
            if not _try_lock(handle, owner):
                if not last and _is_only_asked(handle):
                    os.close(handle)
                    return False
                elsewhere = owner is not None and owner.host != platform.node()
                raise LockHeldError(
                    f"{self._path.parent} is being written by {_describe_owner(owner)}.",
                    owner if elsewhere else None,
                )
            if not _is_same_file(handle, self._path):
                if last:
                    raise OSError(errno.ESTALE, f"{self._path.name} keeps being replaced")
                os.close(handle)
                return False
            _require_not_elsewhere(self._path, _read_owner(handle))
            ours = LockHolder(os.getpid(), platform.node(), boot_id(), os.fstat(handle).st_ino)
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(to_plain(ours)).encode(), 0)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return True

    @property
    def is_named(self) -> bool:
        """Return False if this name now belongs to another file, which another may hold."""
        return self._handle is not None and _is_same_file(self._handle, self._path)

    def reacquire(self) -> None:
        """Lock the file that is there now: the folder may have been gone and come back."""
        if self.is_named:
            return
        self.release()
        try:
            self.acquire()
        except UserError as refusal:
            raise OSError(None, str(refusal)) from None

    def release(self) -> None:
        """Empty the file and unlock it; an empty lock is free."""
        if self._handle is None:
            return
        with suppress(OSError):  # a full disk or a missing folder must not stop the program
            os.ftruncate(self._handle, 0)
        _unlock_file(self._handle)
        self.close_handle()

    def close_handle(self) -> None:
        """Close the file without unlocking it for others that have it open, such as forks."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


# The locks of this process. flock belongs to the open file, which forked processes share: a
# DataLoader worker would hold the lock of a run for as long as it lives.
_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


def _close_in_child() -> None:
    for lock in list(_LOCKS):
        lock.close_handle()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def find_lock_holder(path: FilePath) -> LockHolder | None:
    """Return who writes now, or None, without locking."""
    return _find_holder(path, lambda handle, owner: not _try_lock(handle, owner, ask=True))


def last_holder(path: FilePath) -> LockHolder | None:
    """Return who wrote an unreleased lock, dead or alive; None if nobody or it was copied."""
    return _find_holder(path, lambda handle, owner: owner.inode == os.fstat(handle).st_ino)


def is_abandoned(path: FilePath) -> bool:
    """Return whether a process of this machine wrote this lock and died before releasing it.

    Follows no link and does not lock. Raises `OSError`.
    """
    with _open_lock(path, os.O_RDONLY) as (handle, owner):
        if owner is None or owner.host != platform.node() or owner.inode != os.fstat(handle).st_ino:
            return False
        return _try_lock(handle, owner, ask=True)


def free_lock(path: FilePath, pid: int, host: str) -> None:
    """Empty a lock left by this process of another machine, which is known to be dead."""
    with suppress(FileNotFoundError), _open_lock(path, os.O_RDWR) as (handle, owner):
        if owner is not None and (owner.pid, owner.host) == (pid, host) and host != platform.node():
            os.ftruncate(handle, 0)


def _find_holder(path: FilePath, counts: Callable[[int, LockHolder], bool]) -> LockHolder | None:
    with suppress(OSError), _open_lock(path, os.O_RDONLY) as (handle, owner):
        return owner if owner is not None and counts(handle, owner) else None
    return None


@contextmanager
def _open_lock(path: FilePath, flags: int) -> Iterator[tuple[int, LockHolder | None]]:
    """Open the file of a lock and yield it with its writer."""
    handle = as_inner_path(path).open(flags)
    try:
        yield handle, _read_owner(handle)
    finally:
        os.close(handle)


def _is_same_file(handle: int, path: InnerPath) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.status())
    except OSError:
        return False


def _is_only_asked(handle: int) -> bool:
    """Return whether nobody writes: queries share the lock, a writer does not."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _try_lock(handle: int, owner: LockHolder | None, ask: bool = False) -> bool:
    """Lock the open file without waiting; without file locks, check the process.

    `ask`: only query, sharing the lock with other queries, so that it cannot be mistaken for a
    writer.
    """
    if sys.platform == "win32":
        try:  # far after the text, so that others can read it
            os.lseek(handle, 1 << 20, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if ask else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            return False
        return owner is None or not _is_alive(owner)
    return True


def _unlock_file(handle: int) -> None:
    """Unlock an open file for every process that has it open; closing unlocks it for one."""
    if sys.platform == "win32":
        return
    with suppress(OSError):  # a file system without locks
        fcntl.flock(handle, fcntl.LOCK_UN)


def _is_alive(owner: LockHolder) -> bool:
    """Return whether the process is alive on this machine since boot: ids are reused."""
    if not owner.is_process(owner.pid):
        return False
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _require_not_elsewhere(path: InnerPath, owner: LockHolder | None) -> None:
    """Refuse a file marked by another machine: locks may not work over a network."""
    if owner is None or owner.host == platform.node() or owner.inode != path.status().st_ino:
        return
    raise LockHeldError(
        f"{path.parent} was left locked by {_describe_owner(owner)}; "
        f"if nothing is running there any more, delete {path} and try again.",
        owner,
    )


def _read_owner(handle: int) -> LockHolder | None:
    os.lseek(handle, 0, os.SEEK_SET)
    try:
        owner: LockHolder = from_plain(LockHolder, json.loads(os.read(handle, 4096)))
    except (ValueError, TypeError, RecursionError):  # empty, torn, or not ours
        return None
    return owner


def boot_id() -> str:
    """Return a name that changes with each boot; '' if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _describe_owner(owner: LockHolder | None) -> str:
    return "another process" if owner is None else f"process {owner.pid} on {owner.host}"
