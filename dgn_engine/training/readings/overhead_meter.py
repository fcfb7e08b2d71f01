"""Measure the viewer overhead: the share of the step rate lost because a run is watched.

About twice a second there is a *quiet stretch*: for 0.15 s only steps are taken, while nothing is
read, published or recorded and the window sleeps. The step rate in quiet stretches is that of an
unwatched run; comparing it with the overall rate gives the overhead. Both rates come from the same
seconds and see the same machine load, and their scatter from pair to pair gives the standard error.

On a busy machine wall-clock rates are noisy, since a quiet stretch gets only a few time slices.
There the rate is factored: steps per second = (steps per processor second) × (share of time the
thread was not blocked) × (share of that in which it had a processor). Where the system reports the
third factor (Linux), it is dropped, as it depends on the machine and not on the viewer. Readings,
copies and cold caches show in the first factor, waiting for the interpreter lock in the second.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dgn_engine.protocol.frames import Array

EVERY = 0.5  # seconds between two quiet stretches, at least, and
APART = 4.0  # … times the length of the last one
# Wall seconds of a quiet stretch: measured by the clock, busy moments of the machine have the same
# weight in it as in overall time.
QUIET = 0.15
LONGEST_QUIET = 0.3  # … where steps are long
STEPS = 2  # … steps in it at least, unless they take longer than that
GUARD = 0.01  # seconds before it, for the window to go idle
LONGEST_GUARD = 0.15  # … after which the stretch is postponed
RESTLESS = 0.03  # share of a quiet stretch that other threads may use
PAIRS = 80  # pairs remembered: a quiet stretch and the time since the previous one
FEWEST = 16  # … needed for an estimate
PRECISE = 0.01  # standard error at which the wall clock alone is good enough

TOO_FEW = "not enough quiet intervals yet"
PACED = "the run is paced: watching uses the time it waits between steps"
RESTING = "the run is paused"


class Overhead(NamedTuple):
    """The lost share of the step rate, and its standard error."""

    lost: float
    noise: float


class StepCosts(NamedTuple):
    """Counters of the run, cumulative or between two moments; all in seconds except `steps`."""

    steps: float
    wall: float
    busy: float  # training thread, on a processor
    queued: float  # … ready but without a processor; NaN if unknown
    others: float  # all other threads, on a processor
    charged: float  # charged to the watch budget

    def since(self, before: StepCosts) -> StepCosts:
        """Subtract an earlier sample.

        Args:
            before: The earlier sample.

        Returns:
            The costs in between.
        """
        return StepCosts(*(now - then for now, then in zip(self, before, strict=True)))

    def plus(self, other: StepCosts) -> StepCosts:
        """Add two costs.

        Args:
            other: The costs to add.

        Returns:
            The sum, field by field.
        """
        return StepCosts(*(own + more for own, more in zip(self, other, strict=True)))


_SCHEDSTAT = Path("/proc/thread-self/schedstat")
_NOTHING = StepCosts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def queued_seconds() -> float:
    """Return how long this thread has waited for a processor.

    Returns:
        Seconds since the thread started; NaN if the system does not report it.
    """
    try:
        with _SCHEDSTAT.open("rb", buffering=0) as file:
            return 1e-9 * int(file.read(96).split()[1])
    except (OSError, ValueError, IndexError):
        return math.nan


def seconds_of_other_threads() -> float:
    """Return the processor time of all threads but this one, torch's own included.

    Returns:
        Seconds since the process started.
    """
    return time.process_time() - time.thread_time()


def seconds_of_main_thread() -> float:
    """Return the processor time of the window's thread.

    For networks that torch computes in several threads, whose own threads are never quiet.

    Returns:
        Seconds; 0 if the calling thread is the main thread, or the system has no such clock.
    """
    main = threading.main_thread()
    if main is threading.current_thread() or not hasattr(time, "pthread_getcpuclockid"):
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(main.ident or 0))


class OverheadMeter:
    """Meter of the viewer overhead: schedules quiet stretches and compares them with overall time.

    All methods run in the training thread.

    Attributes:
        steps: Steps taken, counted by the caller.
        charged: Processor seconds charged to the budget.
        reason: Why there is no measurement yet; '' if there is one.
        measured: The current estimate, or None.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
        queued: Callable[[], float] = queued_seconds,
        others: Callable[[], float] = seconds_of_other_threads,
    ) -> None:
        """Start without measurements.

        Args:
            clock: Returns wall seconds.
            busy: Returns processor seconds of the training thread; wall seconds if a card does the
                work.
            queued: Returns seconds this thread was ready without a processor; NaN if unknown.
            others: Returns processor seconds of the other threads.
        """
        self._clock = clock
        self._busy = busy
        self._queued = queued
        self.others = others
        self.steps = 0
        self.charged = 0.0
        # Overall time, and the quiet stretch at its end.
        self._pairs: deque[tuple[StepCosts, StepCosts]] = deque(maxlen=PAIRS)
        self._start: StepCosts | None = None  # of the current pair
        self._left_out = _NOTHING  # excluded from it
        self._guard: StepCosts | None = None  # since when a quiet stretch is about to begin
        self._guarded = 0.0  # start of the first guard interval
        self._quiet: StepCosts | None = None  # since when it is quiet
        self._quiet_left_out = _NOTHING
        self._random = random.Random(0)  # private, so that training is not affected
        self._next = 0.0  # when the next one is due
        self.reason = TOO_FEW
        self.measured: Overhead | None = None

    def stop_measuring(self, reason: str) -> None:
        """Stop measuring and discard all measurements.

        Args:
            reason: Why: the run is paused, or paced.
        """
        if self.reason != reason or self._start is not None:
            self.discard_measurements()
            self.reason = reason

    def discard_measurements(self) -> None:
        """Discard all measurements, since the cost of a step or of watching has changed."""
        self._pairs.clear()
        self._start = self._guard = self._quiet = self.measured = None
        self._left_out = self._quiet_left_out = _NOTHING
        self.reason = TOO_FEW

    def begin_if_due(self) -> None:
        """Start a quiet stretch if one is due; call between two steps, when other work is done."""
        now = self._clock()
        if self._start is None:
            self._start, self._next = self._sample_costs(), now + EVERY
        elif now >= self._next and self._guard is None and self._quiet is None:
            self._guard, self._guarded = self._sample_costs(), now

    def is_quiet(self) -> bool:
        """Return whether only steps may be taken now; call after a step.

        Returns:
            True during a quiet stretch and while waiting for one to begin.
        """
        if self._guard is None and self._quiet is None:
            return False
        now = self._clock()
        if self._guard is not None:
            if now - self._guard.wall >= GUARD:
                self._end_guard(self._guard)
            return self._guard is not None or self._quiet is not None
        assert self._quiet is not None
        least = QUIET if self.steps - self._quiet.steps >= STEPS else LONGEST_QUIET
        if now - self._quiet.wall < least:
            return True
        self._end_quiet(self._quiet)
        return False

    @property
    def quiet_until(self) -> float:
        """Return until when steps may follow each other without a call of `is_quiet`.

        Returns:
            Seconds of the clock; 0 if no quiet stretch is going on or about to begin.
        """
        if self._guard is not None:
            return self._guard.wall + GUARD
        return 0.0 if self._quiet is None else self._quiet.wall + QUIET

    def exclude_work(self, work: Callable[[], None]) -> None:
        """Do work that belongs to the run but to no step, such as the test pass of an epoch.

        Args:
            work: Called once; its cost is excluded from the measurement.
        """
        if self._start is None:  # not measuring
            return work()
        before = self._sample_costs()
        work()
        taken = self._sample_costs().since(before)
        self._left_out = self._left_out.plus(taken)
        self._quiet_left_out = self._quiet_left_out.plus(taken)
        return None

    def interrupt_quiet(self) -> None:
        """Abort the current quiet stretch, since something other than a step follows."""
        if self._guard is not None or self._quiet is not None:
            self._guard = self._quiet = None
            self._next = self._clock() + EVERY / 4

    @property
    def ledger_share(self) -> float:
        """Return the share of the measured time that the budget was charged for.

        Returns:
            In [0, 1]; 0 without measurements.
        """
        charged = sum(all_time.charged for all_time, _ in self._pairs)
        busy = sum(all_time.busy for all_time, _ in self._pairs)
        return charged / (busy + charged) if busy + charged > 0.0 else 0.0

    def _sample_costs(self) -> StepCosts:
        return StepCosts(
            self.steps, self._clock(), self._busy(), self._queued(), self.others(), self.charged
        )

    def _end_guard(self, guard: StepCosts) -> None:
        now = self._sample_costs()
        passed = now.since(guard)
        if passed.others <= RESTLESS * passed.wall:
            self._guard, self._quiet, self._quiet_left_out = None, now, _NOTHING
        elif now.wall - self._guarded > LONGEST_GUARD:
            self.interrupt_quiet()
        else:
            self._guard = now

    def _end_quiet(self, began: StepCosts) -> None:
        now = self._sample_costs()
        quiet, start = now.since(began).since(self._quiet_left_out), self._start
        self._quiet = None
        if quiet.steps < 1.0 or start is None or quiet.others > RESTLESS * quiet.wall:
            self._next = now.wall + EVERY / 4
            return
        self._pairs.append((now.since(start).since(self._left_out), quiet))
        self._start, self._left_out = now, _NOTHING
        # Random spacing, so that stretches do not lock in step with rounds or another program.
        wait = max(EVERY, APART * (now.wall - self._guarded))
        self._next = now.wall + self._random.uniform(0.2, 1.8) * wait
        if len(self._pairs) >= FEWEST:
            self.measured, self.reason = estimate_overhead(self._pairs), ""


