"""The viewer overhead: the share of a run's step rate that is lost because it is watched.

It is measured, not added up. Nearly twice a second there is a *quiet stretch*: for about a seventh
of a second steps are taken, and nothing is read, published or recorded, so that the window sleeps.
The rate in these stretches is that of a run nobody watches; the rate over all time is what is left
of it. Both come from the same seconds, so that the load of the machine is in both, and the spread
from pair to pair says how far the difference can be trusted.

On a busy machine the clock says little: in a tenth of a second the run has a few slices of a
processor. There the rate is taken apart: steps per second = (steps per processor second) × (share
of the time in which the thread was not blocked) × (share of that in which it had a processor).
Where the system counts the third one (Linux), it is left out: it is the machine's, not the
viewer's. Readings, copies and cold caches are in the first, waiting for the interpreter is in the
second.
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

EVERY = 0.5  # seconds between two quiet stretches, and at least
APART = 4.0  # … so many times what the last one took
# Seconds of a quiet stretch, by the clock: so moments in which the machine is busy have the same
# weight there as in all time.
QUIET = 0.15
LONGEST_QUIET = 0.3  # … where steps are long
STEPS = 2  # … and at least so many steps, unless they take longer than that
GUARD = 0.01  # seconds before it, in which the window falls asleep
LONGEST_GUARD = 0.15  # … after which this one is put off
RESTLESS = 0.03  # part of a quiet stretch that other threads may take
PAIRS = 80  # of a quiet stretch and the time since the one before it: the memory
FEWEST = 16  # … before anything is said
PRECISE = 0.01  # standard error with which the clock alone is good enough

TOO_FEW = "not enough quiet stretches yet to compare with"
PACED = "the run waits between its steps: what watching takes comes out of the waiting"
RESTING = "no step is taken"


class Overhead(NamedTuple):
    """The share of the step rate that is lost, and the standard error of it."""

    lost: float
    noise: float


class StepCosts(NamedTuple):
    """What the run has taken so far, or between two moments; seconds but for the steps."""

    steps: float
    wall: float
    busy: float  # the thread that trains, on a processor
    queued: float  # … ready, and without one; NaN where the system does not say
    others: float  # all other threads, on a processor
    charged: float  # by the ledger of watching

    def since(self, before: StepCosts) -> StepCosts:
        return StepCosts(*(now - then for now, then in zip(self, before, strict=True)))

    def plus(self, other: StepCosts) -> StepCosts:
        return StepCosts(*(one + more for one, more in zip(self, other, strict=True)))


_SCHEDSTAT = Path("/proc/thread-self/schedstat")
_NOTHING = StepCosts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def queued_seconds() -> float:
    """Return how long this thread has waited for a processor; NaN where the system does not say."""
    try:
        with _SCHEDSTAT.open("rb", buffering=0) as file:
            return 1e-9 * int(file.read(96).split()[1])
    except (OSError, ValueError, IndexError):
        return math.nan


def seconds_of_other_threads() -> float:
    """Return the processor seconds of all threads but this one, torch's own among them."""
    return time.process_time() - time.thread_time()


def seconds_of_main_thread() -> float:
    """Return the processor seconds of the window's thread, where that is another one.

    For networks whose layers torch computes in several threads: those are never quiet.
    """
    main = threading.main_thread()
    if main is threading.current_thread() or not hasattr(time, "pthread_getcpuclockid"):
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(main.ident or 0))


