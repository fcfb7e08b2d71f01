"""One job of a pack: its run, and a folder written like that of a run trained alone."""

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
from dgn_engine.training.headless_run import Outcome, update_outcome
from dgn_engine.training.metrics import Score
from dgn_engine.training.recording import continue_run, writing_to
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run
from dgn_engine.training.weight_keeper import KEPT, WeightKeeper


@dataclass(frozen=True)
class Job:
    """A configuration and the folder of its run, which may be new, started or finished."""

    config: RunConfig
    folder: Path


@dataclass(frozen=True)
class JobResult:
    """The result of one job.

    Attributes:
        job: The job.
        status: 'finished', 'diverged', 'stopped' (interrupted, can be continued) or 'failed' (could
            not start).
        outcome: Scores and step.
        refusal: Why it failed, or None.
    """

    job: Job
    status: Status
    outcome: Outcome
    refusal: UserError | None = None


@dataclass(frozen=True)
class JobProgress:
    """Progress of one job."""

    job: Job
    step: int
    total_steps: int
    outcome: Outcome


class SharedData:
    """Examples of a pack's networks, loaded once; equal images are kept in memory once."""

    def __init__(self) -> None:
        self._loaded: dict[DataConfig, Examples] = {}
        self._tensors: dict[int, Tensor] = {}  # by id of the array they were made from

    def get_examples(self, config: DataConfig) -> Examples:
        """Return the examples of a data set, loading them on first use.

        Args:
            config: Data set.

        Returns:
            Shared between calls.

        Raises:
            UserError: The data cannot be loaded.
        """
        if config not in self._loaded:
            loaded, known = load_examples(config), self._loaded.values()
            loaded = replace(
                loaded,
                train_x=_reuse_equal_images(loaded.train_x, [other.train_x for other in known]),
                test_x=_reuse_equal_images(loaded.test_x, [other.test_x for other in known]),
            )
            self._loaded[config] = loaded
        return self._loaded[config]

    def share_images(self, config: DataConfig, data: DeviceData) -> DeviceData:
        """Replace the image tensors of device data with those that other networks already use.

        Args:
            config: Data set.
            data: Device data made from its examples.

        Returns:
            The same data with shared image tensors.
        """
        examples = self.get_examples(config)
        return replace(
            data,
            train_x=self._tensors.setdefault(id(examples.train_x), data.train_x),
            test_x=self._tensors.setdefault(id(examples.test_x), data.test_x),
        )


def _reuse_equal_images(images: Array, known: Sequence[Array]) -> Array:
    same = (
        candidate
        for candidate in known
        if candidate.shape == images.shape and np.array_equal(candidate, images)
    )
    return next(same, images)


