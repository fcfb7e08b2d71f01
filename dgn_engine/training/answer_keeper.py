"""Keeps which test examples a run answers right: at its best test score, and at its last."""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress

from torch import Tensor

from dgn_engine.protocol.training import Measured
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.runs.run_answers import Mask, RunAnswers, read_answers, write_answers
from dgn_engine.training.run import Run

_CHECKPOINTS = 4  # that a run may go back to, and a margin


class AnswerKeeper:
    """Holds the answers of the last regime, and writes them before each checkpoint.

    What is logged after a checkpoint is trained again when a run goes on from it, so that the
    file need not be newer. It may be: then the best answers at the checkpoints before are there
    as well, and the run goes on with those of its own.
    """

    def __init__(self, folder: FilePath, run: Run) -> None:
        """`run`: new, or as its checkpoint left it."""
        self._folder = folder
        self._evaluation = run.evaluation
        self._first = run.control.pretrain_steps
        found, examples = read_answers(folder), len(run.trainer.data.test_y)
        known = found if found.examples == examples else RunAnswers({}, {})
        past = [one for one in known.best.items() if self._first < one[0] <= run.step_count]
        self._written: deque[tuple[int, Mask]] = deque(past, maxlen=_CHECKPOINTS)
        self._best = past[-1] if past else None
        self._last = next(iter(known.last.items()), None)
        self._changed = False

    def measured(self, event: Measured, best: float) -> None:
        """`best`: the highest test accuracy of this regime before this event, or NaN."""
        right, accuracy = self._evaluation.right, event.test_accuracy
        if accuracy is None or right is None or event.step <= self._first:
            return
        self._last = (event.step, _mask(right))
        if math.isnan(best) or accuracy > best:
            self._best = self._last
        self._changed = True

    def write(self) -> None:
        """Before a checkpoint. What a disk does not take is tried again at the next one."""
        best, last = self._best, self._last
        if best is not None:
            self._written.append(best)
        if not self._changed or last is None:
            return
        with suppress(OSError):
            write_answers(
                self._folder, RunAnswers(dict(sorted(dict(self._written).items())), dict([last]))
            )
            self._changed = False


def _mask(right: Tensor) -> Mask:
    found: Mask = right.cpu().numpy().copy()  # of a stack it is one row of many
    return found
