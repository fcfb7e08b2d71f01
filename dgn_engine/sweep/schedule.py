"""The state machine of a sweep: which units are ready, running or over. No processes, no clock."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dgn_engine.sweep.unit import Unit, UnitUpdate

UnitState = Literal["queued", "running", "done", "skipped", "diverged", "failed", "interrupted"]
TRIES = 3  # attempts at a unit that fails, or whose worker is lost without progress
PATIENCE = 300  # times to requeue a unit whose run is locked by another process
SOUND: tuple[UnitState, ...] = ("done", "skipped", "diverged")
OVER: tuple[UnitState, ...] = (*SOUND, "failed")


@dataclass(frozen=True)
class UnitProgress:
    """The state of a unit and its progress.

    Attributes:
        unit: its id.
        state: its state.
        fraction: share of its work that is done.
        score: best test accuracy so far.
        trouble: why it failed.
        notice: a sentence for the user.
        trained: for a unit that is over, the share of its steps that were taken; less than 1 if
            it stopped early.
    """

    unit: str
    state: UnitState
    fraction: float = 0.0
    score: float | None = None
    trouble: str = ""
    notice: str = ""
    trained: float = 1.0


class Schedule:
    """The units of a sweep in order; each comes after its needs."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = {unit.id: unit for unit in units}
        self._place = {name: index for index, name in enumerate(self._units)}
        self._queue = list(self._units)  # in starting order
        self._needed_by: dict[str, list[str]] = {unit.id: [] for unit in units}
        for unit in units:
            for need in unit.needs:
                self._needed_by[need].append(unit.id)
        self._failures = dict.fromkeys(self._units, 0)
        self._waits = dict.fromkeys(self._units, 0)
        self._furthest = dict.fromkeys(self._units, 0.0)  # when its worker was last lost
        self._fraction = dict.fromkeys(self._units, 0.0)
        self.states: dict[str, UnitState] = dict.fromkeys(self._units, "queued")

    @property
    def is_over(self) -> bool:
        return all(state in OVER for state in self.states.values())

    @property
    def running(self) -> list[str]:
        return [name for name, state in self.states.items() if state == "running"]

    def ready_units(self) -> list[Unit]:
        return [
            self._units[name]
            for name in self._queue
            if all(self.states[need] in SOUND for need in self._units[name].needs)
        ]

    def skip(self, unit_id: str, state: UnitState, score: float | None) -> UnitProgress:
        """Remove a unit from the queue because there is nothing to do."""
        self._queue.remove(unit_id)
        self.states[unit_id] = state
        return UnitProgress(unit_id, state, 1.0, score)

    def begin(self, unit_id: str) -> None:
        self._queue.remove(unit_id)
        self.states[unit_id] = "running"

    def apply_update(self, update: UnitUpdate, stopping: bool) -> list[UnitProgress]:
        """Apply a worker's update; return the progress of its unit and of those that need it."""
        unit_id = update.unit
        if self.states.get(unit_id) != "running":
            return []  # an update of an abandoned worker
        self._fraction[unit_id] = max(self._fraction[unit_id], update.fraction)
        match update.state:
            case "running":
                return [UnitProgress(unit_id, "running", update.fraction, update.score)]
            case "done" | "diverged":
                self.states[unit_id] = update.state
                trained = update.fraction or 1.0
                return [UnitProgress(unit_id, update.state, 1.0, update.score, trained=trained)]
            case "interrupted":
                return (
                    [self._requeue_unit(update, "")]
                    if not stopping
                    else [self._interrupt_unit(update)]
                )
            case "held" | "lost" | "crowded" if stopping:
                return [self._interrupt_unit(update)]
            case "refused":  # only the user can fix it, so do not retry
                return self._fail_unit(unit_id, update.trouble)
            case "held":
                self._waits[unit_id] += 1
                if self._waits[unit_id] > PATIENCE:
                    return self._fail_unit(unit_id, update.trouble)
                return [self._requeue_unit(update, update.trouble)]
            case "crowded":  # terminates: each time there are fewer places left to try
                return [self._requeue_unit(update, update.trouble)]
            case "lost" if self._fraction[unit_id] > self._furthest[unit_id]:
                self._furthest[unit_id] = self._fraction[unit_id]
                return [self._requeue_unit(update, update.trouble)]
            case _:
                self._failures[unit_id] += 1
                if self._failures[unit_id] >= TRIES:
                    return self._fail_unit(unit_id, update.trouble)
                return [self._requeue_unit(update, update.trouble)]

    def stop(self) -> list[UnitProgress]:
        """Mark running units as interrupted; no more updates will arrive."""
        left = self.running
        for unit_id in left:
            self.states[unit_id] = "interrupted"
        return [UnitProgress(unit_id, "interrupted", self._fraction[unit_id]) for unit_id in left]

    def _requeue_unit(self, update: UnitUpdate, trouble: str) -> UnitProgress:
        """Queue the unit at its original position, so that units that need it are not delayed."""
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

    def _interrupt_unit(self, update: UnitUpdate) -> UnitProgress:
        self.states[update.unit] = "interrupted"
        return UnitProgress(update.unit, "interrupted", update.fraction, update.score)

    def _fail_unit(self, unit_id: str, trouble: str) -> list[UnitProgress]:
        """Fail the unit and, recursively, the units that need it."""
        self.states[unit_id] = "failed"
        failed = [UnitProgress(unit_id, "failed", self._fraction[unit_id], trouble=trouble)]
        for other in self._needed_by[unit_id]:
            if self.states[other] == "queued" and other in self._queue:
                self._queue.remove(other)
                reason = f"it needs '{unit_id}', which failed: {trouble}"
                failed += self._fail_unit(other, reason)
        return failed
