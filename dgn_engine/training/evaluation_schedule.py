"""When loss and accuracy are measured, so that this costs little and changes nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from dgn_engine.protocol.events import Event, Measured
from dgn_engine.training.metrics import Score, TestPass
from dgn_engine.training.trainer import Trainer

TEST_SHARE = 0.05  # of the run's time that live test scores may take
TEST_SHORTEST = 0.5  # seconds between two live test scores
RISE = 0.005  # of train accuracy: what rises by less while patience lasts is flat
QUICK_TEST = 0.25  # seconds; what is quicker is done at the first step


class EvaluationSchedule:
    """Emits `Measured`: train scores about 20 times an epoch, test scores at each epoch's end.

    `live`: also test in between as often as its share of time allows. Measuring draws no random
    number and changes no weight, so that it cannot alter the run. A test pass is taken a chunk
    at a time while `pending`, so that the engine can listen in between.
    """

    def __init__(self, trainer: Trainer, emit: Callable[[Event], None], live: bool) -> None:
        self._trainer = trainer
        self._emit = emit
        self._live = live
        self._every = max(5, trainer.steps_per_epoch // 20)
        self._pass: tuple[TestPass, Measured] | None = None
        self._cost = 0.0
        self._epoch = (0.0, 0)  # right answers and examples of the epoch that is under way
        self.right: Tensor | None = None  # (n,) bool: the right answers of the last test pass
        self.epoch_accuracy = math.nan  # on the training examples, over the last whole epoch
        self.peaks: list[float] = []  # best train accuracy after each epoch, the last of them
        self._test_due = self._first_test() if live else 0.0

    @property
    def pending(self) -> bool:
        """Whether a test pass is under way."""
        return self._pass is not None

    def after_step(self) -> bool:
        """Measure, or begin a test pass, if it is time; False if the loss is not finite."""
        step = self._trainer.step_count
        epoch_ends = step % self._trainer.steps_per_epoch == 0
        tests = self._trainer.regime.generalises
        test_due = self._live and tests and time.monotonic() >= self._test_due
        if not (epoch_ends or test_due or step % self._every == 0):
            return self._trainer.finite
        train = self._trainer.train_score()
        self._add_to_epoch(train, epoch_ends)
        measured = Measured(step, self._trainer.epoch, train.loss, train.accuracy)
        if (epoch_ends or test_due) and tests:
            self._pass = (self._test_pass(), measured)
            self._cost = 0.0
        else:
            self._emit(measured)
        return math.isfinite(train.loss)

    def advance(self) -> None:
        """One chunk of the pending test pass; the scores are emitted at its end."""
        if self._pass is None:
            return
        began = time.monotonic()
        test_pass, measured = self._pass
        score = test_pass.advance()
        now = time.monotonic()
        self._cost += now - began
        if score is not None:
            self._pass = None
            self.right = test_pass.right
            self._test_due = now + max(TEST_SHORTEST, self._cost / TEST_SHARE)
            self._emit(replace(measured, test_loss=score.loss, test_accuracy=score.accuracy))

    def restart(self) -> None:
        """The network changed between two steps: emit the train scores and test again soon."""
        self.peaks.clear()
        if self._pass is not None:
            self._emit(self._pass[1])
            self._pass = None
            self._test_due = 0.0

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

    @property
    def epoch_so_far(self) -> tuple[float, int]:
        """Right answers and examples of the epoch that is under way."""
        return self._epoch

    def resume(self, awaited: Measured | None, epoch: tuple[float, int] = (0.0, 0)) -> None:
        """Begin the test pass again that was pending when the run was recorded."""
        self._epoch = epoch
        if awaited is not None:
            self._pass = (self._test_pass(), awaited)

    def _add_to_epoch(self, train: Score, epoch_ends: bool) -> None:
        right, seen = self._epoch
        if train.examples:
            right, seen = right + train.accuracy * train.examples, seen + train.examples
        if epoch_ends:
            self.epoch_accuracy = right / seen if seen else math.nan
            right, seen = 0.0, 0
        self._epoch = (right, seen)

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
        return now if seconds < QUICK_TEST else now + seconds / TEST_SHARE
