"""Train a run to its end without a viewer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError, Where
from dgn_engine.protocol.branches import BranchChanges
from dgn_engine.protocol.messages import Event, Failed, Working
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import (
    Diverged,
    Finished,
    Measured,
    RegimeSwapped,
    RunStarted,
    SettingsIgnored,
)
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.runs.branch_origin import origin_of
from dgn_engine.storage.runs.folder_layout import WEIGHTS
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_info import frames_of
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.text.written_numbers import format_decimals, format_percent
from dgn_engine.training.answer_keeper import AnswerKeeper
from dgn_engine.training.branch import begin_branch
from dgn_engine.training.recording import (
    CHECKPOINT_EVERY,
    PATIENCE,
    Recording,
    begin_recording,
    continue_run,
    writing_to,
)
from dgn_engine.training.run import Run
from dgn_engine.training.weight_keeper import KEPT, WeightKeeper

FRAMES = 40  # frames that a run keeps at least, whatever the watch budget


class RunWatcher(Protocol):
    """Follower of a run, such as a progress bar."""

    def on_step(self, step: int) -> None:
        """Note a step; called after each.

        Args:
            step: Number of steps taken.
        """

    def on_event(self, event: Event) -> None:
        """Note an event; called for each.

        Args:
            event: The event.
        """


@dataclass(frozen=True)
class Outcome:
    """Result of a run; accuracies in [0, 1] are of the last regime.

    Attributes:
        step: Steps taken.
        regime: Name of the last regime.
        best_accuracy: Best test accuracy, or NaN.
        best_epoch: Its epoch.
        last_accuracy: Last test accuracy, or NaN.
        train_accuracy: Last train accuracy, or NaN.
        diverged: Whether the loss became infinite or NaN.
        last_finite: Last step with a finite loss, if it diverged.
        unsaved: Why not everything is on disk; '' if it is.
    """

    step: int = 0
    regime: str = ""
    best_accuracy: float = float("nan")
    best_epoch: float = 0.0
    last_accuracy: float = float("nan")
    train_accuracy: float = float("nan")
    diverged: bool = False
    last_finite: int | None = None
    unsaved: str = ""

    @property
    def summary(self) -> str:
        """Return the result as one line.

        Returns:
            'FL: 1,200 steps, best test accuracy 97.10 % (epoch 4), last 96.90 %'.
        """
        if self.best_accuracy != self.best_accuracy:
            known = self.train_accuracy == self.train_accuracy  # NaN before the first score
            trained = f", train accuracy {format_percent(self.train_accuracy, 2)}" if known else ""
            return f"{self.regime}: {_format_steps(self.step)}{trained}, no test score yet"
        best, last = format_percent(self.best_accuracy, 2), format_percent(self.last_accuracy, 2)
        return (
            f"{self.regime}: {_format_steps(self.step)}, best test accuracy {best} "
            f"(epoch {format_decimals(self.best_epoch, 0)}), last {last}"
        )


class NotBegunError(Exception):
    """Interrupted while data were loading, so there is no run to save."""


class HeadlessRun:
    """A training to the last epoch or until interrupted, recorded if there is a folder."""

    def __init__(
        self,
        watcher: RunWatcher,
        interrupted: Callable[[], bool],
        probes: Sequence[str] = (),
        checkpoint_every: float = CHECKPOINT_EVERY,
        named: Collection[str] = (),
        record_every: int = 0,
        pace: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Configure the training; `train`, `continue_folder` or `run_branch` starts it.

        Args:
            watcher: Follows the run.
            interrupted: Returns True to stop.
            probes: Probes to read and record as frames: before the first step, at the end and in
                between. A continued run defaults to its earlier ones.
            checkpoint_every: Seconds between two checkpoints, at least.
            named: Settings that the user wrote ('training.momentum'); those without effect are
                reported.
            record_every: Steps between frames; 0 for the steps of `planned_steps`, and more as time
                allows.
            pace: Returns the maximum steps per second, 0 for no limit; asked before each step.
        """
        self._named = named
        self._pace = pace
        self._watcher = watcher
        self._interrupted = interrupted
        self._probes = tuple(probes)
        self._every = checkpoint_every
        self._record_every = record_every
        self._planned: frozenset[int] = frozenset()
        self._recorded: int | None = None  # step of the last frame of a continued run
        self._recording: Recording | None = None
        self._keepers: list[WeightKeeper | AnswerKeeper] = []
        self._outcome = Outcome()

    def train(self, config: RunConfig, folder: RunFolder | None) -> Outcome:
        """Train a new run.

        Args:
            config: Its configuration.
            folder: Folder to record into, or None.

        Returns:
            The result.

        Raises:
            UserError: The configuration cannot be carried out or has no last epoch.
            NotBegunError: Interrupted while data were loading.
        """
        if config.training.epochs == 0:
            raise UserError(
                Where("training.epochs") + " is 0: the run would never end; set a number."
            )
        recorded = folder is not None
        if folder is not None:  # before loading data, so that a killed run keeps its frames
            self._plan_frames(folder)
        run = Run(
            1,
            config,
            self._emit,
            self._report_progress,
            live=False,
            checkpoints=recorded,
            probed=bool(self._probes),
        )
        self._watch_probes(run, 0)
        self._emit(run.estimated_event())
        self._emit(run.started_event(paused=False))
        ignored = run.find_ignored(live=False, recorded=recorded, named=self._named)
        if ignored:
            self._emit(SettingsIgnored(tuple(setting.sentence for setting in ignored)))
        self._start_weight_keeper(run, folder)
        if folder is not None:
            self._recording = begin_recording(folder, run, self._emit, self._every)
        return self._train_to_end(run)

    def continue_folder(self, folder: RunFolder) -> Outcome:
        """Continue a recorded run.

        Args:
            folder: Folder of the run.

        Returns:
            The result, earlier scores included.

        Raises:
            UserError: The run cannot be continued.
        """
        run, continued = continue_run(folder, 1, self._emit, self._report_progress, live=False)
        return self._continue_training(folder, run, continued)

    def run_branch(
        self,
        parent: Path,
        step: int | None,
        changes: BranchChanges,
        out: Path,
        steps: int | None,
        *,
        after_changes: bool = False,
    ) -> Outcome:
        """Create a branch of a run and train it; arguments as for `begin_branch`.

        Args:
            parent: Folder of the parent run.
            step: Step of the parent, or None.
            changes: Changes of the branch.
            out: The new folder.
            steps: Number of steps, or None.
            after_changes: As for `recorded_run_at`.

        Returns:
            The result.

        Raises:
            UserError: As for `begin_branch`.
        """
        folder, run = begin_branch(
            *(parent, step, changes, out, self._emit, self._report_progress, steps),
            after_changes=after_changes,
        )
        try:
            return self._continue_training(folder, run, None)
        finally:
            folder.close()

    def _continue_training(
        self, folder: RunFolder, run: Run, continued: RunContinued | None
    ) -> Outcome:
        planned, every = frames_of(folder.info.tree)
        self._probes = self._probes or planned
        self._record_every = self._record_every or every
        origin = origin_of(folder.info.tree)
        self._watch_probes(run, 0 if origin is None else origin.step)
        self._recorded = folder.last_frame_step
        self._plan_frames(folder)
        self._emit(run.estimated_event())
        self._emit(run.started_event(paused=False))
        for event in RunReader(folder.path).log.each_event():
            self._outcome = update_outcome(self._outcome, event)
        self._start_weight_keeper(run, folder)
        if continued is not None:
            self._emit(continued)
        self._recording = Recording(folder, run, self._emit, self._every)
        return self._train_to_end(run)

    def _watch_probes(self, run: Run, first: int) -> None:
        """Watch the probes, and plan the frames of a run that started at step `first`."""
        run.probe_schedule.watch(tuple(ProbeRequest(name) for name in self._probes))
        if not self._record_every and run.total_steps:
            self._planned = frozenset(planned_steps(first, run.total_steps))

    def _is_planned(self, step: int) -> bool:
        if self._record_every:
            return step % self._record_every == 0
        return step in self._planned

    def _plan_frames(self, folder: RunFolder) -> None:
        """Write what is recorded into the folder, for when the run is continued."""
        if self._probes:
            with writing_to(folder):
                folder.info.plan_frames(self._probes, self._record_every)

    def _start_weight_keeper(self, run: Run, folder: RunFolder | None) -> None:
        training = run.config.training
        if folder is not None:
            first = run.control.pretrain_steps
            self._keepers.append(WeightKeeper(folder.root / KEPT, run.trainer, first))
        elif training.keep_best or training.keep_epochs:
            raise UserError(
                "training.keep_best and training.keep_epochs need a folder for the weights; "
                "record the run.",
                kind="no-folder",
            )

    def _train_to_end(self, run: Run) -> Outcome:
        recording = self._recording
        if recording is not None:
            answers = AnswerKeeper(recording.root, run)
            self._keepers.append(answers)
            recording.before_checkpoint = answers.save_answers
        try:
            self._read_probes(run, needed=run.step_count == 0)
            due = 0.0
            while not (run.is_finished or run.diverged or self._interrupted()):
                if not run.evaluation.has_pending_test and self._wait_for_pace(due, recording):
                    continue
                began = time.monotonic()
                if run.advance() and (pace := self._pace()) > 0.0:
                    due = max(due, began) + 1.0 / pace
                self._read_probes(run)
                if recording is not None:
                    recording.tick()
                run.budget.update_account(running=True)
                self._watcher.on_step(run.step_count)
            run.wait_for_scores()
            self._read_probes(run, needed=True)
        except BaseException as error:
            if recording is not None:
                if isinstance(error, Exception):
                    self._emit(Failed.from_exception("Training stopped", error))
                recording.close(sound=False)
            raise
        # Weights first: a run only counts as finished when nothing is missing.
        unsaved = "" if recording is None else _save_weights(run, recording.root / WEIGHTS)

        def save_again() -> None:
            nonlocal unsaved
            if recording is not None and unsaved:  # the folder may have been recreated
                unsaved = _save_weights(run, recording.root / WEIGHTS)

        if run.is_finished:
            self._emit(Finished(run.step_count))
        if recording is not None and not recording.close(last=save_again):
            unsaved = (
                recording.pause_reason
                or unsaved
                or f"The recording in {recording.path} could not be completed."
            )
        return replace(self._outcome, step=run.step_count, diverged=run.diverged, unsaved=unsaved)

    def _wait_for_pace(self, due: float, recording: Recording | None) -> bool:
        """Sleep a little if the pace says that no step is due; return whether it did."""
        wait = due - time.monotonic()
        if self._pace() <= 0.0 or wait <= 0.0:
            return False
        if recording is not None:
            recording.tick()
        time.sleep(min(wait, 0.05))  # short, to notice an interrupt or a new pace
        return True

    def _read_probes(self, run: Run, needed: bool = False) -> None:
        """Read the probes that are due, or all if `needed`, and record a frame."""
        step, schedule = run.step_count, run.probe_schedule
        if not self._probes or run.diverged:  # a diverged run has no gates
            return
        needed = needed or self._is_planned(step)
        waits = bool(self._record_every) and not needed
        due = () if waits else schedule.due_probes(step, catch_up=needed)
        if not due:
            return
        schedule.read_probes(due, run.probed.probe_context(), step)
        if self._recording is not None and step != self._recorded:
            self._recording.on_frame(run.make_frame(), needed, PATIENCE if needed else 0.0)

    def _emit(self, event: Event) -> None:
        if isinstance(event, Measured):
            for keeper in self._keepers:
                keeper.process_scores(event, self._outcome.best_accuracy)
        self._outcome = update_outcome(self._outcome, event)
        if self._recording is not None:
            self._recording.on_event(event)
        self._watcher.on_event(event)

    def _report_progress(self, what: str, fraction: float | None) -> None:
        """Report progress of loading data.

        Raises:
            NotBegunError: The user interrupted.
        """
        self._emit(Working(what, fraction))
        if self._interrupted():
            raise NotBegunError


