"""Private temporary folders for opened sessions, in the system's temporary folder.

A killed program leaves its folder behind. The lock in it identifies the process, and the next start
removes the folders of dead processes.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.lock import Lock, is_abandoned

PREFIX = "dgn-session-"
LOCK = "owner.lock"


class PrivateTempDir:
    """A folder of this process that no other user may read. Raises `OSError`."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = Lock(self.path / LOCK)
        try:
            self._lock.acquire()
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def remove_folder(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def remove_abandoned(root: Path | None = None) -> list[Path]:
    """Remove the folders of dead processes, and return them.

    These are real folders of this user that nobody else can write to, with a lock that a process
    of this machine wrote and no longer holds. Links are never followed, neither there nor inside.
    """
    parent = Path(tempfile.gettempdir()) if root is None else root
    candidates: list[Path] = []
    with suppress(OSError):
        candidates += [Path(entry.path) for entry in os.scandir(parent) if _is_ours(entry)]
    removed: list[Path] = []
    for folder in candidates:
        with suppress(OSError, UserError):  # another start was faster, or it cannot be removed
            if is_abandoned(folder / LOCK):
                shutil.rmtree(folder)
                removed.append(folder)
    return removed


def _is_ours(entry: os.DirEntry[str]) -> bool:
    if not entry.name.startswith(PREFIX) or not shutil.rmtree.avoids_symlink_attacks:
        return False
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    private = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and mine and private
