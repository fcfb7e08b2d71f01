"""Carries units out: begins what is ready, applies updates of the workers, until all is over."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folders
from dgn_engine.storage.inner_path import inside
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.runs.folder_layout import CHECKPOINTS, LOCK, LOG, RUN
from dgn_engine.sweep.schedule import Schedule, UnitProgress, UnitState
from dgn_engine.sweep.unit import (
    Calculation,
    OnUpdate,
    ProcessId,
    Stopped,
    Unit,
    UnitTask,
    UnitUpdate,
    check_units,
    unit_folder,
)
from dgn_engine.sweep.unit_results import (
    UnitResults,
    find_unstartable,
    record_unstartable,
    state_of,
)

OnUnitProgress = Callable[[UnitProgress], None]
WAIT = 0.2  # seconds between two questions whether to stop
AGAIN = 1.0  # seconds before a unit whose run another process writes is tried again
GRACE = 60.0  # seconds that what runs has to save itself
SILENT = 120.0  # seconds without a change after which the lock of another machine is stale


class Workers(Protocol):
    """A pool that carries units out. `on_update` and `stopped` may be called until its exit."""

    def start(
        self, units: Sequence[Unit], on_update: OnUpdate, stopped: Stopped
    ) -> AbstractContextManager[None]:
        """Get ready for these units; on exit no worker is left, whatever it was doing."""

    def submit(self, ready: Sequence[UnitTask]) -> Sequence[UnitTask]:
        """Begin as many as there is room for, and return them; called in the sweep's order."""

    def poll(self, seconds: float) -> None:
        """Let them work for about so long, and pass on their updates."""

    def interrupt(self) -> None:
        """Ask what runs to save itself and end; updates of it follow."""


class Executor(ABC):
    """Carries units out, each after those it needs, wherever its workers have room for them."""

    @abstractmethod
    def workers_in(self, root: Path) -> Workers:
        """Return new workers for the folder of one sweep."""

    def run(
        self, units: Sequence[Unit], root: Path, on_progress: OnUnitProgress, stopped: Stopped
    ) -> dict[str, UnitState]:
        """Carry the units out and return the last state of each.

        A unit that is done already is reported as 'skipped'; one that fails is tried twice again
        (not where it ends in a `UserError`) and then reported as 'failed' with the end of its log
        in `trouble`, and whatever needs it fails too.

        Args:
            units: in an order in which each comes after its needs.
            root: the folder of the sweep.
            on_progress: called at each change.
            stopped: asked often; once it says so, what runs is left so that it can go on later.

        Raises:
            UserError: `root` holds other work or is in use.
        """
        check_units(units)
        root = root.absolute()
        with _lock_folder(root):
            schedule = Schedule(units)
            for progress in _finished_before(schedule, units, root):
                on_progress(progress)
            if not schedule.over:
                sweep = _RunningSweep(self.workers_in(root), schedule, root, on_progress, stopped)
                sweep.run(units)
        return schedule.states


@dataclass
class _RunningSweep:
    _workers: Workers
    _schedule: Schedule
    _root: Path
    _on_progress: OnUnitProgress
    _stopped: Stopped
    _stopping: bool = False
    _not_before: dict[str, float] = field(default_factory=dict)
    _ended: set[ProcessId] = field(default_factory=set)  # whose locks do not count any more

    def __post_init__(self) -> None:
        self._stale_locks = StaleLock(self._root)

    def run(self, units: Sequence[Unit]) -> None:
        with self._workers.start(units, self._apply, self._stopped):
            while not self._schedule.over and not self._stopped():
                self._submit()
                self._workers.poll(WAIT)
            self._interrupt()
        for progress in self._schedule.stop():
            self._on_progress(progress)

    def _submit(self) -> None:
        self._skip_unstartable()
        now = time.monotonic()
        ready = [
            UnitTask(unit, self._root, tuple(self._ended))
            for unit in self._schedule.ready()
            if self._not_before.get(unit.id, 0.0) <= now
        ]
        for task in self._workers.submit(ready) if ready else ():
            self._schedule.begin(task.unit.id)

    def _skip_unstartable(self) -> None:
        for unit in self._schedule.ready():
            unstartable = find_unstartable(unit, self._root) if unit.needs else None
            if unstartable is not None:
                record_unstartable(unit.id, unstartable, self._root)
                self._on_progress(self._schedule.skip(unit.id, "diverged", None))

    def _interrupt(self) -> None:
        self._stopping = True
        if not self._schedule.running:
            return
        self._workers.interrupt()
        until = time.monotonic() + GRACE
        while self._schedule.running and time.monotonic() < until:
            self._workers.poll(WAIT)

    def _apply(self, update: UnitUpdate) -> None:
        if update.state == "held":
            self._not_before[update.unit] = time.monotonic() + AGAIN
            if update.holder is not None and self._stale_locks.is_stale(update.unit, update.holder):
                self._ended.add(update.holder)
        for progress in self._schedule.apply(update, self._stopping or self._stopped()):
            self._on_progress(progress)


@dataclass
class StaleLock:
    """Finds runs of a sweep that another machine locked and nobody writes any more.

    Locks do not reach over a network, so nobody can see whether that writer lives. But a run that
    is written gets a checkpoint every few seconds; one that has not changed for long is nobody's.
    (Its machine has noticed long before that nobody waits for it any more.)
    """

    root: Path
    silent: float = SILENT
    _seen: dict[str, tuple[object, float]] = field(default_factory=dict)

    def is_stale(self, unit_id: str, holder: ProcessId) -> bool:
        """Whether the run that `holder` has locked has not changed for so long; asked often."""
        now = time.monotonic()
        trace = self._trace(unit_id, holder)
        before, since = self._seen.get(unit_id, (None, now))
        if trace != before:
            since = now
        self._seen[unit_id] = (trace, since)
        return now - since >= self.silent

    def _trace(self, unit_id: str, holder: ProcessId) -> object:
        """Return what changes while the run is written."""
        folder = unit_folder(self.root, unit_id)
        try:
            size = (folder / LOG).stat().st_size
            names = tuple(sorted(path.name for path in (folder / CHECKPOINTS).iterdir()))
        except OSError:
            return holder, 0, ()
        return holder, size, names


def _finished_before(schedule: Schedule, units: Sequence[Unit], root: Path) -> list[UnitProgress]:
    """Skip what is done; raises `UserError` where a folder holds another unit's work."""
    skipped = []
    results = UnitResults(root)  # one of all, so that stacks are looked for once
    for unit in units:
        state = state_of(unit, root)
        if state == "done":
            skipped.append(schedule.skip(unit.id, "skipped", _score(unit, results)))
        elif state == "diverged":
            skipped.append(schedule.skip(unit.id, "diverged", None))
    return skipped


def _score(unit: Unit, results: UnitResults) -> float | None:
    if isinstance(unit, Calculation) or not (unit_folder(results.root, unit.id) / RUN).exists():
        return None
    best = results.trained(unit.id).best
    return best if best == best else None


@contextmanager
def _lock_folder(root: Path) -> Iterator[None]:
    """Allow one sweep at a time in a folder; raises `UserError`."""
    lock = Lock(inside(root) / LOCK)
    try:
        make_folders(root)
        lock.take()
    except OSError as error:
        raise UserError(
            f"Cannot write to {root}: {error.strerror}.", kind="not-writable", value=str(root)
        ) from None
    try:
        yield
    finally:
        lock.release()
