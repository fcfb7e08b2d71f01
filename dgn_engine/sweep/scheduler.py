"""Execute units: start those that are ready and apply the workers' updates until all are over."""

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
from dgn_engine.storage.inner_path import inner_folder
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
WAIT = 0.2  # seconds between checks whether to stop
AGAIN = 1.0  # seconds before retrying a unit whose run is locked by another process
GRACE = 60.0  # seconds for running units to save their work
SILENT = 120.0  # seconds without a change after which another machine's lock is stale


class Workers(Protocol):
    """A pool that executes units.

    `on_update` and `stopped` may be called until the exit of the context of `start`.
    """

    def start(
        self, units: Sequence[Unit], on_update: OnUpdate, stopped: Stopped
    ) -> AbstractContextManager[None]:
        """Start the pool for these units; on exit all its workers are ended."""

    def submit(self, ready: Sequence[UnitTask]) -> Sequence[UnitTask]:
        """Start as many tasks as there is room for, in the given order, and return them."""

    def poll(self, seconds: float) -> None:
        """Let the workers run for about this long and forward their updates."""

    def interrupt(self) -> None:
        """Ask running units to save their work and end; their updates follow."""


class Executor(ABC):
    """Executes units, each after those it needs, on a pool of workers."""

    @abstractmethod
    def workers_in(self, root: Path) -> Workers:
        """Return a new pool for the folder of a sweep."""

    def run(
        self, units: Sequence[Unit], root: Path, on_progress: OnUnitProgress, stopped: Stopped
    ) -> dict[str, UnitState]:
        """Execute the units and return the final state of each.

        A unit that is already done is reported as 'skipped'. One that fails is retried twice,
        except after a `UserError`, and then reported as 'failed' with the end of its log in
        `trouble`; units that need it fail, too.

        Args:
            units: ordered so that each comes after its needs.
            root: the folder of the sweep.
            on_progress: called at each change.
            stopped: polled; once it returns True, running units are saved and ended.

        Returns:
            The final state by unit id.

        Raises:
            UserError: `root` has other work or is in use.
        """
        check_units(units)
        root = root.absolute()
        with _lock_folder(root):
            schedule = Schedule(units)
            for progress in _finished_before(schedule, units, root):
                on_progress(progress)
            if not schedule.is_over:
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
    _ended: set[ProcessId] = field(default_factory=set)  # processes whose locks no longer count

    def __post_init__(self) -> None:
        self._stale_locks = StaleLock(self._root)

    def run(self, units: Sequence[Unit]) -> None:
        with self._workers.start(units, self._on_worker_update, self._stopped):
            while not self._schedule.is_over and not self._stopped():
                self._submit_ready()
                self._workers.poll(WAIT)
            self._interrupt_workers()
        for progress in self._schedule.stop():
            self._on_progress(progress)

    def _submit_ready(self) -> None:
        self._skip_unstartable()
        now = time.monotonic()
        ready = [
            UnitTask(unit, self._root, tuple(self._ended))
            for unit in self._schedule.ready_units()
            if self._not_before.get(unit.id, 0.0) <= now
        ]
        for task in self._workers.submit(ready) if ready else ():
            self._schedule.begin(task.unit.id)

    def _skip_unstartable(self) -> None:
        for unit in self._schedule.ready_units():
            unstartable = find_unstartable(unit, self._root) if unit.needs else None
            if unstartable is not None:
                record_unstartable(unit.id, unstartable, self._root)
                self._on_progress(self._schedule.skip(unit.id, "diverged", None))

    def _interrupt_workers(self) -> None:
        self._stopping = True
        if not self._schedule.running:
            return
        self._workers.interrupt()
        until = time.monotonic() + GRACE
        while self._schedule.running and time.monotonic() < until:
            self._workers.poll(WAIT)

    def _on_worker_update(self, update: UnitUpdate) -> None:
        if update.state == "held":
            self._not_before[update.unit] = time.monotonic() + AGAIN
            if update.holder is not None and self._stale_locks.is_stale(update.unit, update.holder):
                self._ended.add(update.holder)
        for progress in self._schedule.apply_update(update, self._stopping or self._stopped()):
            self._on_progress(progress)


@dataclass
class StaleLock:
    """Detects runs whose lock was left by another machine.

    A lock does not show whether a process on another machine is still alive. But a run that is
    being written gets a checkpoint every few seconds, so the lock of one that has not changed for
    a long time is stale. (Its writer would have noticed long before that nobody waits for it.)
    """

    root: Path
    silent: float = SILENT
    _seen: dict[str, tuple[object, float]] = field(default_factory=dict)

    def is_stale(self, unit_id: str, holder: ProcessId) -> bool:
        """Return whether the run locked by `holder` has not changed for `silent` seconds.

        It compares with earlier calls, so it has to be called repeatedly.
        """
        now = time.monotonic()
        trace = self._progress_trace(unit_id, holder)
        before, since = self._seen.get(unit_id, (None, now))
        if trace != before:
            since = now
        self._seen[unit_id] = (trace, since)
        return now - since >= self.silent

    def _progress_trace(self, unit_id: str, holder: ProcessId) -> object:
        """Return a value that changes while the run is being written."""
        folder = unit_folder(self.root, unit_id)
        try:
            size = (folder / LOG).stat().st_size
            names = tuple(sorted(path.name for path in (folder / CHECKPOINTS).iterdir()))
        except OSError:
            return holder, 0, ()
        return holder, size, names


def _finished_before(schedule: Schedule, units: Sequence[Unit], root: Path) -> list[UnitProgress]:
    """Skip finished units; raises `UserError` if a folder has another unit's work."""
    skipped = []
    results = UnitResults(root)  # shared, so that stacks are searched only once
    for unit in units:
        state = state_of(unit, root)
        if state == "done":
            skipped.append(schedule.skip(unit.id, "skipped", _best_score(unit, results)))
        elif state == "diverged":
            skipped.append(schedule.skip(unit.id, "diverged", None))
    return skipped


def _best_score(unit: Unit, results: UnitResults) -> float | None:
    if isinstance(unit, Calculation) or not (unit_folder(results.root, unit.id) / RUN).exists():
        return None
    best = results.trained_run(unit.id).best
    return best if best == best else None


@contextmanager
def _lock_folder(root: Path) -> Iterator[None]:
    """Allow only one sweep at a time in a folder; raises `UserError` if it is in use."""
    lock = Lock(inner_folder(root) / LOCK)
    try:
        make_folders(root)
        lock.acquire()
    except OSError as error:
        raise UserError(
            f"Cannot write to {root}: {error.strerror}.", kind="not-writable", value=str(root)
        ) from None
    try:
        yield
    finally:
        lock.release()
