"""One writer for a run's folder: a lock that ends with its process, and says whose it is."""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from dgn_engine.errors import UserError

# Never wait for a FIFO, never write through a link.
_CAREFUL = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True)
class LockHolder:
    """Who wrote a lock. `inode`: of the lock file, so that a copied folder is not held."""

    pid: int
    host: str
    boot: str
    inode: int


class LockHeldError(UserError):
    """Somebody else writes. `elsewhere`: the process of another machine that wrote the lock; it may
    be dead, which nobody can see from here.
    """

    def __init__(self, sentence: str, elsewhere: LockHolder | None = None) -> None:
        super().__init__(sentence)
        self.elsewhere = elsewhere


class Lock:
    """Held from `take` to `release`, or to the end of the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def take(self) -> None:
        """Raise `LockHeldError` where somebody else writes; `OSError` where no file can be made."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | _CAREFUL
        handle = os.open(self._path, flags, 0o644)
        try:
            told = _told(handle)
            if not _seize(handle, told):
                elsewhere = told is not None and told.host != platform.node()
                raise LockHeldError(
                    f"{self._path.parent} is being written by {_words(told)}.",
                    told if elsewhere else None,
                )
            _require_not_elsewhere(self._path, told)
            ours = LockHolder(os.getpid(), platform.node(), _boot(), os.fstat(handle).st_ino)
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(asdict(ours)).encode(), 0)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def retake(self) -> None:
        """Hold the file that lies there now: the folder may have been away and come back."""
        if self._handle is not None and _same(self._handle, self._path):
            return
        self.release()
        try:
            self.take()
        except UserError as refusal:
            raise OSError(None, str(refusal)) from None

    def release(self) -> None:
        """Empty the file and let go; an empty lock is nobody's."""
        if self._handle is None:
            return
        try:
            os.ftruncate(self._handle, 0)
        except OSError:  # a full disk or a folder that is gone must not stop the program
            pass
        finally:
            os.close(self._handle)
            self._handle = None


def holder(path: Path) -> LockHolder | None:
    """Who writes now; None where nobody does. Takes nothing."""
    try:
        handle = os.open(path, os.O_RDONLY | _CAREFUL)
    except OSError:
        return None
    try:
        told = _told(handle)
        if told is None:
            return None
        return None if _seize(handle, told) else told
    except OSError:
        return None
    finally:
        os.close(handle)


def is_abandoned(path: Path) -> bool:
    """Whether a process of this machine wrote this lock and holds it no more, not even released
    it: it is dead. Follows no link, and takes nothing. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY | _CAREFUL)
    try:
        told = _told(handle)
        if told is None or told.host != platform.node() or told.inode != os.fstat(handle).st_ino:
            return False
        return _seize(handle, told)
    finally:
        os.close(handle)


def free(path: Path, pid: int, host: str) -> None:
    """Empty a lock that this process of another machine left, which is known to be dead."""
    try:
        handle = os.open(path, os.O_RDWR | _CAREFUL)
    except FileNotFoundError:
        return
    try:
        told = _told(handle)
        if told is not None and (told.pid, told.host) == (pid, host) and host != platform.node():
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _same(handle: int, path: Path) -> bool:
    return path.exists() and os.path.samestat(os.fstat(handle), path.stat())


def _seize(handle: int, told: LockHolder | None) -> bool:
    """Lock the open file without waiting; where locks are not to be had, ask for the process."""
    if sys.platform == "win32":
        import msvcrt

        try:  # far behind the text, so that others can read it
            os.lseek(handle, 1 << 20, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            return False
        return told is None or not _alive(told)
    return True


def _alive(told: LockHolder) -> bool:
    """A process of this machine since this start of it; its number may have been given anew."""
    if told.host != platform.node() or told.boot != _boot():
        return False
    try:
        os.kill(told.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _require_not_elsewhere(path: Path, told: LockHolder | None) -> None:
    """Locks may not reach over a network: the same file, marked by another machine, is theirs."""
    if told is None or told.host == platform.node() or told.inode != path.stat().st_ino:
        return
    raise LockHeldError(
        f"{path.parent} was left locked by {_words(told)}; "
        f"if nothing runs there any more, delete {path} and try again.",
        told,
    )


def _told(handle: int) -> LockHolder | None:
    os.lseek(handle, 0, os.SEEK_SET)
    try:
        tree = json.loads(os.read(handle, 4096))
        return LockHolder(
            int(tree["pid"]), str(tree["host"]), str(tree["boot"]), int(tree["inode"])
        )
    except (ValueError, KeyError, TypeError):  # empty, torn, or not ours
        return None


def _boot() -> str:
    """Differs after each start of the machine, where the system tells it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _words(told: LockHolder | None) -> str:
    return "another process" if told is None else f"process {told.pid} on {told.host}"
