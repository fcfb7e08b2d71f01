"""When loss and accuracy are measured, so that measuring costs little and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

from dgn_engine.protocol.events import Event, Measured
from dgn_engine.trainer import Trainer

TEST_SHARE = 0.05  # of the run's time that live test scores may take
TEST_SHORTEST = 0.5  # seconds between two live test scores


class Measuring:
    """Emits `Measured`: train scores about 20 times an epoch, test scores at each epoch's end.

    `live`: also test in between as often as its share of time allows. Measuring draws no random
    number and changes no weight, so that it cannot alter the run.
    """

    def __init__(self, trainer: Trainer, emit: Callable[[Event], None], live: bool) -> None:
        self._trainer = trainer
        self._emit = emit
        self._live = live
        self._every = max(5, trainer.steps_per_epoch // 20)
        self._test_due = 0.0

    def after_step(self) -> bool:
        """Measure if it is time; False if the loss is no longer finite."""
        step = self._trainer.step_count
        epoch_ends = step % self._trainer.steps_per_epoch == 0
        test_due = self._live and time.monotonic() >= self._test_due
        if epoch_ends or test_due or step % self._every == 0:
            return self.measure(test=epoch_ends or test_due)
        return True

    def measure(self, test: bool) -> bool:
        """Emit what there is now; False if the loss is no longer finite."""
        train = self._trainer.train_score()
        tested = None
        if test:
            began = time.monotonic()
            tested = self._trainer.test_score()
            now = time.monotonic()
            self._test_due = now + max(TEST_SHORTEST, (now - began) / TEST_SHARE)
        self._emit(
            Measured(
                self._trainer.step_count,
                self._trainer.epoch,
                train.loss,
                train.accuracy,
                None if tested is None else tested.loss,
                None if tested is None else tested.accuracy,
            )
        )
        return train.loss - train.loss == 0.0  # neither infinite nor NaN
