"""Lists the runs of a folder; what was read of each is kept in the user's cache."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.protocol.runs import RecordedRun, RunsListed
from dgn_engine.storage import lock
from dgn_engine.storage.atomic_write import PART
from dgn_engine.storage.runs import folder_layout, index_database
from dgn_engine.storage.runs.index_entry import (
    IndexEntry,
    decode_entry,
    encode_entry,
    is_resumable,
    read_entry,
)
from dgn_engine.storage.runs.run_ranges import LAST
from dgn_engine.storage.runs.storage_limits import limits_that_hold

# What is read again only where one of these has changed.
_STAMPED = (
    folder_layout.RUN,
    folder_layout.LOG,
    folder_layout.CHECKPOINTS,
    folder_layout.NOTES,
)

_FILES = (folder_layout.RUN, folder_layout.LOG)
Statuses = Mapping[str, os.stat_result]
ReadEntry = Callable[[Path, str], IndexEntry | None]


def read_index(root: Path, read: ReadEntry = read_entry) -> list[IndexEntry]:
    """Every run in `root`, oldest first; only what has changed is read anew, by `read`.

    A run that cannot be read, whatever is wrong with it, is listed with the status 'damaged' and
    its `trouble`. Raises `UserError` where the folder itself cannot be read.
    """
    return [entry for entry, _ in _listed(root, read)]


def forget_index(root: Path) -> None:
    index_database.forget(root)


def list_runs(root: str) -> RunsListed:
    """Every run below a folder, the one last written to first; none where there is no folder.

    The table of runs in the window and `dgn runs list --json` show what this gives. Raises
    `UserError` where the folder cannot be read.
    """
    if not root:
        return RunsListed("", ())
    below = os.path.join(root, "")  # noqa: PTH118 (thousands of folders)
    runs = [
        _recorded(below, entry, statuses) for entry, statuses in _listed(Path(root), read_entry)
    ]
    runs.sort(key=lambda run: run.touched, reverse=True)
    return RunsListed(root, tuple(runs), limits_that_hold(Path(root)).all)


def newest_resumable(root: Path) -> Path | None:
    """The run that was written to last, of those that have a checkpoint and that nobody writes."""
    try:
        folders = [(_touched(statuses), name) for name, statuses in _folders(root)]
    except UserError:
        return None
    for _, name in sorted(folders, reverse=True):
        if is_resumable(root / name) and lock.holder(root / name / folder_layout.LOCK) is None:
            return root / name
    return None


def _listed(root: Path, read: ReadEntry) -> list[tuple[IndexEntry, Statuses]]:
    known = index_database.recall(root)
    entries: list[tuple[IndexEntry, Statuses]] = []
    changed: dict[str, bytes] = {}
    for name, statuses in _folders(root):
        stamp = _stamp(statuses)  # first: a run that is written meanwhile is read again next time
        entry = decode_entry(name, known.pop(name, b""), stamp)
        if entry is None:
            entry = read(root / name, stamp)
            if entry is None:  # it went a moment ago
                continue
            changed[name] = encode_entry(entry)
        entries.append((_with_writer(root, entry, statuses), statuses))
    if changed or known:
        index_database.remember(root, changed, gone=known)
    return sorted(entries, key=lambda one: (one[0].created, one[0].name))


def _recorded(below: str, entry: IndexEntry, statuses: Statuses) -> RecordedRun:
    facts = dict(vars(entry))
    del facts["stamp"]
    return RecordedRun(folder=below + entry.name, touched=_touched(statuses), **facts)


def _folders(root: Path) -> Iterator[tuple[str, Statuses]]:
    """The names of the folders that hold a run, in their order, and what lies in each.

    One that is a link counts as the folder that it leads to; links inside are not followed. One
    that nobody may look into may hold a run: nothing lies in it.
    """
    try:
        with os.scandir(root) as entries:
            names = sorted(entry.name for entry in entries if _may_hold_run(entry))
    except FileNotFoundError:
        return
    except OSError as error:
        why = f"{root} cannot be listed: {error.strerror}."
        raise UserError(why, kind="unreadable", value=error.strerror) from None
    below = os.path.join(root, "")  # noqa: PTH118
    for name in names:
        try:
            statuses = _statuses(below + name)
        except OSError:
            yield name, {}
            continue
        for file in _FILES:
            if file in statuses and not stat.S_ISDIR(statuses[file].st_mode):
                yield name, statuses
                break


def _may_hold_run(entry: os.DirEntry[str]) -> bool:
    """Not what is being copied or unpacked at this moment."""
    try:
        return entry.is_dir() and not (entry.name.startswith(".") and entry.name.endswith(PART))
    except OSError:
        return False


def _statuses(folder: str) -> Statuses:
    """Of the files that are there; raises `OSError` where the folder may not be looked into."""
    found = {}
    for name in (*_STAMPED, folder_layout.LOCK):
        try:
            found[name] = os.lstat(f"{folder}/{name}")
        except PermissionError:
            raise
        except OSError:
            continue
    return found


def _touched(statuses: Statuses) -> float:
    for name in (folder_layout.LOG, folder_layout.RUN):
        if name in statuses:
            return min(max(0.0, statuses[name].st_mtime), LAST)
    return 0.0


def _with_writer(root: Path, entry: IndexEntry, statuses: Statuses) -> IndexEntry:
    """The lock is read each time: no file changes when a writer dies. An empty one is nobody's."""
    status = statuses.get(folder_layout.LOCK)
    if status is None or not status.st_size:
        return entry
    held = lock.holder(root / entry.name / folder_layout.LOCK) is not None
    return replace(entry, status="running") if held else entry


def _stamp(statuses: Statuses) -> str:
    parts: list[str] = []
    for name in _STAMPED:
        if (one := statuses.get(name)) is not None:
            parts.append(f"{name}:{one.st_size}.{one.st_ino}.{one.st_mtime_ns}.{one.st_ctime_ns}")
    return " ".join(parts)
