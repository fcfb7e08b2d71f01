"""The budget of watching: one share of a run's step rate for everything that is not training.

Every expense is charged here, in processor seconds: readings, test scores between epochs, frames,
copies, the recorder's thread and that of a window in this process. Seconds of another thread count
half as much again (`SHARED`): training waits for the interpreter, and finds its caches cold. That
is a guess: in a window an `OverheadMeter` measures how many steps are lost, and then all expenses
count for as much more or less. What comes by itself (the window at rest, recording) is paid first;
what is left is divided over rounds, in which all that is watched is read and drawn. What the user
causes is read and drawn at once, on credit.
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

SHARE = 0.05  # of the step rate, as long as the user sets no other
SHORTEST = 0.25  # seconds between two rounds
LONGEST = 5.0  # … where a processor is free for the run, even if the rest takes the whole share
STARVED = 30.0  # … where the run gets a fraction of one; and never less than a round's own share
SLOWEST = 6.0  # times as long may what comes by itself wait
SHARED = 1.5  # seconds that training loses by one of another thread, as measured: 1 it waits, and
# its own steps take longer afterwards (docs/performance.md, Viewer overhead)
SURE = 0.25  # of what may be spent goes to rounds, however much the rest takes
IDLE_SHARE = 0.2  # of the time in which a paced run waits is free: nothing is delayed by it
PAYBACK = 15.0  # seconds over which debts are paid back
DEBT = 60.0  # seconds of allowance that are paid back at most, so that an hour of overload is
# not followed by an hour without pictures
SETTLE = 0.25  # seconds between two accounts
MEMORY = 4.0  # seconds over which rates are smoothed
LONG = 20.0  # … what a picture costs
_NEWEST = 0.3  # weight of the newest cost
_LEAST = 1e-4  # seconds: what is cheaper is counted so
_HIGHEST = 0.95  # share of all time that can be spent
_STEADY = 0.02  # change, at most, from one account to the next: its effect is seen seconds later
_TRUST = 0.5  # standard error of what the ledger says, as a part of it, before it is measured
_SCALES = (0.5, 8.0)  # seconds that training loses for one that is charged, within reason
_STOPPED = 2.0  # seconds, and …
_MOSTLY = 4.0  # … times as long as a thread has worked, after which it was stopped meanwhile
DRAWING = "drawing"
ROUNDS = ("readings", "test scores", DRAWING)  # expenses that are divided; the others come first


def seconds_awake(wall: float, busy: float, usual: float = 0.0) -> float:
    """Return how much of a time was spent awake: a machine that slept, or a process that was
    stopped, has worked for no more than a small part of it.

    Args:
        wall: Seconds by the clock.
        busy: Seconds that the thread has worked meanwhile.
        usual: Seconds that it takes as a rule, where the thread also waits.
    """
    worked = max(busy, usual)
    return worked if wall > max(_STOPPED, _MOSTLY * worked) else wall


class _Rate:
    """So much of something a second, smoothed over `memory` seconds."""

    def __init__(self, memory: float = MEMORY) -> None:
        self._memory = memory
        self._total = self._time = 0.0

    def add(self, amount: float, seconds: float) -> None:
        kept = math.exp(-seconds / self._memory)
        self._total = kept * self._total + amount
        self._time = kept * self._time + seconds

    @property
    def value(self) -> float:
        return self._total / self._time if self._time else 0.0


class WatchBudget:
    """The ledger of one run. `interval` says how long each of what is watched has to wait.

    `clock`: wall seconds. `busy`: seconds that the calling thread has worked, which are those of
    the processor; where a GPU does the work, those of the clock.
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
        """`debt`: seconds of allowance that are paid back at most. `queued`, `others`: as of
        `OverheadMeter`."""
        self._share = share
        self._debt = debt
        self.clock = clock
        self.busy = busy
        self._open: dict[str, float] = {}  # charged since the last account
        self._own = 0.0  # of it by the thread that trains
        self._account: tuple[float, float] | None = None  # wall and busy then
        self._between = 0.0  # seconds from the account before to the last one
        self._rates: dict[str, _Rate] = {}  # of each expense
        self._allowed, self._idle, self._trained = _Rate(), _Rate(), _Rate()
        self._cost: dict[str, float] = {}  # of the last readings of each
        self._strides: dict[str, int] = {}  # every so many rounds it is read
        self._readings = 0  # since the last account
        self._read, self._drawn = _Rate(LONG), _Rate(LONG)  # readings, and seconds of drawing
        self._balance = 0.0  # seconds saved, or owed
        self.every = SHORTEST  # seconds between two rounds
        self.overhead = OverheadMeter(clock, busy, queued, others)
        self._scale = 1.0  # seconds that training loses for one that is charged
        self._scaled_by: Overhead | None = None
        self._slow = 1.0  # how many times as long what comes by itself waits
        self.account = Watching(share)

    @property
    def share(self) -> float:
        """Of the run's time, that may be spent."""
        return self._share

    @share.setter
    def share(self, share: float) -> None:
        self._share = share
        self._plan()

    def charge(self, expense: str, seconds: float, own: bool = True) -> None:
        """Somebody took so many processor seconds; `own`: the thread that trains."""
        lost = seconds if own else SHARED * seconds
        self.overhead.charged += lost
        self._open[expense] = self._open.get(expense, 0.0) + self._scale * lost
        if own:
            self._own += seconds

    def add_debt(self, expense: str, seconds: float) -> None:
        """The thread that trains took so long before the account was opened."""
        self._open[expense] = self._open.get(expense, 0.0) + seconds

    def took(self, name: str, expense: str, seconds: float) -> None:
        """A reading of `name` took so long; it is charged, and decides when the next one is due."""
        self.charge(expense, seconds)
        self._readings += 1
        before = self._cost.get(name, seconds)
        self._cost[name] = before + _NEWEST * (seconds - before)
        self._plan()

    @property
    def in_credit(self) -> bool:
        """Whether nothing is owed: what can wait may be done now."""
        return self._balance >= sum(self._open.values())

    def may_refine(self, seconds: float, since: float) -> bool:
        """Whether a refinement that takes so long may begin, `since` seconds after the last one:
        in credit, or because refinements have a sure part of what may be spent."""
        return self.in_credit or since >= self.spacing(seconds, SURE)

    def forget(self, names: Collection[str]) -> None:
        for name in names:
            self._cost.pop(name, None)
        self._plan()

    def interval(self, name: str) -> float:
        """Seconds from one reading of it to the next."""
        return self.every * self._strides.get(name, 1)

    def spacing(self, seconds: float, part: float) -> float:
        """Seconds from one expense of this size to the next, where such may take this part of all
        that is allowed."""
        return self._scale * seconds / (part * (self._allowed.value or self._share))

    def unprompted(self, every: float) -> float:
        """Seconds from one frame, or one writing of notes, to the next, where `every` is often
        enough: more where what comes by itself would take what is meant for rounds."""
        return self._slow * every

    def settle(self, running: bool, paced: bool = False) -> None:
        """Between two steps: account for what was trained and spent. While the run stands still,
        nothing is earned and nothing charged. `paced`: it waits between its steps."""
        if not running or paced:
            self.overhead.leave(PACED if running else RESTING)
        now = self.clock()
        if running and self._account is not None and now - self._account[0] < SETTLE:
            return
        busy, spent, own = self.busy(), self._open, self._own
        before, self._account = self._account, (now, busy) if running else None
        readings, self._readings = self._readings, 0
        self._open, self._own = {}, 0.0
        if before is None or not running:
            return
        wall = seconds_awake(now - before[0], busy - before[1], self._between)
        self._between = now - before[0]
        trained = max(busy - before[1] - own, 0.0)
        idle = max(wall - (busy - before[1]), 0.0) if paced else 0.0
        share = min(self._share, _HIGHEST)
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
        self._count_as_measured()
        over = self._fixed / max((1.0 - SURE) * self._allowed.value, 1e-9)
        self._slow = min(
            max(self._slow * min(max(over, 1.0 - _STEADY), 1.0 + _STEADY), 1.0), SLOWEST
        )
        self._plan()
        self.account = self._new_account()

    def _count_as_measured(self) -> None:
        """Count expenses as what was measured to be lost by them: the mean of that and of what the
        ledger says by itself, each weighted by its certainty."""
        measured, said = self.overhead.measured, self.overhead.ledger_share
        if measured is None or measured is self._scaled_by or said <= 0.0:
            return
        self._scaled_by = measured
        sure = (_TRUST * said) ** 2
        weight = sure / (sure + measured.noise**2)
        lost = weight * max(measured.lost, 0.0) + (1.0 - weight) * said
        low, high = _SCALES
        scale = min(max(lost / said, low), high)
        self._scale += _NEWEST * (scale - self._scale)

    @property
    def _fixed(self) -> float:
        """Seconds a second of what comes by itself."""
        return sum(rate.value for name, rate in self._rates.items() if name not in ROUNDS)

    @property
    def _core(self) -> float:
        """The part of a processor that the run and its waiting have."""
        return min(max(self._trained.value, 0.01), 1.0) if self._trained.value else 1.0

    def _plan(self) -> None:
        """How long a round takes, what is left for it, and so the time between two rounds.

        What is dearer is read in every so many-th round: intervals go as the root of the costs,
        which makes their sum the least that the share allows.
        """
        drawing = self._drawn.value * self.every  # of a round
        read = max(self._read.value, 1.0 / LONG) if self._read.value else math.inf  # one, at least
        picture = self._drawn.value / read
        scale = self._scale
        costs = {name: max(scale * c, _LEAST) + picture for name, c in self._cost.items()}
        least = min(costs.values(), default=_LEAST)
        self._strides = {name: max(1, int(math.sqrt(c / least))) for name, c in costs.items()}
        whole = sum(c / self._strides[name] for name, c in costs.items()) or drawing
        allowed = self._allowed.value or self._share
        self._balance = min(self._balance, whole)
        fixed = self._fixed
        left = max(allowed - fixed + self._balance / PAYBACK, SURE * allowed)
        longest = max(min(LONGEST / self._core, STARVED), 2.0 * whole / min(self._share, _HIGHEST))
        self.every = max(min(whole / left, longest), SHORTEST)

    def _new_account(self) -> Watching:
        """What watching takes at present, as shares of the run's time."""
        free = self._idle.value
        rates = {name: rate.value for name, rate in self._rates.items()}
        spent = sum(rates.values())
        whole = self._trained.value + spent
        measured = self.overhead.measured
        seen = Watching(
            self._share,
            every=self.every,
            overhead=None if measured is None else measured.lost,
            noise=0.0 if measured is None else measured.noise,
            unmeasured=self.overhead.reason,
            slowed=self._slow,
        )
        if not whole:
            return seen
        parts = {name: rate / whole for name, rate in sorted(rates.items()) if rate}
        return replace(seen, taken=max(spent - free, 0.0) / whole, parts=parts)
