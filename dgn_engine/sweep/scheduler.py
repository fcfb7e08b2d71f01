"""The one loop behind every executor: begin what is ready, hear how it goes, until all is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from dgn_engine.errors import UserError
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.runs.folder_layout import LOCK, RUN
from dgn_engine.sweep.attempt import UnitTask
from dgn_engine.sweep.executor import Told, UnitProgress
from dgn_engine.sweep.perform import state_of
from dgn_engine.sweep.schedule import Schedule
from dgn_engine.sweep.stale_lock import StaleLock
from dgn_engine.sweep.unit import Calculation, Unit, check_units, unit_folder
from dgn_engine.sweep.unit_update import ProcessId, UnitUpdate
from dgn_engine.sweep.unstartable import find_unstartable, record_unstartable

WAIT = 0.2  # seconds between two looks at whether to stop
AGAIN = 1.0  # seconds before a unit whose run another process writes is tried again
GRACE = 60.0  # seconds that what runs has to save itself


class Workers(Protocol):
    """Those who carry units out. `tell` and `stop` are theirs from `gather` until its exit."""

    def gather(
        self, units: Sequence[Unit], tell: Callable[[UnitUpdate], None], stop: Callable[[], bool]
    ) -> AbstractContextManager[None]:
        """Workers for these units; on exit none is left, whatever they were doing."""

    def take(self, ready: Sequence[UnitTask]) -> Sequence[UnitTask]:
        """Begin as many as there is room for, and say which; called in the order of the sweep."""

    def work(self, seconds: float) -> None:
        """Let them work for about so long, and pass on what they say."""

    def interrupt(self) -> None:
        """What runs is to save itself and end; news of it follow."""


def carry_out(
    crew: Workers,
    units: Sequence[Unit],
    root: Path,
    told: Callable[[UnitProgress], None],
    stop: Callable[[], bool],
) -> dict[str, Told]:
    """`Executor.run` for a crew. Raises `UserError` where `root` holds other work or is in use."""
    check_units(units)
    root = root.absolute()
    with _Writing(root):
        schedule = Schedule(units)
        for progress in _already(schedule, units, root):
            told(progress)
        if not schedule.over:
            _Sweep(crew, schedule, root, told, stop).run(units)
    return schedule.states


class _Sweep:
    """One sweep under way."""

    def __init__(
        self,
        crew: Workers,
        schedule: Schedule,
        root: Path,
        told: Callable[[UnitProgress], None],
        stop: Callable[[], bool],
    ) -> None:
        self._crew, self._schedule, self._root = crew, schedule, root
        self._told, self._stop = told, stop
        self._stopping = False
        self._not_before: dict[str, float] = {}
        self._silence = StaleLock(root)
        self._ended: set[ProcessId] = set()  # whose locks do not count any more

    def run(self, units: Sequence[Unit]) -> None:
        with self._crew.gather(units, self._hear, self._stop):
            while not self._schedule.over and not self._stop():
                self._begin()
                self._crew.work(WAIT)
            self._wind_up()
        for progress in self._schedule.stop():
            self._told(progress)

    def _begin(self) -> None:
        self._leave_orphans()
        now = time.monotonic()
        ready = [
            UnitTask(unit, self._root, tuple(self._ended))
            for unit in self._schedule.ready()
            if self._not_before.get(unit.id, 0.0) <= now
        ]
        for task in self._crew.take(ready) if ready else ():
            self._schedule.begin(task.unit.id)

    def _leave_orphans(self) -> None:
        for unit in self._schedule.ready():
            orphan = find_unstartable(unit, self._root) if unit.needs else None
            if orphan is not None:
                record_unstartable(unit.id, orphan, self._root)
                self._told(self._schedule.skip(unit.id, "diverged", None))

    def _wind_up(self) -> None:
        self._stopping = True
        if not self._schedule.running:
            return
        self._crew.interrupt()
        until = time.monotonic() + GRACE
        while self._schedule.running and time.monotonic() < until:
            self._crew.work(WAIT)

    def _hear(self, news: UnitUpdate) -> None:
        if news.word == "held":
            self._not_before[news.unit] = time.monotonic() + AGAIN
            if news.holder is not None and self._silence.fell(news.unit, news.holder):
                self._ended.add(news.holder)
        for progress in self._schedule.hear(news, self._stopping or self._stop()):
            self._told(progress)


def _already(schedule: Schedule, units: Sequence[Unit], root: Path) -> list[UnitProgress]:
    """What was done before; raises `UserError` where a folder holds another unit's work."""
    told = []
    for unit in units:
        state = state_of(unit, root)
        if state == "done":
            told.append(schedule.skip(unit.id, "skipped", _score(unit, root)))
        elif state == "diverged":
            told.append(schedule.skip(unit.id, "diverged", None))
    return told


def _score(unit: Unit, root: Path) -> float | None:
    if isinstance(unit, Calculation) or not (unit_folder(root, unit.id) / RUN).exists():
        return None
    from dgn_engine.sweep.unit_results import UnitResults

    best = UnitResults(root).trained(unit.id).best
    return best if best == best else None


class _Writing:
    """One sweep at a time in a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = Lock(root / LOCK)

    def __enter__(self) -> None:
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self._lock.take()
        except OSError as error:
            raise UserError(f"Cannot write to {self._root}: {error.strerror}.") from None

    def __exit__(self, *_: object) -> None:
        self._lock.release()
