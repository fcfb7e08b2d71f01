"""Lists the runs of a folder, with an SQLite file as a cache of what was read of each."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.protocol.events import RegimeSwapped, RunContinued
from dgn_engine.protocol.run_list import RecordedRun, RunsListed
from dgn_engine.storage import lock
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.log import LogLine
from dgn_engine.storage.runs.run_notes import read_notes
from dgn_engine.storage.runs.run_reader import RunReader

FILE = "index.sqlite"
_VERSION = 2


@dataclass(frozen=True)
class IndexEntry:
    """One run. `best`: the best test accuracy of its last regime, NaN where none is known, and
    `best_step` the first step that had it. `seconds`: how long it was written to, from a start to
    an end each time. `bytes`: of all its files.
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


def read_index(root: Path) -> list[IndexEntry]:
    """Every run in `root`, oldest first; only what has changed is read anew.

    The index is a convenience: where it is damaged, or cannot be written, runs are listed all
    the same. A folder whose `run.json` is damaged is listed with the status 'damaged'.
    """
    known = _known(root)
    found = [_entry(path, known.get(path.name)) for path in _folders(root)]
    if [(entry.name, entry.stamp) for entry in found] != [
        (entry.name, entry.stamp) for entry in known.values()
    ]:
        _remember(root, found)
    return sorted(
        (_with_writer(root, entry) for entry in found), key=lambda one: (one.created, one.name)
    )


def forget_index(root: Path) -> None:
    """Delete the index: every folder is read anew the next time."""
    (root / FILE).unlink(missing_ok=True)


def list_runs(root: str) -> RunsListed:
    """Every run below a folder, the one last written to first; none where there is no folder.

    The table of runs in the window and `dgn runs list --json` show what this gives.
    """
    if not root:
        return RunsListed("", ())
    found = [_recorded(Path(root) / entry.name, entry) for entry in read_index(Path(root))]
    return RunsListed(root, tuple(sorted(found, key=lambda one: one.touched, reverse=True)))


def newest_resumable(root: Path) -> Path | None:
    """The run that was written to last, of those that have a checkpoint and that nobody writes."""
    for folder in sorted(_folders(root), key=_touched, reverse=True):
        saved = any((folder / folder_layout.CHECKPOINTS).glob("[0-9]*"))
        if saved and lock.holder(folder / folder_layout.LOCK) is None:
            return folder
    return None


def _recorded(folder: Path, entry: IndexEntry) -> RecordedRun:
    given = read_notes(folder)
    return RecordedRun(
        folder=str(folder),
        **{name: value for name, value in vars(entry).items() if name != "stamp"},
        touched=_touched(folder),
        resumable=any((folder / folder_layout.CHECKPOINTS).glob("[0-9]*")),
        given_name=given.name,
        notes=given.notes,
    )


def _touched(folder: Path) -> float:
    for name in (folder_layout.LOG, folder_layout.RUN):
        try:
            return (folder / name).stat().st_mtime
        except OSError:
            continue
    return 0.0


def _folders(root: Path) -> Iterator[Path]:
    if root.is_dir():
        for path in sorted(root.iterdir()):
            if (path / folder_layout.RUN).is_file() or (path / folder_layout.LOG).is_file():
                yield path


def _entry(path: Path, known: IndexEntry | None) -> IndexEntry:
    stamp = _stamp(path)
    if known is not None and known.stamp == stamp:
        return known
    try:
        return _read(path, stamp)
    except UserError:
        nothing = (0, 0, "", "", "", 0, float("nan"), 0, 0.0)
        return IndexEntry(path.name, stamp, "", "damaged", *nothing, _bytes(path))


def _read(path: Path, stamp: str) -> IndexEntry:
    reader = RunReader(path)
    config, started = reader.config, reader.started
    best, best_step = float("nan"), 0
    regime = started.regime if started is not None else config.gating.regime
    for event in reader.events:
        if isinstance(event, RegimeSwapped):
            regime, best, best_step = event.after, float("nan"), 0
        accuracy = getattr(event, "test_accuracy", None)
        if accuracy is not None and not best >= accuracy:
            best, best_step = float(accuracy), int(getattr(event, "step", 0))
    return IndexEntry(
        name=path.name,
        stamp=stamp,
        created=str(reader.info.get("created", "")),
        status=reader.outcome,
        step=reader.step,
        total_steps=started.total_steps if started is not None else 0,
        regime=regime,
        net=config.net.short,
        data=config.data.name,
        seed=config.seed,
        best=best,
        best_step=best_step,
        seconds=_seconds(reader.log.lines),
        bytes=_bytes(path),
    )


def _seconds(lines: Sequence[LogLine]) -> float:
    """From the first line to the last; the time between an end and going on is left out."""
    return sum(
        max(0.0, after.at - before.at)
        for before, after in pairwise(lines)
        if after.name != RunContinued.__name__
    )


def _bytes(path: Path) -> int:
    """Of the regular files of a run; links are not followed."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(folder, name))  # noqa: PTH118 (thousands of files)
                total += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return total


def _with_writer(root: Path, entry: IndexEntry) -> IndexEntry:
    """The lock is read each time: no file changes when a writer dies."""
    held = lock.holder(root / entry.name / folder_layout.LOCK) is not None
    return replace(entry, status="running") if held else entry


def _stamp(path: Path) -> str:
    parts = []
    for name in (folder_layout.RUN, folder_layout.LOG, folder_layout.CHECKPOINTS):
        with contextlib.suppress(OSError):
            status = (path / name).stat()
            parts.append(f"{status.st_size}.{status.st_mtime_ns}")
    return " ".join(parts)


def _known(root: Path) -> dict[str, IndexEntry]:
    path = root / FILE
    if not path.is_file():
        return {}
    try:
        with closing(sqlite3.connect(path)) as index:
            if index.execute("PRAGMA user_version").fetchone() != (_VERSION,):
                return {}
            rows = index.execute(f"SELECT {_COLUMNS} FROM runs").fetchall()
    except sqlite3.Error:
        return {}
    entries = [IndexEntry(**dict(zip(_NAMES, row, strict=True))) for row in rows]
    # SQLite keeps a NaN as NULL.
    return {
        entry.name: replace(entry, best=float("nan")) if entry.best is None else entry
        for entry in entries
    }


def _remember(root: Path, entries: list[IndexEntry]) -> None:
    path = root / FILE
    if os.path.lexists(path) and not path.is_file():
        return
    with contextlib.suppress(OSError, sqlite3.Error):
        try:
            _write(path, entries)
        except sqlite3.DatabaseError:
            path.unlink(missing_ok=True)
            _write(path, entries)


def _write(path: Path, entries: list[IndexEntry]) -> None:
    with closing(sqlite3.connect(path)) as index, index:
        index.execute("DROP TABLE IF EXISTS runs")
        index.execute(f"CREATE TABLE runs ({_COLUMNS})")
        marks = ",".join("?" * len(_NAMES))
        rows = [astuple(entry) for entry in entries if _is_text(entry.name)]
        index.executemany(f"INSERT INTO runs VALUES ({marks})", rows)
        index.execute(f"PRAGMA user_version = {_VERSION}")


def _is_text(name: str) -> bool:
    """Whether a folder's name is Unicode: SQLite keeps no other, and it is read each time."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


_NAMES = [item.name for item in fields(IndexEntry)]
_COLUMNS = ", ".join(_NAMES)
