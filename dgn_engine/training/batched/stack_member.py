"""One network of a pack with its run and its folder, written as a run of its own would be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from dgn_engine.errors import UserError
from dgn_engine.protocol.events import Diverged, Event, Finished, Measured, RunContinued
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.folder_layout import RUN
from dgn_engine.storage.runs.log import is_logged, log_word
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader, Status
from dgn_engine.training.batched.jobs import Job, JobProgress, JobResult
from dgn_engine.training.batched.shared_data import SharedData
from dgn_engine.training.headless_run import Outcome, after
from dgn_engine.training.metrics import Score
from dgn_engine.training.recording import continue_run
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture
from dgn_engine.training.weight_keeper import KEPT, WeightKeeper


class StackMember:
    """A job that is trained now. Raises `UserError` where its folder cannot be written."""

    def __init__(self, job: Job, folder: RunFolder, sources: SharedData) -> None:
        """Begin it, or go on where its folder was left; holds the folder until `close`."""
        self.job = job
        self._folder = folder
        self.outcome = Outcome()
        self._keeping: WeightKeeper | None = None
        examples = sources.examples(job.config.data)
        if folder.begun:
            self.outcome = _told_by(RunReader(folder.path))
            self.run, told = continue_run(
                folder, 1, self._emit, lambda *_: None, live=False, examples=examples
            )
            self._emit(told)
        else:
            self.run = Run(
                1, job.config, self._emit, lambda *_: None, live=False, examples=examples
            )
            started = self.run.started(paused=False)
            with self._writing():
                folder.begin(started, self.run.fingerprint, torch.get_num_threads())
            self._emit(started)
        self.run.trainer.data = sources.shared(job.config.data, self.run.trainer.data)
        self._keep()
        while self.run.evaluation.pending:  # it was left between training and testing
            self.run.evaluation.advance()

    @property
    def progress(self) -> JobProgress:
        """How far it is."""
        return JobProgress(self.job, self.run.step_count, self.run.total_steps, self.outcome)

    def epoch_ended(self, train: Score, test: Score) -> None:
        """Log the scores; where the train accuracy is what was asked, this was the last epoch."""
        run = self.run
        right, seen = run.evaluation.epoch_so_far  # by who trained it before
        accuracy = (right + train.accuracy * train.examples) / (seen + train.examples)
        run.evaluation.resume(None)
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
        until = self.job.config.training.until
        if until and accuracy >= until:
            run.total_steps = run.step_count

    def diverged(self) -> None:
        """Its loss is no number: it ends here."""
        self.run.diverged = True
        self._emit(Diverged(self.run.step_count))

    def checkpoint(self, kept: str = "") -> None:
        """Write it as it stands, unless that is not finite."""
        snapshot = capture(self.run)
        if snapshot is not None and snapshot.finite():
            with self._writing():
                self._folder.checkpoint(snapshot, kept)

    @property
    def over(self) -> bool:
        """Whether there is nothing left to train."""
        return self.run.finished or self.run.diverged

    def end(self) -> JobResult:
        """Write what is left to write of a run that is over, or was interrupted."""
        if self.over:
            self.run.save(self._folder.weights)
        status: Status = "finished" if self.run.finished else "stopped"
        if self.run.diverged:  # be it at its last step
            status = "diverged"
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
        """Let the folder go."""
        self._folder.close()

    def _keep(self) -> None:
        training = self.job.config.training
        if training.keep_best or training.keep_epochs:
            self._keeping = WeightKeeper(
                self._folder.path / KEPT, training, self.run.pretrain_steps
            )
            self._keeping.begin(self.run.trainer)

    def _emit(self, event: Event) -> None:
        if self._keeping is not None and isinstance(event, Measured):
            self._keeping.measured(self.run.trainer, event, self.outcome.best_accuracy)
        self.outcome = after(self.outcome, event)
        if is_logged(event) and not isinstance(event, RunContinued):
            self._note(log_word(event), to_plain(event))

    def _note(self, name: str, fields: dict[str, object]) -> None:
        with self._writing():
            self._folder.note(name, fields)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or error
            raise UserError(f"Cannot write the run to {self._folder.path}: {why}.") from None


def over_before(job: Job) -> JobResult | None:
    """What came of a job whose folder says that it is over; None where something is to be done."""
    if not (job.folder / RUN).exists():
        return None
    reader = RunReader(job.folder)
    status = reader.outcome
    if status not in ("finished", "diverged") or not reader.config.same_run(job.config):
        return None
    last = replace(_told_by(reader), step=reader.step, diverged=status == "diverged")
    return JobResult(job, status, last)


def not_begun(job: Job) -> JobResult:
    """A job whose turn did not come before the pack was interrupted."""
    begun = (job.folder / RUN).exists()
    return JobResult(job, "stopped", _told_by(RunReader(job.folder)) if begun else Outcome())


def failed(job: Job, refusal: UserError) -> JobResult:
    """A job that could not begin."""
    return JobResult(job, "failed", Outcome(), refusal)


def _told_by(reader: RunReader) -> Outcome:
    outcome = Outcome()
    if reader.started is not None:
        outcome = after(outcome, reader.started)
    for event in reader.events:
        outcome = after(outcome, event)
    return outcome