def planned_steps(first: int, last: int) -> tuple[int, ...]:
    """Return the steps at which a run keeps a frame.

    They depend on the two arguments only, so a continued run has the same. Distances from `first`
    grow geometrically, since gates and kernels change most early in training, and an interrupted
    run has most of its frames already.

    Args:
        first: First step, included.
        last: Last step, included.

    Returns:
        `FRAMES` steps in ascending order, or every step of a shorter run.
    """
    length, distances = last - first, [0]
    for left in range(FRAMES - 1, 0, -1):
        before = distances[-1]
        if before >= length:
            break
        factor = (length / before) ** (1 / left) if before else 1.0
        distances.append(max(before + 1, round(before * factor)))
    return tuple(first + distance for distance in distances)


def _format_steps(count: int) -> str:
    return f"{count:,} step{'' if count == 1 else 's'}"


def _save_weights(run: Run, path: FilePath) -> str:
    """Write the weights; return why that failed, or ''."""
    try:
        run.save_weights(path)
    except UserError as refusal:
        return str(refusal)
    return ""


def update_outcome(outcome: Outcome, event: Event) -> Outcome:
    """Return an outcome updated by an event.

    Args:
        outcome: The outcome so far.
        event: The event.

    Returns:
        The new outcome.
    """
    match event:
        case RunStarted():
            return Outcome(regime=event.regime)
        case RegimeSwapped():
            return Outcome(regime=event.after)
        case Measured(test_accuracy=None):
            return replace(outcome, train_accuracy=event.train_accuracy)
        case Measured(test_accuracy=float(accuracy)):
            last = replace(outcome, last_accuracy=accuracy, train_accuracy=event.train_accuracy)
            if not outcome.best_accuracy >= accuracy:
                return replace(last, best_accuracy=accuracy, best_epoch=event.epoch)
            return last
        case Diverged():
            return replace(outcome, last_finite=event.last_finite)
        case _:
            return outcome
