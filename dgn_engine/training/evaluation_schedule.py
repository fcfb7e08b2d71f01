"""Schedule train and test scores, at little cost and without affecting the run."""

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
TEST = "test scores"  # expense of the watch budget: tests between epochs
TEST_SHARE = 0.4  # of the watch budget, for tests between epochs
RISE = 0.005  # of train accuracy; a smaller rise over the patience counts as flat
QUICK_TEST = 0.25  # seconds; a quicker test runs at the first step


@dataclass(frozen=True)
class _RequestedScore:
    """A requested train score, and whether an epoch ends or a test pass starts there."""

    step: int
    epoch: float
    score: PendingScore
    epoch_ends: bool
    tested: bool


class EvaluationSchedule:
    """Schedule of train scores (about 20 per epoch) and test scores (one per epoch).

    Live runs also have train scores after steps 1, 2, 4, 8, … of the first of these intervals, so
    that there is a curve at any pace.

    Emits `Measured`. Scores draw no random numbers and change no weights. A pending test pass
    advances chunk by chunk, so that commands can be handled in between. A card is waited for only
    at the end of an epoch and before a test; other train scores are emitted when they have arrived.
    All methods run in the training thread.

    Attributes:
        last_finite: Last step known to have a finite loss, or None.
        epoch_so_far: Correct answers and examples of the current epoch.
        right: Correct answers of the last test pass, (n,) bool, or None.
        epoch_accuracy: Train accuracy of the last whole epoch, or NaN.
        peaks: Best train accuracy after each of the last epochs.
    """

    def __init__(
        self,
        trainer: Trainer,
        emit: Callable[[Event], None],
        live: bool,
        budget: WatchBudget | None = None,
    ) -> None:
        """Start a schedule.

        Args:
            trainer: The trainer.
            emit: Takes the scores.
            live: Whether to test between epochs as well, as often as the budget allows.
            budget: Pays for those tests; a new one if None.
        """
        self._budget = budget or WatchBudget()
        self._trainer = trainer
        self._emit = emit
        self._live = live
        self._every = max(5, trainer.steps_per_epoch // 20)
        self._pass: tuple[TestPass, Measured] | None = None
        self._asked: deque[_RequestedScore] = deque()
        self._finite = True
        self.last_finite: int | None = None
        self._cost = 0.0  # of the pass in progress
        self._whole = 0.0  # seconds that the last whole pass took
        self._between = False  # whether the pending test is between epochs
        self.epoch_so_far = (0.0, 0)
        self.right: Tensor | None = None
        self.epoch_accuracy = math.nan
        self.peaks: list[float] = []
        self._repeated: frozenset[int] | None = None
        self._test_due = self._first_test() if live else 0.0
        self._due_at_once = True  # at that time, whatever the budget
        self._next_check = 0.0  # time at which to see again whether a test is due

    @property
    def has_pending_test(self) -> bool:
        """Return whether a test pass is in progress.

        Returns:
            True until its scores are emitted.
        """
        return self._pass is not None

    @property
    def ends_epoch(self) -> bool:
        """Return whether the test pass in progress is that of an epoch, which is not charged.

        Returns:
            False for tests in between.
        """
        return self._pass is not None and not self._between

    def after_step(self) -> bool:
        """Score the steps so far, or start a test pass, if either is due.

        Returns:
            False if the loss is not finite.
        """
        step = self._trainer.step_count
        epoch_ends = step % self._trainer.steps_per_epoch == 0
        repeated = self._repeated
        tests = self._trainer.regime.generalises and repeated is None
        test_due = self._live and tests and self._is_test_due()
        waits = epoch_ends or test_due
        early = self._live and step < self._every and step & (step - 1) == 0  # a power of two
        due = step % self._every == 0 or (early if repeated is None else step in repeated)
        if waits or due:
            score = self._trainer.train_sums.fetch_score()
            asked = _RequestedScore(step, self._trainer.epoch, score, epoch_ends, waits and tests)
            self._asked.append(asked)
        elif not self._trainer.train_sums.is_finite:
            return False
        return self._emit_scores(waits)

    def repeat_scores(self, steps: Collection[int] | None) -> None:
        """Emit train scores after these steps too, as a recorded run did, and skip tests.

        Args:
            steps: Steps; None to return to the usual schedule.
        """
        self._repeated = None if steps is None else frozenset(steps)
        self._pass = None

    def wait_for_scores(self) -> bool:
        """Wait for all requested train scores and emit them.

        Returns:
            False if one is not finite.
        """
        return self._emit_scores(wait=True)

    def _emit_scores(self, wait: bool) -> bool:
        """Emit the train scores that have arrived, or all; return False if one is not finite."""
        while self._asked and (wait or self._asked[0].score.is_ready):
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

    def advance_test(self) -> None:
        """Test one more chunk; emit the scores after the last one."""
        if self._pass is None:
            return
        began = self._budget.busy()
        test_pass, measured = self._pass
        score = test_pass.advance()
        self._cost += self._budget.busy() - began
        if score is not None:
            self._pass = None
            self.right = test_pass.right_answers
            self._account_for_test()
            self._emit(replace(measured, test_loss=score.loss, test_accuracy=score.accuracy))

    def _account_for_test(self) -> None:
        """Account for a test pass; one at the end of an epoch postpones the next in between."""
        self._whole = self._cost
        if self._between:
            self._budget.record_reading(TEST, TEST, self._cost)
        else:
            self._budget.forget_costs((TEST,))
        self._next_check = self._test_due = time.monotonic() + TEST_SHORTEST
        self._due_at_once = False

    def _is_test_due(self) -> bool:
        """Return whether a test in between is due.

        Its time changes with the budget, but following it after every step would slow small ones.
        """
        now = time.monotonic()
        if now < self._next_check:
            return False
        due = self._next_test_time()
        self._next_check = min(due, now + TEST_SHORTEST)
        return now >= due

    def _next_test_time(self) -> float:
        """Return when a test in between is due, given the cost of the last one.

        Epoch tests count as well, so short epochs leave none in between.
        """
        if self._due_at_once:
            return self._test_due
        wait = max(
            self._budget.reading_interval(TEST),
            self._budget.minimum_spacing(self._whole, TEST_SHARE),
        )
        return self._test_due + max(wait - TEST_SHORTEST, 0.0)

    def restart_test(self) -> None:
        """Restart the test pass, since the network changed; emit the pending train scores first."""
        self.wait_for_scores()
        self.peaks.clear()
        if self._pass is not None:
            self._emit(self._pass[1])
            self._pass = None
            self._next_check, self._test_due, self._due_at_once = 0.0, 0.0, True

    def is_flat(self, accuracy: float) -> bool:
        """Return whether train accuracy has stopped rising; call once per epoch of the last stage.

        Args:
            accuracy: Train accuracy of the epoch, in [0, 1].

        Returns:
            True if the best accuracy rose by less than `RISE` over `training.patience` epochs.
        """
        patience = self._trainer.config.training.patience
        if not patience:
            return False
        self.peaks = [*self.peaks, max([accuracy, *self.peaks[-1:]])][-1 - patience :]
        return len(self.peaks) > patience and self.peaks[-1] - self.peaks[0] < RISE

    @property
    def pending_scores(self) -> Measured | None:
        """Return the train scores that wait for the test pass in progress.

        Returns:
            None without a test pass.
        """
        return None if self._pass is None else self._pass[1]

    def resume_test(self, awaited: Measured | None, epoch: tuple[float, int] = (0.0, 0)) -> None:
        """Restore the schedule of a recorded run, restarting its test pass.

        Args:
            awaited: Train scores that waited for a test pass, or None.
            epoch: Correct answers and examples of the current epoch.
        """
        self.epoch_so_far = epoch
        self._finite = True
        if awaited is not None:
            self._pass = (self._test_pass(), awaited)

    def _add_to_epoch(self, train: Score, epoch_ends: bool) -> None:
        right, count = self.epoch_so_far
        if train.examples:
            right, count = right + train.accuracy * train.examples, count + train.examples
        if epoch_ends:
            self.epoch_accuracy = right / count if count else math.nan
            right, count = 0.0, 0
        self.epoch_so_far = (right, count)

    def _test_pass(self, most: int | None = None) -> TestPass:
        trainer = self._trainer
        return TestPass(trainer.network, trainer.data, trainer.config.training.loss, most)

    def _first_test(self) -> float:
        """Return when to run the first test in between, from a trial on a few examples."""
        examples = len(self._trainer.data.test_y)
        few = min(examples, 32)
        if not self._trainer.regime.generalises:
            return math.inf
        self._test_pass(few).advance()  # warm-up
        began = time.monotonic()
        self._test_pass(few).advance()
        now = time.monotonic()
        seconds = (now - began) * examples / few
        return now if seconds < QUICK_TEST else now + seconds / self._budget.share
