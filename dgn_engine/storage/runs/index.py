"""List the runs of a folder; what was read of each is cached for the user."""

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
from dgn_engine.storage.runs.storage_limits import effective_limits

# A run is read again only if one of these has changed.
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
    """Return all runs in `root`, oldest first; only changed ones are read again, by `read`.

    A run that cannot be read, for any reason, has the status 'damaged' and its `trouble`.

    Raises:
        UserError: The folder itself cannot be read.
    """
    return [entry for entry, _ in _list_entries(root, read)]


def forget_index(root: Path) -> None:
    index_database.forget_root(root)


def list_runs(root: str) -> RunsListed:
    """List all runs below a folder, the last written one first; none if there is no folder.

    The window's table of runs and `dgn runs list --json` show this.

    Raises:
        UserError: The folder cannot be read.
    """
    if not root:
        return RunsListed("", ())
    below = os.path.join(root, "")  # noqa: PTH118 (thousands of folders)
    runs = [
        _as_recorded_run(below, entry, statuses)
        for entry, statuses in _list_entries(Path(root), read_entry)
    ]
    runs.sort(key=lambda run: run.touched, reverse=True)
    return RunsListed(root, tuple(runs), effective_limits(Path(root)).all)


def newest_resumable(root: Path) -> Path | None:
    """Return the last written run with a checkpoint that is not being written; or None."""
    try:
        folders = [(_last_write_time(statuses), name) for name, statuses in _run_folders(root)]
    except UserError:
        return None
    for _, name in sorted(folders, reverse=True):
        if (
            is_resumable(root / name)
            and lock.find_lock_holder(root / name / folder_layout.LOCK) is None
        ):
            return root / name
    return None


def _list_entries(root: Path, read: ReadEntry) -> list[tuple[IndexEntry, Statuses]]:
    known = index_database.recall_entries(root)
    entries: list[tuple[IndexEntry, Statuses]] = []
    changed: dict[str, bytes] = {}
    for name, statuses in _run_folders(root):
        stamp = _stamp_of(statuses)  # first: a run written meanwhile is read again next time
        entry = decode_entry(name, known.pop(name, b""), stamp)
        if entry is None:
            entry = read(root / name, stamp)
            if entry is None:  # it was removed a moment ago
                continue
            changed[name] = encode_entry(entry)
        entries.append((_with_writer(root, entry, statuses), statuses))
    if changed or known:
        index_database.store_entries(root, changed, gone=known)
    return sorted(entries, key=lambda item: (item[0].created, item[0].name))


def _as_recorded_run(below: str, entry: IndexEntry, statuses: Statuses) -> RecordedRun:
    facts = dict(vars(entry))
    del facts["stamp"]
    return RecordedRun(folder=below + entry.name, touched=_last_write_time(statuses), **facts)


def _run_folders(root: Path) -> Iterator[tuple[str, Statuses]]:
    """Yield the names of the folders that contain a run, in order, with the files in each.

    A link counts as its target; links inside are not followed. An unreadable folder may contain a
    run, so it is listed without files.
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
            statuses = _file_statuses(below + name)
        except OSError:
            yield name, {}
            continue
        for file in _FILES:
            if file in statuses and not stat.S_ISDIR(statuses[file].st_mode):
                yield name, statuses
                break


def _may_hold_run(entry: os.DirEntry[str]) -> bool:
    """Return whether it may contain a run: not what is being copied or unpacked."""
    try:
        return entry.is_dir() and not (entry.name.startswith(".") and entry.name.endswith(PART))
    except OSError:
        return False


def _file_statuses(folder: str) -> Statuses:
    """Return the statuses of the existing files; raises `OSError` if the folder is unreadable."""
    statuses = {}
    for name in (*_STAMPED, folder_layout.LOCK):
        try:
            statuses[name] = os.lstat(f"{folder}/{name}")
        except PermissionError:
            raise
        except OSError:
            continue
    return statuses


def _last_write_time(statuses: Statuses) -> float:
    for name in (folder_layout.LOG, folder_layout.RUN):
        if name in statuses:
            return min(max(0.0, statuses[name].st_mtime), LAST)
    return 0.0


def _with_writer(root: Path, entry: IndexEntry, statuses: Statuses) -> IndexEntry:
    """Read the lock each time, as no file changes when a writer dies; an empty one is free."""
    status = statuses.get(folder_layout.LOCK)
    if status is None or not status.st_size:
        return entry
    is_held = lock.find_lock_holder(root / entry.name / folder_layout.LOCK) is not None
    return replace(entry, status="running") if is_held else entry


def _stamp_of(statuses: Statuses) -> str:
    parts: list[str] = []
    for name in _STAMPED:
        if (status := statuses.get(name)) is not None:
            parts.append(
                f"{name}:{status.st_size}.{status.st_ino}.{status.st_mtime_ns}.{status.st_ctime_ns}"
            )
    return " ".join(parts)