def estimate_overhead(pairs: Sequence[tuple[StepCosts, StepCosts]]) -> Overhead:
    """Estimate the lost share of the step rate.

    lost = 1 - (overall rate) / (quiet rate), with rates from sums over all pairs: expensive events
    are rare, and a median would miss them. The standard error is the jackknife's, leaving out one
    pair at a time.

    Args:
        pairs: Costs of all time since the previous pair, and of the quiet stretch at its end.

    Returns:
        The estimate with the smaller standard error: from wall-clock or from processor time.
    """
    taken = np.array(pairs)
    clock = _jackknife(taken, _steps_a_second)
    apart = _jackknife(taken, _steps_unqueued)
    if clock.noise <= PRECISE or not apart.noise < clock.noise:  # NaN: not known
        return clock
    return apart


def _steps_a_second(taken: Array) -> Array:
    """Return steps per second, (…), of samples (…, 6)."""
    rates: Array = taken[..., 0] / taken[..., 1]
    return rates


def _steps_unqueued(taken: Array) -> Array:
    """Return steps per processor second times the share of time the thread was not blocked."""
    steps, wall, busy, queued = np.moveaxis(taken[..., :4], -1, 0)
    blocked = np.maximum(wall - busy - queued, 0.0)
    rates: Array = steps / np.maximum(busy, 1e-9) * (1.0 - blocked / wall)
    return rates


def _jackknife(taken: Array, rate: Callable[[Array], Array]) -> Overhead:
    """Return 1 - overall/quiet rate and its jackknife error; `taken` is (pairs, 2, 6)."""
    whole, count = taken.sum(axis=0), len(taken)
    part, quiet = np.moveaxis(rate(whole - taken), -1, 0)  # without one pair each
    without = 1.0 - part / quiet
    # Jackknife variance: (n - 1)/n Σ_i (θ_i - θ̄)².
    variance = (count - 1) / count * float(((without - without.mean()) ** 2).sum())
    both = rate(whole)
    return Overhead(float(1.0 - both[0] / both[1]), math.sqrt(variance))
