"""Which units are ready, which run, and what became of each; knows no processes and no clock."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from dgn_engine.sweep.executor import Told, UnitProgress
from dgn_engine.sweep.unit import Unit
from dgn_engine.sweep.unit_update import UnitUpdate

TRIES = 3  # of a unit that fails, or whose worker is lost again and again at the same place
PATIENCE = 300  # times that a unit whose run another process writes is put back
SOUND: tuple[Told, ...] = ("done", "skipped", "diverged")
_OVER: tuple[Told, ...] = (*SOUND, "failed")


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
        self.states: dict[str, Told] = dict.fromkeys(self._units, "queued")

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return all(state in _OVER for state in self.states.values())

    @property
    def running(self) -> list[str]:
        """The ids of the units that are being carried out."""
        return [name for name, state in self.states.items() if state == "running"]

    def ready(self) -> list[Unit]:
        """The units that can be begun now, in order."""
        return [
            self._units[name]
            for name in self._queue
            if all(self.states[need] in SOUND for need in self._units[name].needs)
        ]

    def skip(self, unit_id: str, state: Told, score: float | None) -> UnitProgress:
        """There is nothing to do for it."""
        self._queue.remove(unit_id)
        self.states[unit_id] = state
        return UnitProgress(unit_id, state, 1.0, score)

    def begin(self, unit_id: str) -> None:
        """A worker has it."""
        self._queue.remove(unit_id)
        self.states[unit_id] = "running"

    def hear(self, news: UnitUpdate, stopping: bool) -> list[UnitProgress]:
        """What follows from news of a unit that runs, for it and for those that need it."""
        unit_id = news.unit
        if self.states.get(unit_id) != "running":
            return []  # its worker had been given up
        self._fraction[unit_id] = max(self._fraction[unit_id], news.fraction)
        match news.word:
            case "running":
                return [UnitProgress(unit_id, "running", news.fraction, news.score)]
            case "done" | "diverged":
                self.states[unit_id] = news.word
                return [UnitProgress(unit_id, news.word, 1.0, news.score)]
            case "interrupted":
                return [self._back(news, "")] if not stopping else [self._left(news)]
            case "held" | "lost" if stopping:
                return [self._left(news)]
            case "refused":  # a sentence for the user, who alone can mend it
                return self._fail(unit_id, news.trouble)
            case "held":
                self._waits[unit_id] += 1
                if self._waits[unit_id] > PATIENCE:
                    return self._fail(unit_id, news.trouble)
                return [self._back(news, news.trouble)]
            case "lost" if self._fraction[unit_id] > self._furthest[unit_id]:
                self._furthest[unit_id] = self._fraction[unit_id]
                return [self._back(news, news.trouble)]
            case _:
                self._failures[unit_id] += 1
                if self._failures[unit_id] >= TRIES:
                    return self._fail(unit_id, news.trouble)
                return [self._back(news, news.trouble)]

    def stop(self) -> list[UnitProgress]:
        """Nothing more will be begun or heard of."""
        left = self.running
        for unit_id in left:
            self.states[unit_id] = "interrupted"
        return [UnitProgress(unit_id, "interrupted", self._fraction[unit_id]) for unit_id in left]

    def _back(self, news: UnitUpdate, trouble: str) -> UnitProgress:
        """It is begun again; in its old place, so that what needs it does not wait for all else."""
        insort(self._queue, news.unit, key=self._place.__getitem__)
        self.states[news.unit] = "queued"
        return UnitProgress(news.unit, "queued", self._fraction[news.unit], news.score, trouble)

    def _left(self, news: UnitUpdate) -> UnitProgress:
        self.states[news.unit] = "interrupted"
        return UnitProgress(news.unit, "interrupted", news.fraction, news.score)

    def _fail(self, unit_id: str, trouble: str) -> list[UnitProgress]:
        """It and, in turn, whatever needs it."""
        self.states[unit_id] = "failed"
        told = [UnitProgress(unit_id, "failed", self._fraction[unit_id], trouble=trouble)]
        for other in self._needed_by[unit_id]:
            if self.states[other] == "queued" and other in self._queue:
                self._queue.remove(other)
                reason = f"'{unit_id}', which it needs, failed: {trouble}"
                told += self._fail(other, reason)
        return told
