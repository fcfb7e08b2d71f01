"""Keep which test examples a run classifies correctly, at its best test score and at its last."""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress

from torch import Tensor

from dgn_engine.protocol.training import Measured
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.runs.run_answers import Mask, RunAnswers, read_answers, write_answers
from dgn_engine.training.run import Run

_CHECKPOINTS = 4  # checkpoints a run may return to, with a margin


class AnswerKeeper:
    """The answers of the last regime, written before each checkpoint.

    Steps after the last checkpoint are repeated when a run continues, so the file may be as old as
    that. If it is newer, it also holds the best answers at earlier checkpoints, from which the run
    continues.
    """

    def __init__(self, folder: FilePath, run: Run) -> None:
        """Read the answers written so far.

        Args:
            folder: Folder of the run.
            run: The run, new or restored from its checkpoint.
        """
        self._folder = folder
        self._evaluation = run.evaluation
        self._first = run.control.pretrain_steps
        stored, examples = read_answers(folder), len(run.trainer.data.test_y)
        known = stored if stored.example_count == examples else RunAnswers({}, {})
        past = [entry for entry in known.best.items() if self._first < entry[0] <= run.step_count]
        self._written: deque[tuple[int, Mask]] = deque(past, maxlen=_CHECKPOINTS)
        self._best = past[-1] if past else None
        self._last = next(iter(known.last.items()), None)
        self._changed = False

    def process_scores(self, event: Measured, best: float) -> None:
        """Keep the answers of a test pass.

        Args:
            event: The scores.
            best: Highest test accuracy of this regime before this event, or NaN.
        """
        right, accuracy = self._evaluation.right, event.test_accuracy
        if accuracy is None or right is None or event.step <= self._first:
            return
        self._last = (event.step, _copy_mask(right))
        if math.isnan(best) or accuracy > best:
            self._best = self._last
        self._changed = True

    def save_answers(self) -> None:
        """Write the answers, before a checkpoint; a failed write is retried at the next one."""
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


def _copy_mask(right: Tensor) -> Mask:
    mask: Mask = right.cpu().numpy().copy()  # of a stack it is a row of a larger array
    return mask
