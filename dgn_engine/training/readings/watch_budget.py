"""The watch budget: one share of a run's step rate for everything that is not training.

All expenses are charged in processor seconds: readings, test scores between epochs, frames, copies,
the recorder's thread, and the thread of a window in this process. Seconds of another thread count
1.5 times (`SHARED`), since training waits for the interpreter lock and finds its caches cold. In a
window, an `OverheadMeter` measures the actual loss, and all expenses are scaled to match.
Background expenses (the idle window, recording) are paid first; the rest is divided over rounds, in
which everything watched is read and drawn. What the user causes is read and drawn at once, on
credit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from dgn_engine.protocol.frames import Watching
from dgn_engine.training.readings.overhead_meter import (
    PACED,
    RESTING,
    Overhead,
    OverheadMeter,
    queued_seconds,
    seconds_of_other_threads,
)

SHARE = 0.05  # of the step rate, by default
SHORTEST = 0.25  # seconds between two rounds
LONGEST = 5.0  # … at most if the run has a processor, even if background work takes it all
STARVED = 30.0  # … at most if it has a fraction of one; never less than a round's own share
SLOWEST = 6.0  # factor by which background work may be delayed
SHARED = 1.5  # seconds training loses per second of another thread, as measured: it waits 1 s, and
# its own steps take longer afterwards (docs/decisions/0015-one-budget-of-watching.md)
SURE = 0.25  # of the budget is guaranteed to rounds
IDLE_SHARE = 0.2  # of a paced run's waiting time is free, as it delays nothing
PAYBACK = 15.0  # seconds over which debts are paid back
DEBT = 60.0  # seconds of allowance that are paid back at most, so that an hour of overload is
# not followed by an hour without pictures
SETTLE = 0.25  # seconds between two updates of the account
MEMORY = 4.0  # seconds over which rates are smoothed
LONG = 20.0  # … over which the cost of a picture is smoothed
_NEWEST = 0.3  # weight of the newest cost in its running mean
_LEAST = 1e-4  # seconds: lower bound of a cost
_HIGHEST = 0.95  # share of all time that can be spent
_STEADY = 0.02  # largest relative change per account, as its effect only shows seconds later
_TRUST = 0.5  # relative standard error of the charged loss
_SCALES = (0.5, 8.0)  # range of seconds lost per second charged
_STOPPED = 2.0  # wall seconds, and …
_MOSTLY = 4.0  # … times the worked seconds, beyond which the process was suspended
DRAWING = "drawing"
ROUNDS = ("readings", "test scores", DRAWING)  # divided over rounds; all others are background


def seconds_awake(wall: float, busy: float, usual: float = 0.0) -> float:
    """Return how much of an interval the machine or process was awake.

    A suspended machine or stopped process has worked for only a small part of the interval.

    Args:
        wall: Wall seconds.
        busy: Seconds the thread has worked.
        usual: Usual wall seconds, for a thread that also waits.

    Returns:
        `wall`, or the worked seconds if it was suspended.
    """
    worked = max(busy, usual)
    return worked if wall > max(_STOPPED, _MOSTLY * worked) else wall


class _Rate:
    """An amount per second, smoothed exponentially over `memory` seconds."""

    def __init__(self, memory: float = MEMORY) -> None:
        self._memory = memory
        self._total = self._time = 0.0

    def add(self, amount: float, seconds: float) -> None:
        """Add an amount.

        Args:
            amount: Amount of this interval.
            seconds: Length of the interval.
        """
        decay = math.exp(-seconds / self._memory)
        self._total = decay * self._total + amount
        self._time = decay * self._time + seconds

    @property
    def value(self) -> float:
        """Return the amount per second.

        Returns:
            0 before the first interval.
        """
        return self._total / self._time if self._time else 0.0


class WatchBudget:
    """The ledger of one run: what watching may cost and has cost, and when probes are due.

    All methods run in the training thread.

    Attributes:
        clock: Returns wall seconds.
        busy: Returns seconds the calling thread has worked; wall seconds if a GPU does the work.
        every: Seconds between two rounds.
        overhead: Measures the actual loss.
        account: Newest account, for display.
    """

    def __init__(
        self,
        share: float = SHARE,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
        debt: float = DEBT,
        queued: Callable[[], float] = queued_seconds,
        others: Callable[[], float] = seconds_of_other_threads,
    ) -> None:
        """Open an empty ledger.

        Args:
            share: Share of the run's time to spend, in (0, 1).
            clock: Returns wall seconds.
            busy: Returns seconds the calling thread has worked.
            debt: Seconds of allowance that are paid back at most.
            queued: As for `OverheadMeter`.
            others: As for `OverheadMeter`.
        """
        self._share = share
        self._debt = debt
        self.clock = clock
        self.busy = busy
        self._open: dict[str, float] = {}  # charged since the last account
        self._own = 0.0  # charged so far that the training thread spent
        # Wall seconds, busy seconds and `_own` at the last account.
        self._account: tuple[float, float, float] | None = None
        self._between = 0.0  # seconds between the last two accounts
        self._rates: dict[str, _Rate] = {}  # by expense
        self._allowed, self._idle, self._trained = _Rate(), _Rate(), _Rate()
        self._cost: dict[str, float] = {}  # running mean of each probe's readings
        self._strides: dict[str, int] = {}  # rounds from one reading to the next
        self._readings = 0  # readings since the last account
        self._read, self._drawn = _Rate(LONG), _Rate(LONG)  # readings, and seconds of drawing
        self._balance = 0.0  # seconds saved, or owed
        self.every = SHORTEST
        self.overhead = OverheadMeter(clock, busy, queued, others)
        self._scale = 1.0  # seconds training loses per second charged
        self._scaled_by: Overhead | None = None
        self._slow = 1.0  # factor by which background work is delayed
        self.account = Watching(share)

    @property
    def share(self) -> float:
        """Return the share of the run's time that watching may take.

        Returns:
            In (0, 1).
        """
        return self._share

    @share.setter
    def share(self, share: float) -> None:
        self._share = share
        self._plan_rounds()

    def charge(self, expense: str, seconds: float, own: bool = True, delay: float = SHARED) -> None:
        """Charge processor seconds.

        Args:
            expense: Name of the expense, such as 'recording'.
            seconds: Processor seconds.
            own: Whether the training thread spent them.
            delay: Seconds that training loses for each of them, if not.
        """
        lost = seconds if own else delay * seconds
        self.overhead.charged += lost
        self._open[expense] = self._open.get(expense, 0.0) + self._scale * lost
        if own:
            self._own += seconds

    def mark(self) -> tuple[float, float]:
        """Return a mark of this moment, for `charge_since`.

        Returns:
            Seconds the training thread has worked, and those charged of them.
        """
        return self.busy(), self._own

    def charge_since(self, expense: str, mark: tuple[float, float]) -> None:
        """Charge what the training thread has spent since a mark, unless it is charged already.

        Args:
            expense: Name of the expense.
            mark: From `mark`.
        """
        busy, own = mark
        self.charge(expense, max(self.busy() - busy - (self._own - own), 0.0))

    def add_debt(self, expense: str, seconds: float) -> None:
        """Charge time that the training thread spent before the first account.

        Args:
            expense: Name of the expense.
            seconds: Processor seconds.
        """
        self._open[expense] = self._open.get(expense, 0.0) + seconds

    def record_reading(self, name: str, expense: str, seconds: float) -> None:
        """Charge a reading, whose cost sets when the next is due.

        Args:
            name: Key of the probe, or other thing that is read.
            expense: Name of the expense.
            seconds: Processor seconds.
        """
        self.charge(expense, seconds)
        self._readings += 1
        before = self._cost.get(name, seconds)
        self._cost[name] = before + _NEWEST * (seconds - before)
        self._plan_rounds()

    @property
    def has_credit(self) -> bool:
        """Return whether nothing is owed, so that work that can wait may run.

        Returns:
            True if the balance covers the open charges.
        """
        return self._balance >= sum(self._open.values())

    def may_refine(self, seconds: float, since: float) -> bool:
        """Return whether a refinement may start: in credit, or by its guaranteed share.

        Args:
            seconds: Expected duration.
            since: Seconds since the last refinement ended.

        Returns:
            True if it may start now.
        """
        return self.has_credit or since >= self.minimum_spacing(seconds, SURE)

    def forget_costs(self, names: Collection[str]) -> None:
        """Forget the cost of things that are no longer watched.

        Args:
            names: Keys of the probes.
        """
        for name in names:
            self._cost.pop(name, None)
        self._plan_rounds()

    def reading_interval(self, name: str) -> float:
        """Return the time between two readings of a probe.

        Args:
            name: Key of the probe.

        Returns:
            Seconds.
        """
        return self.every * self._strides.get(name, 1)

    def minimum_spacing(self, seconds: float, part: float) -> float:
        """Return how far apart expenses of one size must be to stay within a share of the budget.

        Args:
            seconds: Processor seconds of one expense.
            part: Share of the budget it may use, in (0, 1].

        Returns:
            Seconds from one to the next.
        """
        return self._scale * seconds / (part * (self._allowed.value or self._share))

    def background_interval(self, every: float) -> float:
        """Return the interval of background work, stretched if it would starve the rounds.

        Args:
            every: Seconds that are often enough.

        Returns:
            Seconds, up to `SLOWEST` times as long.
        """
        return self._slow * every

    def update_account(self, running: bool, paced: bool = False) -> None:
        """Update the account; call between two steps.

        While the run is paused, nothing is earned or charged.

        Args:
            running: Whether the run takes steps.
            paced: Whether it waits between its steps.
        """
        if not running or paced:
            self.overhead.stop_measuring(PACED if running else RESTING)
        now = self.clock()
        if running and self._account is not None and now - self._account[0] < SETTLE:
            return
        busy, spent, own = self.busy(), self._open, self._own
        before, self._account = self._account, (now, busy, own) if running else None
        readings, self._readings = self._readings, 0
        self._open = {}
        if before is None or not running:
            return
        wall = seconds_awake(now - before[0], busy - before[1], self._between)
        self._between = now - before[0]
        trained = max(busy - before[1] - (own - before[2]), 0.0)
        idle = max(wall - (busy - before[1]), 0.0) if paced else 0.0
        share = min(self._share, _HIGHEST)
        # Watching may take w with w / (trained + w) = share.
        allowed = share / (1.0 - share) * trained + IDLE_SHARE * idle
        self._allowed.add(allowed, wall)
        self._idle.add(idle, wall)
        self._trained.add(trained + idle, wall)
        self._read.add(readings, wall)
        self._drawn.add(spent.get(DRAWING, 0.0), wall)
        for expense in {*self._rates, *spent}:
            self._rates.setdefault(expense, _Rate()).add(spent.get(expense, 0.0), wall)
        self._balance += allowed - sum(spent.values())
        self._balance = max(self._balance, -self._debt * self._allowed.value)
        self._scale_to_measured()
        # Background work in units of what rounds leave for it; above 1 it is slowed down.
        load = self._background_rate / max((1.0 - SURE) * self._allowed.value, 1e-9)
        self._slow = min(
            max(self._slow * min(max(load, 1.0 - _STEADY), 1.0 + _STEADY), 1.0), SLOWEST
        )
        self._plan_rounds()
        self.account = self._new_account()

    def _scale_to_measured(self) -> None:
        """Scale expenses to the measured loss.

        The target is the mean of the measured and the charged loss, each weighted by its certainty.
        """
        measured, charged = self.overhead.measured, self.overhead.ledger_share
        if measured is None or measured is self._scaled_by or charged <= 0.0:
            return
        self._scaled_by = measured
        sure = (_TRUST * charged) ** 2  # variance of the charged loss
        weight = sure / (sure + measured.noise**2)  # inverse-variance weighting
        lost = weight * max(measured.lost, 0.0) + (1.0 - weight) * charged
        low, high = _SCALES
        scale = min(max(lost / charged, low), high)
        self._scale += _NEWEST * (scale - self._scale)

    @property
    def _background_rate(self) -> float:
        """Return seconds per second of background expenses."""
        return sum(rate.value for name, rate in self._rates.items() if name not in ROUNDS)

    @property
    def _core_share(self) -> float:
        """Return the share of a processor that the run has, waiting included."""
        return min(max(self._trained.value, 0.01), 1.0) if self._trained.value else 1.0

    def _plan_rounds(self) -> None:
        """Set the time between rounds, and in which rounds each probe is read.

        Expensive probes are read only every n-th round: with intervals proportional to the square
        root of the cost, the sum of the intervals is the least that the share allows.
        """
        drawing = self._drawn.value * self.every  # of a round
        read = max(self._read.value, 1.0 / LONG) if self._read.value else math.inf
        picture = self._drawn.value / read
        scale = self._scale
        costs = {name: max(scale * c, _LEAST) + picture for name, c in self._cost.items()}
        # Interval ∝ √cost, relative to the cheapest.
        least = min(costs.values(), default=_LEAST)
        self._strides = {name: max(1, int(math.sqrt(c / least))) for name, c in costs.items()}
        whole = sum(c / self._strides[name] for name, c in costs.items()) or drawing
        allowed = self._allowed.value or self._share
        self._balance = min(self._balance, whole)
        fixed = self._background_rate
        left = max(allowed - fixed + self._balance / PAYBACK, SURE * allowed)
        longest = max(
            min(LONGEST / self._core_share, STARVED), 2.0 * whole / min(self._share, _HIGHEST)
        )
        self.every = max(min(whole / left, longest), SHORTEST)

    def _new_account(self) -> Watching:
        """Return the current cost of watching, as shares of the run's time."""
        free = self._idle.value
        rates = {name: rate.value for name, rate in self._rates.items()}
        spent = sum(rates.values())
        whole = self._trained.value + spent
        measured = self.overhead.measured
        account = Watching(
            self._share,
            every=self.every,
            overhead=None if measured is None else measured.lost,
            noise=0.0 if measured is None else measured.noise,
            unmeasured=self.overhead.reason,
            slowed=self._slow,
        )
        if not whole:
            return account
        parts = {name: rate / whole for name, rate in sorted(rates.items()) if rate}
        return replace(account, taken=max(spent - free, 0.0) / whole, parts=parts)
