"""How far a panel's readings lag behind the run, and when they count as stale."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FRESH = 2.0  # seconds: readings of steps this recent are fresh, however short the run
INTERVALS = 2  # intervals between readings, and …
SHARE = 0.2  # … share of the run's steps that a reading may lag behind
# On a busy machine readings come every ten seconds or more, which early on is a fifth of the run:
# panels would fade and recover between any two. So a reading counts as fresh until the next one
# is overdue by half of the longest recent time between readings.
OVERDUE = 1.5
_GAPS = 4  # recent times between readings that are kept
PATIENCE = 60.0  # seconds to wait for the second reading of a probe: its first minute
_CAME = 256  # steps with a known reading time; older ones are overdue
_STEP = 10.0  # seconds: a longer step is a pause, or the machine slept


@dataclass(frozen=True)
class Age:
    """The step of a reading, and how many steps the run has taken since."""

    step: int
    behind: int

    @property
    def long_text(self) -> str:
        return f"step {self.step:,} · {self.short_text}"

    @property
    def short_text(self) -> str:
        """The lag alone, if there is no room for the step."""
        return f"{self.behind:,} behind"


def is_stale(
    step: int, newest: int, interval: int | None, recent: int | None, overdue: bool = True
) -> bool:
    """Return whether a reading lags too far behind a run that trains.

    Args:
        step: Step of the reading.
        newest: Newest step of the run.
        interval: Steps between the last two readings of the slowest probe; None: only one so far.
        recent: A step of the run at least `FRESH` seconds ago; None: it has not trained that long.
        overdue: The next reading should have come by now, judging by earlier ones.
    """
    if recent is None or step >= recent or not overdue:
        return False
    behind = newest - step
    late = interval is not None and behind > INTERVALS * interval
    return late or behind > SHARE * newest


class ReadingAges:
    """The steps of a run and of its readings, in the order in which they come.

    All panels share one: staleness depends on the step alone, judged by the slowest watched probe,
    so that panels with readings of the same step look the same.
    """

    def __init__(self) -> None:
        self._run: object = None
        self._steps: deque[tuple[float, int]] = deque()  # (time, step of the run)
        self._read: dict[str, int] = {}  # step of the newest reading of each probe
        self._intervals: dict[str, int] = {}  # steps between that and the one before it
        self._trained = 0.0  # training time of the run in seconds
        self._progress: float | None = None  # time of its newest step
        self._taken: dict[str, float] = {}  # training time at the newest reading
        self._gaps: dict[str, deque[float]] = {}  # training time between recent readings
        self._came: dict[int, float] = {}  # training time at the first reading of a step

    def track_run(self, run: object) -> None:
        """Forget all readings if this is another run."""
        if run is not self._run:
            self._run = run
            self.forget_readings()

    def forget_readings(self) -> None:
        self._steps.clear()
        self._trained, self._progress = 0.0, None
        self._came.clear()
        self.keep_probes(())

    def keep_probes(self, probes: Iterable[str]) -> None:
        """Forget the reading intervals of all other probes."""
        watched = set(probes)
        for table in (self._read, self._intervals, self._taken, self._gaps):
            for probe in table.keys() - watched:
                del table[probe]

    def record_step(self, step: int, now: float) -> None:
        """Record the run's step at a time in seconds."""
        if self._steps and step < self._steps[-1][1]:
            self.forget_readings()
        if not self._steps or step > self._steps[-1][1]:
            if self._progress is not None:
                self._trained += min(now - self._progress, _STEP)
            self._progress = now
        self._steps.append((now, step))
        while len(self._steps) > 1 and self._steps[1][0] <= now - FRESH:
            self._steps.popleft()

    def record_readings(self, read: Mapping[str, int]) -> None:
        """Record the steps of readings; older ones than known are ignored."""
        for probe, step in read.items():
            previous = self._read.get(probe)
            if previous is not None and step <= previous:
                continue
            if previous is not None:
                self._intervals[probe] = step - previous
                gaps = self._gaps.setdefault(probe, deque(maxlen=_GAPS))
                gaps.append(self._trained - self._taken[probe])
            self._read[probe], self._taken[probe] = step, self._trained
            self._came.setdefault(step, self._trained)
        while len(self._came) > _CAME:
            del self._came[next(iter(self._came))]

    def stale_age(self, read: Iterable[int], now: float, paused: bool = False) -> Age | None:
        """Return the age of the oldest stale reading among these steps; None if none is stale.

        In a paused run nothing is overdue, and any reading behind its last step is stale at once.
        """
        if not self._steps:
            return None
        (when, step), newest = self._steps[0], self._steps[-1][1]
        recent = step if when <= now - FRESH else None
        interval = max(self._intervals.values(), default=None)
        stale = [
            step_read
            for step_read in read
            if is_stale(step_read, newest, interval, recent, paused or self._is_overdue(step_read))
        ]
        return Age(min(stale), newest - min(stale)) if stale else None

    def _is_overdue(self, step: int) -> bool:
        """Return whether a newer reading is due, judging by the slowest probe."""
        waits = (
            OVERDUE * max(self._gaps[probe]) if probe in self._gaps else PATIENCE
            for probe in self._read
        )
        return self._trained - self._came.get(step, -math.inf) > max(waits, default=PATIENCE)
