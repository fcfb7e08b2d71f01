"""Schedules units: which are ready, which run, what became of each; no processes, no clock."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dgn_engine.sweep.unit import Unit, UnitUpdate

UnitState = Literal["queued", "running", "done", "skipped", "diverged", "failed", "interrupted"]
TRIES = 3  # of a unit that fails, or whose worker is lost again and again at the same place
PATIENCE = 300  # times that a unit whose run another process writes is put back
SOUND: tuple[UnitState, ...] = ("done", "skipped", "diverged")
OVER: tuple[UnitState, ...] = (*SOUND, "failed")


@dataclass(frozen=True)
class UnitProgress:
    """What became of a unit, or how far it is (`fraction` of its steps, `score` so far).

    `trained`: of a unit that is over, the share of its steps that it took; less than 1 where it
    ended early.
    """

    unit: str
    state: UnitState
    fraction: float = 0.0
    score: float | None = None
    trouble: str = ""
    notice: str = ""  # a sentence for whoever waits
    trained: float = 1.0


class Schedule:
    """The units of a sweep, in their order; each comes after its needs."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = {unit.id: unit for unit in units}
        self._place = {name: place for place, name in enumerate(self._units)}
        self._queue = list(self._units)  # in the order in which they are begun
        self._needed_by: dict[str, list[str]] = {unit.id: [] for unit in units}
        for unit in units:
            for need in unit.needs:
                self._needed_by[need].append(unit.id)
        self._failures = dict.fromkeys(self._units, 0)
        self._waits = dict.fromkeys(self._units, 0)
        self._furthest = dict.fromkeys(self._units, 0.0)  # at the last loss of its worker
        self._fraction = dict.fromkeys(self._units, 0.0)
        self.states: dict[str, UnitState] = dict.fromkeys(self._units, "queued")

    @property
    def over(self) -> bool:
        return all(state in OVER for state in self.states.values())

    @property
    def running(self) -> list[str]:
        return [name for name, state in self.states.items() if state == "running"]

    def ready(self) -> list[Unit]:
        return [
            self._units[name]
            for name in self._queue
            if all(self.states[need] in SOUND for need in self._units[name].needs)
        ]

    def skip(self, unit_id: str, state: UnitState, score: float | None) -> UnitProgress:
        """Take a unit off the queue: there is nothing to do for it."""
        self._queue.remove(unit_id)
        self.states[unit_id] = state
        return UnitProgress(unit_id, state, 1.0, score)

    def begin(self, unit_id: str) -> None:
        self._queue.remove(unit_id)
        self.states[unit_id] = "running"

    def apply(self, update: UnitUpdate, stopping: bool) -> list[UnitProgress]:
        """Return what follows from an update, for its unit and for those that need it."""
        unit_id = update.unit
        if self.states.get(unit_id) != "running":
            return []  # its worker was given up
        self._fraction[unit_id] = max(self._fraction[unit_id], update.fraction)
        match update.state:
            case "running":
                return [UnitProgress(unit_id, "running", update.fraction, update.score)]
            case "done" | "diverged":
                self.states[unit_id] = update.state
                trained = update.fraction or 1.0
                return [UnitProgress(unit_id, update.state, 1.0, update.score, trained=trained)]
            case "interrupted":
                return [self._requeue(update, "")] if not stopping else [self._interrupt(update)]
            case "held" | "lost" | "crowded" if stopping:
                return [self._interrupt(update)]
            case "refused":  # a sentence for the user, who alone can mend it
                return self._fail(unit_id, update.trouble)
            case "held":
                self._waits[unit_id] += 1
                if self._waits[unit_id] > PATIENCE:
                    return self._fail(unit_id, update.trouble)
                return [self._requeue(update, update.trouble)]
            case "crowded":  # whoever says so has fewer places for it each time
                return [self._requeue(update, update.trouble)]
            case "lost" if self._fraction[unit_id] > self._furthest[unit_id]:
                self._furthest[unit_id] = self._fraction[unit_id]
                return [self._requeue(update, update.trouble)]
            case _:
                self._failures[unit_id] += 1
                if self._failures[unit_id] >= TRIES:
                    return self._fail(unit_id, update.trouble)
                return [self._requeue(update, update.trouble)]

    def stop(self) -> list[UnitProgress]:
        """Give up what runs: nothing more will be begun or heard of."""
        left = self.running
        for unit_id in left:
            self.states[unit_id] = "interrupted"
        return [UnitProgress(unit_id, "interrupted", self._fraction[unit_id]) for unit_id in left]

    def _requeue(self, update: UnitUpdate, trouble: str) -> UnitProgress:
        """Queue it again in its old place, so that what needs it does not wait for all else."""
        insort(self._queue, update.unit, key=self._place.__getitem__)
        self.states[update.unit] = "queued"
        return UnitProgress(
            update.unit,
            "queued",
            self._fraction[update.unit],
            update.score,
            trouble,
            update.notice,
        )

    def _interrupt(self, update: UnitUpdate) -> UnitProgress:
        self.states[update.unit] = "interrupted"
        return UnitProgress(update.unit, "interrupted", update.fraction, update.score)

    def _fail(self, unit_id: str, trouble: str) -> list[UnitProgress]:
        """Fail the unit and, in turn, whatever needs it."""
        self.states[unit_id] = "failed"
        failed = [UnitProgress(unit_id, "failed", self._fraction[unit_id], trouble=trouble)]
        for other in self._needed_by[unit_id]:
            if self.states[other] == "queued" and other in self._queue:
                self._queue.remove(other)
                reason = f"'{unit_id}', which it needs, failed: {trouble}"
                failed += self._fail(other, reason)
        return failed
