"""How far the readings of a panel are behind the run, and from when on they look stale."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FRESH = 2.0  # seconds: a reading of a step since then is new, however short the run is
INTERVALS = 2  # between its readings, and …
SHARE = 0.2  # … of the steps of the run, that a reading may be behind
# On a busy machine readings come every ten seconds or more, and early in a run that is a fifth of
# it: panels would pale and clear between any two. So a reading is left alone until its next one
# is overdue by half of the longest time between the last few.
OVERDUE = 1.5
_GAPS = 4  # times between readings that are remembered
PATIENCE = 15.0  # seconds for the next reading of a probe that was read once
_CAME = 256  # steps of readings whose time is known; what is older is overdue
_STEP = 10.0  # seconds: a longer one is a pause, or the machine slept


@dataclass(frozen=True)
class Age:
    """The step of a reading, and how many steps the run has taken since."""

    step: int
    behind: int

    @property
    def words(self) -> str:
        return f"step {self.step:,} · {self.short}"

    @property
    def short(self) -> str:
        """Where there is no room for the step."""
        return f"{self.behind:,} behind"


def is_stale(
    step: int, newest: int, interval: int | None, recent: int | None, overdue: bool = True
) -> bool:
    """Return whether a reading is too far behind a run that trains.

    Args:
        step: Step of the reading.
        newest: Step of the run, which is as long as that.
        interval: Steps between the last two readings of the slowest probe; None: there was no
            second one.
        recent: A step of the run at least `FRESH` seconds ago; None: it has not trained so long.
        overdue: The next reading should have come by now, as readings of this run usually do.
    """
    if recent is None or step >= recent or not overdue:
        return False
    behind = newest - step
    late = interval is not None and behind > INTERVALS * interval
    return late or behind > SHARE * newest


class ReadingAges:
    """The steps of a run and of its readings, as they come one after the other.

    All panels share one: whether a reading is stale follows from its step alone, by the slowest of
    the probes that are watched, so that panels whose readings are of the same step look the same.
    """

    def __init__(self) -> None:
        self._run: object = None
        self._steps: deque[tuple[float, int]] = deque()  # when the run was at which step
        self._read: dict[str, int] = {}  # step of the newest reading of each probe
        self._intervals: dict[str, int] = {}  # steps between that and the one before it
        self._trained = 0.0  # seconds that the run has trained
        self._progress: float | None = None  # when it made its newest step
        self._taken: dict[str, float] = {}  # seconds trained when the newest reading came
        self._gaps: dict[str, deque[float]] = {}  # seconds trained between the last readings
        self._came: dict[int, float] = {}  # seconds trained when the first reading of a step came

    def follow(self, run: object) -> None:
        """Forget the readings of another run than this one."""
        if run is not self._run:
            self._run = run
            self.forget()

    def forget(self) -> None:
        self._steps.clear()
        self._trained, self._progress = 0.0, None
        self._came.clear()
        self.watch(())

    def watch(self, probes: Iterable[str]) -> None:
        """Forget how often probes are read that are none of these."""
        kept = set(probes)
        for known in (self._read, self._intervals, self._taken, self._gaps):
            for probe in known.keys() - kept:
                del known[probe]

    def reach(self, step: int, now: float) -> None:
        """The run is at this step, at this time in seconds."""
        if self._steps and step < self._steps[-1][1]:
            self.forget()
        if not self._steps or step > self._steps[-1][1]:
            if self._progress is not None:
                self._trained += min(now - self._progress, _STEP)
            self._progress = now
        self._steps.append((now, step))
        while len(self._steps) > 1 and self._steps[1][0] <= now - FRESH:
            self._steps.popleft()

    def take(self, read: Mapping[str, int]) -> None:
        """Take in the steps of readings; of a probe that has a newer one by now nothing changes."""
        for probe, step in read.items():
            before = self._read.get(probe)
            if before is not None and step <= before:
                continue
            if before is not None:
                self._intervals[probe] = step - before
                gaps = self._gaps.setdefault(probe, deque(maxlen=_GAPS))
                gaps.append(self._trained - self._taken[probe])
            self._read[probe], self._taken[probe] = step, self._trained
            self._came.setdefault(step, self._trained)
        while len(self._came) > _CAME:
            del self._came[next(iter(self._came))]

    def age(self, read: Iterable[int], now: float, paused: bool = False) -> Age | None:
        """The age of the oldest of these steps of readings that is stale; None where none is.

        Of a run that is paused none is overdue, and what is behind its last step is stale at once.
        """
        if not self._steps:
            return None
        (when, step), newest = self._steps[0], self._steps[-1][1]
        recent = step if when <= now - FRESH else None
        interval = max(self._intervals.values(), default=None)
        stale = [
            one
            for one in read
            if is_stale(one, newest, interval, recent, paused or self._is_overdue(one))
        ]
        return Age(min(stale), newest - min(stale)) if stale else None

    def _is_overdue(self, step: int) -> bool:
        """Whether a newer reading should have come by now, by the slowest of all probes."""
        waits = (
            OVERDUE * max(self._gaps[probe]) if probe in self._gaps else PATIENCE
            for probe in self._read
        )
        return self._trained - self._came.get(step, -math.inf) > max(waits, default=PATIENCE)
