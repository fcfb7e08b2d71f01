"""Lists the runs of a folder; what was read of each is kept in the user's cache."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.protocol.run_list import RecordedRun, RunsListed
from dgn_engine.storage import lock
from dgn_engine.storage.atomic_write import PART
from dgn_engine.storage.checkpoints.contents import plain
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.runs import folder_layout, list_cache
from dgn_engine.storage.runs.run_notes import read_notes
from dgn_engine.storage.runs.run_ranges import LAST, WORD, is_count, is_time
from dgn_engine.storage.runs.run_reader import RunReader

# What is read again only where one of these has changed.
_STAMPED = (
    folder_layout.RUN,
    folder_layout.LOG,
    folder_layout.CHECKPOINTS,
    folder_layout.NOTES,
)
_DEEPEST = 8  # folders in each other whose files are counted; a run has three
_CREATED = 40  # characters
_TROUBLE = 300

Statuses = Mapping[str, os.stat_result]


@dataclass(frozen=True)
class IndexEntry:
    """One run, as `RecordedRun` tells it; raises `ValueError` where a number is beyond its range.

    `best`: the best test accuracy of its last regime, NaN where none is known, and `best_step` the
    first step that had it. `seconds`: how long it was written to, from a start to an end each
    time. `bytes`: of all its files.
    """

    name: str  # of its folder
    stamp: str  # sizes and times of the files that this was read from
    created: str
    status: str
    step: int
    total_steps: int
    regime: str
    net: str
    data: str
    seed: int
    best: float
    best_step: int
    seconds: float
    bytes: int
    resumable: bool
    given_name: str
    notes: str
    trouble: str = ""

    def __post_init__(self) -> None:
        counts = (self.step, self.total_steps, self.seed, self.best_step, self.bytes)
        words = (self.created, self.status, self.regime, self.net, self.data, self.trouble)
        if not all(map(is_count, counts)) or not is_time(self.seconds):
            raise ValueError("a number is beyond its range")
        if not (0 <= self.best <= 1 or self.best != self.best):
            raise ValueError(f"an accuracy of {self.best}")
        if any(len(word) > WORD for word in words):
            raise ValueError("a name without end")


def read_index(root: Path) -> list[IndexEntry]:
    """Every run in `root`, oldest first; only what has changed is read anew.

    A run that cannot be read, whatever is wrong with it, is listed with the status 'damaged' and
    its `trouble`. Raises `UserError` where the folder itself cannot be read.
    """
    return [entry for entry, _ in _listed(root)]


def forget_index(root: Path) -> None:
    """Every folder is read anew the next time."""
    list_cache.forget(root)


def list_runs(root: str) -> RunsListed:
    """Every run below a folder, the one last written to first; none where there is no folder.

    The table of runs in the window and `dgn runs list --json` show what this gives. Raises
    `UserError` where the folder cannot be read.
    """
    if not root:
        return RunsListed("", ())
    found = [_recorded(root, entry, statuses) for entry, statuses in _listed(Path(root))]
    return RunsListed(root, tuple(sorted(found, key=lambda one: one.touched, reverse=True)))


def newest_resumable(root: Path) -> Path | None:
    """The run that was written to last, of those that have a checkpoint and that nobody writes."""
    try:
        folders = [(_touched(statuses), name) for name, statuses in _folders(root)]
    except UserError:
        return None
    for _, name in sorted(folders, reverse=True):
        if _is_resumable(root / name) and lock.holder(root / name / folder_layout.LOCK) is None:
            return root / name
    return None


def _listed(root: Path) -> list[tuple[IndexEntry, Statuses]]:
    known = list_cache.recall(root)
    found: list[tuple[IndexEntry, Statuses]] = []
    changed = False
    for name, statuses in _folders(root):
        stamp = _stamp(statuses)
        entry = _from_cache(name, known.get(name), stamp)
        if entry is None:
            changed = True
            entry = _entry(root / name, stamp)
        if entry is not None:
            found.append((entry, statuses))
    if changed or len(found) != len(known):
        list_cache.remember(root, {entry.name: _to_cache(entry) for entry, _ in found})
    running = [(_with_writer(root, entry, statuses), statuses) for entry, statuses in found]
    return sorted(running, key=lambda one: (one[0].created, one[0].name))


def _recorded(root: str, entry: IndexEntry, statuses: Statuses) -> RecordedRun:
    values = {name: getattr(entry, name) for name in _SHARED}
    folder = os.path.join(root, entry.name)  # noqa: PTH118 (thousands of folders)
    return RecordedRun(folder=folder, touched=_touched(statuses), **values)


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
        raise UserError(f"{root} cannot be listed: {error.strerror}.") from None
    for name in names:
        try:
            statuses = _statuses(os.path.join(root, name))  # noqa: PTH118
        except OSError:
            yield name, {}
            continue
        if any(not stat.S_ISDIR(statuses[one].st_mode) for one in _FILES if one in statuses):
            yield name, statuses


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


def _is_resumable(folder: Path) -> bool:
    try:
        names = os.listdir(folder / folder_layout.CHECKPOINTS)  # noqa: PTH208
    except OSError:
        return False
    return any(folder_layout.checkpoint_key(name) is not None for name in names)


def _entry(folder: Path, stamp: str) -> IndexEntry | None:
    """None where the run went a moment ago."""
    try:
        return _read(folder, stamp)
    except UserError as refusal:
        trouble = str(refusal)
    except Exception as error:  # one run's trouble, whatever it is, hides no other
        trouble = f"It cannot be read: {type(error).__name__}: {error}"
    if not folder.exists():
        return None
    return _damaged(folder, stamp, trouble)


def _damaged(folder: Path, stamp: str, trouble: str) -> IndexEntry:
    """`trouble`: without the way to the folder, which stands beside it."""
    words = plain(trouble.replace(f"{folder}/", "").replace(str(folder), folder.name), _TROUBLE)
    nothing = ("damaged", 0, 0, "", "", "", 0, float("nan"), 0, 0.0)
    told = (_bytes(folder), _is_resumable(folder), "", "", words)
    return IndexEntry(folder.name, stamp, "", *nothing, *told)


def _read(folder: Path, stamp: str) -> IndexEntry:
    reader = RunReader(folder)
    config, started, summary = reader.config, reader.started, reader.summary
    begun_in = started.regime if started is not None else config.gating.regime
    given = read_notes(folder)
    return IndexEntry(
        name=folder.name,
        stamp=stamp,
        created=_created(reader.info.get("created")),
        status=reader.outcome,
        step=reader.step,
        total_steps=started.total_steps if started is not None else 0,
        regime=plain(summary.regime or begun_in),
        net=plain(config.net.short),
        data=plain(config.data.name),
        seed=config.seed,
        best=summary.best.accuracy,
        best_step=summary.best.step,
        seconds=summary.seconds,
        bytes=_bytes(folder),
        resumable=_is_resumable(folder),
        given_name=given.name,
        notes=given.notes,
    )


def _created(word: object) -> str:
    """ISO 8601; '' where it is none."""
    if not isinstance(word, str) or len(word) > _CREATED:
        return ""
    try:
        datetime.fromisoformat(word)
    except ValueError:
        return ""
    return word


def _bytes(folder: Path) -> int:
    """Of the regular files of a run; links in it are not followed."""
    total, inner = 0, [(str(folder), 1)]
    while inner:
        path, depth = inner.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        inner += [(entry.path, depth + 1)] if depth < _DEEPEST else []
                    elif entry.is_file(follow_symlinks=False):
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:  # it went, or is not ours to look into
            continue
    return min(total, 1 << 53)


def _with_writer(root: Path, entry: IndexEntry, statuses: Statuses) -> IndexEntry:
    """The lock is read each time: no file changes when a writer dies. An empty one is nobody's."""
    status = statuses.get(folder_layout.LOCK)
    if status is None or not status.st_size:
        return entry
    held = lock.holder(root / entry.name / folder_layout.LOCK) is not None
    return replace(entry, status="running") if held else entry


def _stamp(statuses: Statuses) -> str:
    found = ((name, statuses[name]) for name in _STAMPED if name in statuses)
    return " ".join(
        f"{name}:{one.st_size}.{one.st_ino}.{one.st_mtime_ns}.{one.st_ctime_ns}"
        for name, one in found
    )


def _to_cache(entry: IndexEntry) -> dict[str, Any]:
    known: dict[str, Any] = to_plain(entry, "null")
    del known["name"]
    return known


def _from_cache(name: str, known: object, stamp: str) -> IndexEntry | None:
    """None where it is not known, has changed since, or the cache is damaged."""
    if not isinstance(known, dict) or known.get("stamp") != stamp:
        return None
    try:
        entry: IndexEntry = from_plain(IndexEntry, {**known, "name": name})
    except (TypeError, ValueError):
        return None
    return entry


_FILES = (folder_layout.RUN, folder_layout.LOG)
_SHARED = {item.name for item in fields(IndexEntry)}.intersection(
    item.name for item in fields(RecordedRun)
)