class StackMember:
    """A job in training."""

    def __init__(self, job: Job, folder: RunFolder, sources: SharedData, stack: str = "") -> None:
        """Start the run, or continue it from its folder; the folder is held until `close`.

        Args:
            job: The job.
            folder: Its open folder.
            sources: Loaded examples.
            stack: Name of the stack, written into the folders of all its members.

        Raises:
            UserError: The run cannot start or continue, or the folder cannot be written to.
        """
        self.job = job
        self._folder = folder
        self.outcome = Outcome()
        self._keepers: tuple[WeightKeeper | AnswerKeeper, ...] = ()
        examples = sources.get_examples(job.config.data)
        if folder.info.was_built:
            self.run, continued = continue_run(
                folder, 1, self._emit, lambda *_: None, live=False, examples=examples
            )
            self.outcome = _read_outcome(RunReader(folder.path))  # without the steps to repeat
            self._emit(continued)
        else:
            self.run = Run(
                1, job.config, self._emit, lambda *_: None, live=False, examples=examples
            )
            started = self.run.started_event(paused=False)
            with writing_to(folder):
                folder.info.record_start(
                    started, self.run.fingerprint, torch.get_num_threads(), stack
                )
            self._emit(started)
        self.run.trainer.batches.data = sources.share_images(job.config.data, self.run.trainer.data)
        first = self.run.control.pretrain_steps
        weights = WeightKeeper(folder.root / KEPT, self.run.trainer, first)
        self._answers = AnswerKeeper(folder.root, self.run)
        self._keepers = weights, self._answers
        while self.run.evaluation.has_pending_test:  # it was interrupted before a test pass
            self.run.evaluation.advance_test()

    @property
    def progress(self) -> JobProgress:
        """Return the progress of the job.

        Returns:
            Step, last step, and scores so far.
        """
        return JobProgress(self.job, self.run.step_count, self.run.total_steps, self.outcome)

    def log_epoch(self, train: Score, test: Score, answers: Tensor) -> None:
        """Log the scores of an epoch, and end the run if it is trained (`Run.stop_if_trained`).

        Args:
            train: Scores of the epoch's batches.
            test: Scores of the test set.
            answers: Which test examples are correct, (n,) bool.

        Raises:
            UserError: The folder cannot be written to.
        """
        run = self.run
        right, seen = run.evaluation.epoch_so_far  # steps before the stack took over
        accuracy = (right + train.accuracy * train.examples) / (seen + train.examples)
        run.evaluation.resume_test(None)
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

    def mark_diverged(self) -> None:
        """Mark the run as diverged and log it."""
        self.run.diverged = True
        self._emit(Diverged(self.run.step_count))

    def write_checkpoint(self, kept: str = "") -> None:
        """Write a checkpoint, unless weights are not finite.

        Args:
            kept: Why it must not be replaced by newer ones; '' if it may.

        Raises:
            UserError: The folder cannot be written to.
        """
        self._answers.save_answers()
        snapshot = capture_run(self.run)
        if snapshot is not None and snapshot.weights_finite():
            with writing_to(self._folder):
                self._folder.add_checkpoint(snapshot, kept)

    @property
    def is_over(self) -> bool:
        """Return whether the run has finished or diverged.

        Returns:
            True if no step remains.
        """
        return self.run.is_finished or self.run.diverged

    def finish_job(self) -> JobResult:
        """Complete the folder of a finished or interrupted run and close it.

        Returns:
            The result of the job.

        Raises:
            UserError: The folder cannot be written to.
        """
        if self.is_over:
            self.run.save_weights(self._folder.root / WEIGHTS)
        status: Status = "finished" if self.run.is_finished else "stopped"
        if self.run.diverged:  # even at its last step
            status = "diverged"
            self._answers.save_answers()
        elif self.run.is_finished:
            self._emit(Finished(self.run.step_count))
            self.write_checkpoint("final")
        else:
            self.write_checkpoint()
            self._log_event("Closed", {"step": self.run.step_count})
        self.close()
        last = replace(self.outcome, step=self.run.step_count, diverged=self.run.diverged)
        return JobResult(self.job, status, last)

    def close(self) -> None:
        """Release the folder."""
        self._folder.close()

    def _emit(self, event: Event) -> None:
        if isinstance(event, Measured):
            for keeper in self._keepers:
                keeper.process_scores(event, self.outcome.best_accuracy)
        self.outcome = update_outcome(self.outcome, event)
        if is_logged(event) and not isinstance(event, RunContinued):
            self._log_event(log_word(event), to_plain(event))

    def _log_event(self, name: str, fields: dict[str, object]) -> None:
        with writing_to(self._folder):
            self._folder.write_note(name, fields)


def read_finished_result(job: Job) -> JobResult | None:
    """Return the result of a job that was finished earlier.

    Args:
        job: The job.

    Returns:
        Its result, or None if something is left to train.
    """
    if not (job.folder / RUN).exists():
        return None
    reader = RunReader(job.folder)
    status = reader.outcome
    if status not in ("finished", "diverged") or not reader.config.is_same_run(job.config):
        return None
    last = replace(_read_outcome(reader), step=reader.step, diverged=status == "diverged")
    return JobResult(job, status, last)


def stopped_result(job: Job) -> JobResult:
    """Return the result of a job that was interrupted before it started.

    Args:
        job: The job.

    Returns:
        Status 'stopped', with the scores in its folder, if any.
    """
    begun = (job.folder / RUN).exists()
    return JobResult(job, "stopped", _read_outcome(RunReader(job.folder)) if begun else Outcome())


def failed_result(job: Job, refusal: UserError) -> JobResult:
    """Return the result of a job that could not start.

    Args:
        job: The job.
        refusal: Why.

    Returns:
        Status 'failed'.
    """
    return JobResult(job, "failed", Outcome(), refusal)


def _read_outcome(reader: RunReader) -> Outcome:
    outcome = Outcome()
    if reader.start_event is not None:
        outcome = update_outcome(outcome, reader.start_event)
    for event in reader.log.each_event():
        outcome = update_outcome(outcome, event)
    return outcome
