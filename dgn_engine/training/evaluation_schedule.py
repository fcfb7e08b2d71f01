"""When loss and accuracy are measured, so that this costs little and changes nothing."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from torch import Tensor

from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Measured
from dgn_engine.training.metrics import PendingScore, Score, TestPass
from dgn_engine.training.readings.watch_budget import WatchBudget
from dgn_engine.training.trainer import Trainer

TEST_SHORTEST = 0.5  # seconds between two live test scores
TEST = "test scores"  # in the budget of watching: those that are no epoch's
TEST_SHARE = 0.4  # of what may be spent: tests in between take no more
RISE = 0.005  # of train accuracy: what rises by less while patience lasts is flat
QUICK_TEST = 0.25  # seconds; what is quicker is done at the first step


@dataclass(frozen=True)
class _Asked:
    """A train score that was asked for, and whether an epoch ends or a test pass begins there."""

    step: int
    epoch: float
    score: PendingScore
    epoch_ends: bool
    tested: bool


class EvaluationSchedule:
    """Emits `Measured`: train scores about 20 times an epoch, test scores at each epoch's end.

    `live`: also test in between as often as the budget of watching allows. Measuring draws no
    random number and changes no weight, so that it cannot alter the run. A test pass is taken a
    chunk at a time while `pending`, so that the engine can listen in between. A card is waited
    for at the end of an epoch and before a test; else train scores are emitted when they have
    arrived.
    """

    def __init__(
        self,
        trainer: Trainer,
        emit: Callable[[Event], None],
        live: bool,
        budget: WatchBudget | None = None,
    ) -> None:
        self._budget = budget or WatchBudget()
        self._trainer = trainer
        self._emit = emit
        self._live = live
        self._every = max(5, trainer.steps_per_epoch // 20)
        self._pass: tuple[TestPass, Measured] | None = None
        self._asked: deque[_Asked] = deque()
        self._finite = True
        self.last_finite: int | None = None  # the last step that a finite score is of
        self._cost = 0.0  # of the pass that is under way
        self._whole = 0.0  # seconds that the last whole pass took
        self._between = False  # the pending test is none of an epoch's end
        self.epoch_so_far = (0.0, 0)  # right answers and examples of the epoch that is under way
        self.right: Tensor | None = None  # (n,) bool: the right answers of the last test pass
        self.epoch_accuracy = math.nan  # on the training examples, over the last whole epoch
        self.peaks: list[float] = []  # best train accuracy after each epoch, the last of them
        self._repeated: frozenset[int] | None = None
        self._test_due = self._first_test() if live else 0.0
        self._due_at_once = True  # … at that time, else when the budget has room

    @property
    def pending(self) -> bool:
        return self._pass is not None

    @property
    def ends_epoch(self) -> bool:
        """Whether a test pass is under way that the run takes whether it is watched or not."""
        return self._pass is not None and not self._between

    def after_step(self) -> bool:
        """Measure, or begin a test pass, if it is time; False if the loss is not finite."""
        step = self._trainer.step_count
        epoch_ends = step % self._trainer.steps_per_epoch == 0
        repeated = self._repeated
        tests = self._trainer.regime.generalises and repeated is None
        test_due = self._live and tests and time.monotonic() >= self._next_test()
        waits = epoch_ends or test_due
        if waits or step % self._every == 0 or (repeated is not None and step in repeated):
            score = self._trainer.train_sums.ask()
            asked = _Asked(step, self._trainer.epoch, score, epoch_ends, waits and tests)
            self._asked.append(asked)
        elif not self._trainer.train_sums.finite:
            return False
        return self._take_scores(waits)

    def repeat(self, steps: Collection[int] | None) -> None:
        """Ask for train scores after these steps, too, as a recorded run did, and test nothing;
        None: as usual from now on."""
        self._repeated = None if steps is None else frozenset(steps)
        self._pass = None

    def settle(self) -> bool:
        """Wait for the train scores that were asked for; False if one was not finite."""
        return self._take_scores(wait=True)

    def _take_scores(self, wait: bool) -> bool:
        """Emit those that have arrived, or all, in their order; False if one was not finite."""
        while self._asked and (wait or self._asked[0].score.ready):
            asked = self._asked.popleft()
            train = asked.score.score
            self._add_to_epoch(train, asked.epoch_ends)
            measured = Measured(asked.step, asked.epoch, train.loss, train.accuracy)
            self._finite = self._finite and math.isfinite(train.loss)
            if self._finite:
                self.last_finite = asked.step
            if asked.tested:
                self._pass = (self._test_pass(), measured)
                self._cost, self._between = 0.0, not asked.epoch_ends
            else:
                self._emit(measured)
        return self._finite

    def advance(self) -> None:
        """One chunk of the pending test pass; the scores are emitted at its end."""
        if self._pass is None:
            return
        began = self._budget.busy()
        test_pass, measured = self._pass
        score = test_pass.advance()
        self._cost += self._budget.busy() - began
        if score is not None:
            self._pass = None
            self.right = test_pass.right
            self._tested()
            self._emit(replace(measured, test_loss=score.loss, test_accuracy=score.accuracy))

    def _tested(self) -> None:
        """A test at an epoch's end is the run's own, and spares one in between."""
        self._whole = self._cost
        if self._between:
            self._budget.took(TEST, TEST, self._cost)
        else:
            self._budget.forget((TEST,))
        self._test_due, self._due_at_once = time.monotonic() + TEST_SHORTEST, False

    def _next_test(self) -> float:
        """When a test in between is due, by what the last one cost, also that of an epoch: where
        epochs are shorter than this there is none in between."""
        if self._due_at_once:
            return self._test_due
        wait = max(self._budget.interval(TEST), self._budget.spacing(self._whole, TEST_SHARE))
        return self._test_due + max(wait - TEST_SHORTEST, 0.0)

    def restart(self) -> None:
        """The network changed between two steps: emit the train scores and test again soon."""
        self.settle()
        self.peaks.clear()
        if self._pass is not None:
            self._emit(self._pass[1])
            self._pass = None
            self._test_due, self._due_at_once = 0.0, True

    def is_flat(self, accuracy: float) -> bool:
        """Whether an epoch of this train accuracy (0…1) ends `training.patience` epochs in which
        the best one rose by less than `RISE`; called once an epoch, of the last stage."""
        patience = self._trainer.config.training.patience
        if not patience:
            return False
        self.peaks = [*self.peaks, max([accuracy, *self.peaks[-1:]])][-1 - patience :]
        return len(self.peaks) > patience and self.peaks[-1] - self.peaks[0] < RISE

    @property
    def awaited(self) -> Measured | None:
        """The train scores that wait for the pending test pass."""
        return None if self._pass is None else self._pass[1]

    def resume(self, awaited: Measured | None, epoch: tuple[float, int] = (0.0, 0)) -> None:
        """Begin the test pass again that was pending when the run was recorded."""
        self.epoch_so_far = epoch
        self._finite = True
        if awaited is not None:
            self._pass = (self._test_pass(), awaited)

    def _add_to_epoch(self, train: Score, epoch_ends: bool) -> None:
        right, seen = self.epoch_so_far
        if train.examples:
            right, seen = right + train.accuracy * train.examples, seen + train.examples
        if epoch_ends:
            self.epoch_accuracy = right / seen if seen else math.nan
            right, seen = 0.0, 0
        self.epoch_so_far = (right, seen)

    def _test_pass(self, most: int | None = None) -> TestPass:
        trainer = self._trainer
        return TestPass(trainer.network, trainer.data, trainer.config.training.loss, most)

    def _first_test(self) -> float:
        """When a live test has earned its share of time, by a try on a few examples."""
        examples = len(self._trainer.data.test_y)
        few = min(examples, 32)
        if not self._trainer.regime.generalises:
            return math.inf
        self._test_pass(few).advance()  # the first pass also warms up
        began = time.monotonic()
        self._test_pass(few).advance()
        now = time.monotonic()
        seconds = (now - began) * examples / few
        return now if seconds < QUICK_TEST else now + seconds / self._budget.share
