"""One job of a pack, with its run and its folder, written as a run of its own would be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Array
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import Diverged, Finished, Measured
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.folder_layout import RUN, WEIGHTS
from dgn_engine.storage.runs.log import is_logged, log_word
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader, Status
from dgn_engine.training.answer_keeper import AnswerKeeper
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.headless_run import Outcome, after
from dgn_engine.training.metrics import Score
from dgn_engine.training.recording import continue_run, written_to
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture
from dgn_engine.training.weight_keeper import KEPT, WeightKeeper


@dataclass(frozen=True)
class Job:
    """A configuration and the folder of its run, which may be new, begun or done."""

    config: RunConfig
    folder: Path


@dataclass(frozen=True)
class JobResult:
    """The result of one job.

    `status`: 'finished', 'diverged', 'stopped' (interrupted; it can go on), or 'failed' (it could
    not begin; `refusal` says why).
    """

    job: Job
    status: Status
    outcome: Outcome
    refusal: UserError | None = None


@dataclass(frozen=True)
class JobProgress:
    job: Job
    step: int
    total_steps: int
    outcome: Outcome


class SharedData:
    """The examples of a pack's networks, loaded once; equal images lie in memory once."""

    def __init__(self) -> None:
        self._loaded: dict[DataConfig, Examples] = {}
        self._tensors: dict[int, Tensor] = {}  # by the array they were made from

    def examples(self, config: DataConfig) -> Examples:
        """Load a data set, or return it where it was loaded; raises `UserError`."""
        if config not in self._loaded:
            found, known = load_examples(config), self._loaded.values()
            found = replace(
                found,
                train_x=_known(found.train_x, [one.train_x for one in known]),
                test_x=_known(found.test_x, [one.test_x for one in known]),
            )
            self._loaded[config] = found
        return self._loaded[config]

    def shared(self, config: DataConfig, data: DeviceData) -> DeviceData:
        """`data`, made from these examples, with the image tensors that other networks use."""
        examples = self.examples(config)
        return replace(
            data,
            train_x=self._tensors.setdefault(id(examples.train_x), data.train_x),
            test_x=self._tensors.setdefault(id(examples.test_x), data.test_x),
        )


def _known(images: Array, known: Sequence[Array]) -> Array:
    same = (one for one in known if one.shape == images.shape and np.array_equal(one, images))
    return next(same, images)


class StackMember:
    """A job in training. Methods raise `UserError` where its folder cannot be written."""

    def __init__(self, job: Job, folder: RunFolder, sources: SharedData, stack: str = "") -> None:
        """Begin it, or go on where its folder was left; holds the folder until `close`.

        `stack`: names the stack in the folders of all its members.
        """
        self.job = job
        self._folder = folder
        self.outcome = Outcome()
        self._keepers: tuple[WeightKeeper | AnswerKeeper, ...] = ()
        examples = sources.examples(job.config.data)
        if folder.info.begun:
            self.run, continued = continue_run(
                folder, 1, self._emit, lambda *_: None, live=False, examples=examples
            )
            self.outcome = _outcome_in(RunReader(folder.path))  # less what is trained again
            self._emit(continued)
        else:
            self.run = Run(
                1, job.config, self._emit, lambda *_: None, live=False, examples=examples
            )
            started = self.run.started(paused=False)
            with written_to(folder):
                folder.info.begin(started, self.run.fingerprint, torch.get_num_threads(), stack)
            self._emit(started)
        self.run.trainer.batches.data = sources.shared(job.config.data, self.run.trainer.data)
        first = self.run.control.pretrain_steps
        weights = WeightKeeper(folder.root / KEPT, self.run.trainer, first)
        self._answers = AnswerKeeper(folder.root, self.run)
        self._keepers = weights, self._answers
        while self.run.evaluation.pending:  # it was left between training and testing
            self.run.evaluation.advance()

    @property
    def progress(self) -> JobProgress:
        return JobProgress(self.job, self.run.step_count, self.run.total_steps, self.outcome)

    def epoch_ended(self, train: Score, test: Score, answers: Tensor) -> None:
        """Log the scores; the last epoch if it is trained by now (`Run.stop_if_trained`).

        `answers`: which of the test examples were answered right, (n,) bool.
        """
        run = self.run
        right, seen = run.evaluation.epoch_so_far  # of steps taken before the stack took over
        accuracy = (right + train.accuracy * train.examples) / (seen + train.examples)
        run.evaluation.resume(None)
        run.evaluation.right = answers
        self._emit(
            Measured(
                step=run.step_count,
                epoch=run.trainer.epoch,
                train_loss=train.loss,
                train_accuracy=train.accuracy,
                test_loss=test.loss,
                test_accuracy=test.accuracy,
            )
        )
        run.stop_if_trained(accuracy)

    def diverged(self) -> None:
        self.run.diverged = True
        self._emit(Diverged(self.run.step_count))

    def checkpoint(self, kept: str = "") -> None:
        self._answers.write()
        snapshot = capture(self.run)
        if snapshot is not None and snapshot.weights_finite():
            with written_to(self._folder):
                self._folder.checkpoint(snapshot, kept)

    @property
    def over(self) -> bool:
        return self.run.finished or self.run.diverged

    def end(self) -> JobResult:
        """Finish the folder of a run that is over, or was interrupted, and close it."""
        if self.over:
            self.run.save(self._folder.root / WEIGHTS)
        status: Status = "finished" if self.run.finished else "stopped"
        if self.run.diverged:  # be it at its last step
            status = "diverged"
            self._answers.write()
        elif self.run.finished:
            self._emit(Finished(self.run.step_count))
            self.checkpoint("final")
        else:
            self.checkpoint()
            self._note("Closed", {"step": self.run.step_count})
        self.close()
        last = replace(self.outcome, step=self.run.step_count, diverged=self.run.diverged)
        return JobResult(self.job, status, last)

    def close(self) -> None:
        self._folder.close()

    def _emit(self, event: Event) -> None:
        if isinstance(event, Measured):
            for keeper in self._keepers:
                keeper.measured(event, self.outcome.best_accuracy)
        self.outcome = after(self.outcome, event)
        if is_logged(event) and not isinstance(event, RunContinued):
            self._note(log_word(event), to_plain(event))

    def _note(self, name: str, fields: dict[str, object]) -> None:
        with written_to(self._folder):
            self._folder.note(name, fields)


def over_before(job: Job) -> JobResult | None:
    """The result of a job whose folder says that it is over; None where something is left to do."""
    if not (job.folder / RUN).exists():
        return None
    reader = RunReader(job.folder)
    status = reader.outcome
    if status not in ("finished", "diverged") or not reader.config.same_run(job.config):
        return None
    last = replace(_outcome_in(reader), step=reader.step, diverged=status == "diverged")
    return JobResult(job, status, last)


def not_begun(job: Job) -> JobResult:
    begun = (job.folder / RUN).exists()
    return JobResult(job, "stopped", _outcome_in(RunReader(job.folder)) if begun else Outcome())


def failed(job: Job, refusal: UserError) -> JobResult:
    return JobResult(job, "failed", Outcome(), refusal)


def _outcome_in(reader: RunReader) -> Outcome:
    outcome = Outcome()
    if reader.started is not None:
        outcome = after(outcome, reader.started)
    for event in reader.log.each_event():
        outcome = after(outcome, event)
    return outcome
