"""Where opened sessions are unpacked: a folder of the user's own, in the system's temporary folder.

A program that is killed leaves it behind. The lock in it says whose it is, and the next start
removes those whose owner is dead.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.lock import Lock, is_abandoned

PREFIX = "dgn-session-"
LOCK = "owner.lock"


class PrivateTempDir:
    """One of this process; nobody else may look into it. Raises `OSError` where none is had."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = Lock(self.path / LOCK)
        try:
            self._lock.take()
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def remove(self) -> None:
        """With all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def remove_abandoned(root: Path | None = None) -> list[Path]:
    """Remove the places of processes that are dead, and say which those were.

    Only real folders of this user that nobody else can write to, with a lock that a process of
    this machine wrote and no longer holds. A link is never followed, neither there nor inside.
    """
    found = Path(tempfile.gettempdir()) if root is None else root
    removed: list[Path] = []
    try:
        candidates = [Path(each.path) for each in os.scandir(found) if _is_ours(each)]
    except OSError:
        return removed
    for place in candidates:
        try:
            if is_abandoned(place / LOCK):
                shutil.rmtree(place)
                removed.append(place)
        except (OSError, UserError):  # another start was quicker, or it is not to be had
            continue
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