class OverheadMeter:
    """Arranges quiet stretches and compares them with all time.

    Args:
        clock: Wall seconds.
        busy: Processor seconds of the thread that trains; where a card does the work, the clock.
        queued: Seconds in which that thread was ready and had no processor; NaN: not known.
        others: Processor seconds of the other threads.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
        queued: Callable[[], float] = queued_seconds,
        others: Callable[[], float] = seconds_of_other_threads,
    ) -> None:
        self._clock = clock
        self._busy = busy
        self._queued = queued
        self.others = others
        self.steps = 0  # counted by whoever takes them
        self.charged = 0.0  # processor seconds, by the ledger
        # All time, and the quiet part of it.
        self._pairs: deque[tuple[StepCosts, StepCosts]] = deque(maxlen=PAIRS)
        self._start: StepCosts | None = None  # of the pair that is open
        self._left_out = _NOTHING  # of it
        self._guard: StepCosts | None = None  # a quiet stretch is about to begin: since when
        self._guarded = 0.0  # when the first such moment was
        self._quiet: StepCosts | None = None  # … and has begun
        self._quiet_left_out = _NOTHING
        self._random = random.Random(0)  # its own: training draws nothing of it
        self._next = 0.0  # when the next one is due
        self.reason = TOO_FEW  # why nothing is said
        self.measured: Overhead | None = None

    def leave(self, reason: str) -> None:
        """Stop measuring: the run rests, or waits between its steps. What is known is forgotten."""
        if self.reason != reason or self._start is not None:
            self.forget()
            self.reason = reason

    def forget(self) -> None:
        """Discard all measurements: what a step or watching takes has changed."""
        self._pairs.clear()
        self._start = self._guard = self._quiet = self.measured = None
        self._left_out = self._quiet_left_out = _NOTHING
        self.reason = TOO_FEW

    def begin_if_due(self) -> None:
        """Between two steps, when all that was due is done: begin a quiet stretch if it is time."""
        now = self._clock()
        if self._start is None:
            self._start, self._next = self._sample(), now + EVERY
        elif now >= self._next and self._guard is None and self._quiet is None:
            self._guard, self._guarded = self._sample(), now

    def is_quiet(self) -> bool:
        """After a step: whether nothing but steps may be done now."""
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

    def leave_out(self, work: Callable[[], None]) -> None:
        """Do work that belongs to the run and to no step: the test pass of an epoch."""
        if self._start is None:  # nobody measures
            return work()
        before = self._sample()
        work()
        taken = self._sample().since(before)
        self._left_out = self._left_out.plus(taken)
        self._quiet_left_out = self._quiet_left_out.plus(taken)
        return None

    def disturb(self) -> None:
        """What follows is no step: the stretch that is open is not quiet."""
        if self._guard is not None or self._quiet is not None:
            self._guard = self._quiet = None
            self._next = self._clock() + EVERY / 4

    @property
    def ledger_share(self) -> float:
        """The part of the remembered time that the ledger was charged with."""
        charged = sum(all_time.charged for all_time, _ in self._pairs)
        busy = sum(all_time.busy for all_time, _ in self._pairs)
        return charged / (busy + charged) if busy + charged > 0.0 else 0.0

    def _sample(self) -> StepCosts:
        return StepCosts(
            self.steps, self._clock(), self._busy(), self._queued(), self.others(), self.charged
        )

    def _end_guard(self, guard: StepCosts) -> None:
        now = self._sample()
        passed = now.since(guard)
        if passed.others <= RESTLESS * passed.wall:
            self._guard, self._quiet, self._quiet_left_out = None, now, _NOTHING
        elif now.wall - self._guarded > LONGEST_GUARD:
            self.disturb()
        else:
            self._guard = now

    def _end_quiet(self, began: StepCosts) -> None:
        now = self._sample()
        quiet, start = now.since(began).since(self._quiet_left_out), self._start
        self._quiet = None
        if quiet.steps < 1.0 or start is None or quiet.others > RESTLESS * quiet.wall:
            self._next = now.wall + EVERY / 4
            return
        self._pairs.append((now.since(start).since(self._left_out), quiet))
        self._start, self._left_out = now, _NOTHING
        # At random, so that they are not in step with rounds or with another program.
        wait = max(EVERY, APART * (now.wall - self._guarded))
        self._next = now.wall + self._random.uniform(0.2, 1.8) * wait
        if len(self._pairs) >= FEWEST:
            self.measured, self.reason = estimate(self._pairs), ""


def estimate(pairs: Sequence[tuple[StepCosts, StepCosts]]) -> Overhead:
    """Estimate the share of the step rate that is lost.

    Sums over all pairs are compared: what costs much comes in few of them, and a median would miss
    it. The standard error is that of the jackknife, which leaves out one pair after the other.

    Args:
        pairs: All time since the pair before, and the quiet stretch at its end.
    """
    taken = np.array(pairs)
    clock = _jackknife(taken, _steps_a_second)
    apart = _jackknife(taken, _steps_unqueued)
    if clock.noise <= PRECISE or not apart.noise < clock.noise:  # NaN: not known
        return clock
    return apart


def _steps_a_second(taken: Array) -> Array:
    """(…, 6) samples → (…) steps a second."""
    rates: Array = taken[..., 0] / taken[..., 1]
    return rates


def _steps_unqueued(taken: Array) -> Array:
    """Steps per processor second, times the share of the time in which nothing blocked them."""
    steps, wall, busy, queued = np.moveaxis(taken[..., :4], -1, 0)
    blocked = np.maximum(wall - busy - queued, 0.0)
    rates: Array = steps / np.maximum(busy, 1e-9) * (1.0 - blocked / wall)
    return rates


def _jackknife(taken: Array, rate: Callable[[Array], Array]) -> Overhead:
    """`taken`: (pairs, 2, 6)."""
    whole, count = taken.sum(axis=0), len(taken)
    part, quiet = np.moveaxis(rate(whole - taken), -1, 0)
    without = 1.0 - part / quiet
    variance = (count - 1) / count * float(((without - without.mean()) ** 2).sum())
    both = rate(whole)
    return Overhead(float(1.0 - both[0] / both[1]), math.sqrt(variance))
