"""A run without a viewer: the same `Run`, stepped to its end."""

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
from dgn_engine.text.written_numbers import decimals, percent
from dgn_engine.training.answer_keeper import AnswerKeeper
from dgn_engine.training.branch import begin_branch
from dgn_engine.training.recording import (
    CHECKPOINT_EVERY,
    PATIENCE,
    Recording,
    begin_recording,
    continue_run,
    written_to,
)
from dgn_engine.training.run import Run
from dgn_engine.training.weight_keeper import KEPT, WeightKeeper

FRAMES = 40  # that a run keeps at least, however little time watching may take


class RunWatcher(Protocol):
    """Follows a run, for a progress bar."""

    def stepped(self, step: int) -> None:
        """After each step."""

    def on_event(self, event: Event) -> None:
        """At each event."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run. Accuracies (0…1) are those of the last regime that was in force.

    `unsaved`: why not all of it is on disk, in one sentence; empty where it is.
    """

    step: int = 0
    regime: str = ""
    best_accuracy: float = float("nan")
    best_epoch: float = 0.0
    last_accuracy: float = float("nan")
    train_accuracy: float = float("nan")
    diverged: bool = False
    last_finite: int | None = None  # the last step with a finite loss, where it diverged
    unsaved: str = ""

    @property
    def summary(self) -> str:
        if self.best_accuracy != self.best_accuracy:
            known = self.train_accuracy == self.train_accuracy  # it is NaN before a finite score
            trained = f", train accuracy {percent(self.train_accuracy, 2)}" if known else ""
            return f"{self.regime}: {_steps(self.step)}{trained}, no test score yet"
        best, last = percent(self.best_accuracy, 2), percent(self.last_accuracy, 2)
        return (
            f"{self.regime}: {_steps(self.step)}, best test accuracy {best} "
            f"(epoch {decimals(self.best_epoch, 0)}), last {last}"
        )


class NotBegunError(Exception):
    """Interrupted while its data were read: there is no run that could be saved."""


class HeadlessRun:
    """Trains to the last epoch, or until interrupted; a folder gets log and checkpoints.

    `probes`: what is read while training and written as frames, before the first step, at the end
    and in between: every `record_every` steps, or for 0 at the steps of `planned_steps`, and more
    as time allows. None by default, or of a run that goes on those of before. `named`:
    places of settings that the user wrote ('training.momentum'); where one has no effect, that is
    said. `pace()`: steps a second at most, 0 for no limit; asked before each step.
    """

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
        self._named = named
        self._pace = pace
        self._watcher = watcher
        self._interrupted = interrupted
        self._probes = tuple(probes)
        self._every = checkpoint_every
        self._record_every = record_every
        self._planned: frozenset[int] = frozenset()
        self._recorded: int | None = None  # by a run that goes on: its last frame is of this step
        self._recording: Recording | None = None
        self._keepers: list[WeightKeeper | AnswerKeeper] = []
        self._outcome = Outcome()

    def train(self, config: RunConfig, folder: RunFolder | None) -> Outcome:
        """A new run; raises `UserError` where it cannot be carried out or has no end."""
        if config.training.epochs == 0:
            raise UserError(Where("training.epochs") + " is 0, which never ends; say how many.")
        recorded = folder is not None
        if folder is not None:  # before data are read: a run killed now goes on with its frames
            self._plan_frames(folder)
        run = Run(
            1,
            config,
            self._emit,
            self._report,
            live=False,
            checkpoints=recorded,
            probed=bool(self._probes),
        )
        self._watch(run, 0)
        self._emit(run.estimated())
        self._emit(run.started(paused=False))
        ignored = run.ignored(live=False, recorded=recorded, named=self._named)
        if ignored:
            self._emit(SettingsIgnored(tuple(one.sentence for one in ignored)))
        self._keep(run, folder)
        if folder is not None:
            self._recording = begin_recording(folder, run, self._emit, self._every)
        return self._to_the_end(run)

    def go_on(self, folder: RunFolder) -> Outcome:
        """A recorded run from where it was left; raises `UserError` where it cannot go on."""
        run, continued = continue_run(folder, 1, self._emit, self._report, live=False)
        return self._take_up(folder, run, continued)

    def branch_off(
        self,
        parent: Path,
        step: int | None,
        changes: BranchChanges,
        out: Path,
        steps: int | None,
        *,
        after_changes: bool = False,
    ) -> Outcome:
        """A branch of the run in `parent`, to its end; arguments as of `begin_branch`, which says
        what is raised."""
        folder, run = begin_branch(
            *(parent, step, changes, out, self._emit, self._report, steps),
            after_changes=after_changes,
        )
        try:
            return self._take_up(folder, run, None)
        finally:
            folder.close()

    def _take_up(self, folder: RunFolder, run: Run, continued: RunContinued | None) -> Outcome:
        planned, every = frames_of(folder.info.tree)
        self._probes = self._probes or planned
        self._record_every = self._record_every or every
        origin = origin_of(folder.info.tree)
        self._watch(run, 0 if origin is None else origin.step)
        self._recorded = folder.last_frame_step
        self._plan_frames(folder)
        self._emit(run.estimated())
        self._emit(run.started(paused=False))
        for event in RunReader(folder.path).log.each_event():
            self._outcome = after(self._outcome, event)
        self._keep(run, folder)
        if continued is not None:
            self._emit(continued)
        self._recording = Recording(folder, run, self._emit, self._every)
        return self._to_the_end(run)

    def _watch(self, run: Run, first: int) -> None:
        """Watch the probes, and plan the frames of a run that began at step `first`."""
        run.probe_schedule.watch(tuple(ProbeRequest(name) for name in self._probes))
        if not self._record_every and run.total_steps:
            self._planned = frozenset(planned_steps(first, run.total_steps))

    def _is_planned(self, step: int) -> bool:
        if self._record_every:
            return step % self._record_every == 0
        return step in self._planned

    def _plan_frames(self, folder: RunFolder) -> None:
        """Write down what is recorded, for when the run goes on another time."""
        if self._probes:
            with written_to(folder):
                folder.info.plan_frames(self._probes, self._record_every)

    def _keep(self, run: Run, folder: RunFolder | None) -> None:
        training = run.config.training
        if folder is not None:
            first = run.control.pretrain_steps
            self._keepers.append(WeightKeeper(folder.root / KEPT, run.trainer, first))
        elif training.keep_best or training.keep_epochs:
            raise UserError(
                "training.keep_best and training.keep_epochs need a folder to keep weights in; "
                "record the run.",
                kind="no-folder",
            )

    def _to_the_end(self, run: Run) -> Outcome:
        recording = self._recording
        if recording is not None:
            answers = AnswerKeeper(recording.root, run)
            self._keepers.append(answers)
            recording.before_checkpoint = answers.write
        try:
            self._read_probes(run, needed=run.step_count == 0)
            due = 0.0
            while not (run.finished or run.diverged or self._interrupted()):
                if not run.evaluation.pending and self._waits(due, recording):
                    continue
                began = time.monotonic()
                if run.advance() and (pace := self._pace()) > 0.0:
                    due = max(due, began) + 1.0 / pace
                self._read_probes(run)
                if recording is not None:
                    recording.tick()
                run.budget.settle(running=True)
                self._watcher.stepped(run.step_count)
            run.settle()
            self._read_probes(run, needed=True)
        except BaseException as error:
            if recording is not None:
                if isinstance(error, Exception):
                    self._emit(Failed.from_exception("Training stopped", error))
                recording.close(sound=False)
            raise
        # The weights first: a run is finished when nothing of it is missing.
        unsaved = "" if recording is None else _save(run, recording.root / WEIGHTS)

        def save_again() -> None:
            nonlocal unsaved
            if recording is not None and unsaved:  # a folder that was removed has a successor now
                unsaved = _save(run, recording.root / WEIGHTS)

        if run.finished:
            self._emit(Finished(run.step_count))
        if recording is not None and not recording.close(last=save_again):
            unsaved = recording.paused or unsaved or f"{recording.path} could not be finished."
        return replace(self._outcome, step=run.step_count, diverged=run.diverged, unsaved=unsaved)

    def _waits(self, due: float, recording: Recording | None) -> bool:
        """Wait a little where the next step is not due by the pace, recording what there is."""
        wait = due - time.monotonic()
        if self._pace() <= 0.0 or wait <= 0.0:
            return False
        if recording is not None:
            recording.tick()
        time.sleep(min(wait, 0.05))  # somebody may ask to stop, or set another pace
        return True

    def _read_probes(self, run: Run, needed: bool = False) -> None:
        """Read what is due, or for `needed` all that has not seen this step, and record it."""
        step, schedule = run.step_count, run.probe_schedule
        if not self._probes or run.diverged:  # a diverged run has no gates to read
            return
        needed = needed or self._is_planned(step)
        waits = bool(self._record_every) and not needed
        due = () if waits else schedule.due(step, catch_up=needed)
        if not due:
            return
        schedule.read(due, run.probed.context(), step)
        if self._recording is not None and step != self._recorded:
            self._recording.on_frame(run.frame(), needed, PATIENCE if needed else 0.0)

    def _emit(self, event: Event) -> None:
        if isinstance(event, Measured):
            for keeper in self._keepers:
                keeper.measured(event, self._outcome.best_accuracy)
        self._outcome = after(self._outcome, event)
        if self._recording is not None:
            self._recording.on_event(event)
        self._watcher.on_event(event)

    def _report(self, what: str, fraction: float | None) -> None:
        """Raises `NotBegunError` where somebody asks to stop while data are read."""
        self._emit(Working(what, fraction))
        if self._interrupted():
            raise NotBegunError


def planned_steps(first: int, last: int) -> tuple[int, ...]:
    """Return the steps of which a run from `first` to `last` keeps a frame, in ascending order.

    They depend on nothing but these two, so that a run that goes on has the same. Both ends are
    among them; the distances from `first` grow geometrically, as most of what gates and kernels do
    happens early, and a run that ends before its time has most of its frames already.

    Returns:
        `FRAMES` steps, or every step of a run that has fewer.
    """
    length, distances = last - first, [0]
    for left in range(FRAMES - 1, 0, -1):
        before = distances[-1]
        if before >= length:
            break
        factor = (length / before) ** (1 / left) if before else 1.0
        distances.append(max(before + 1, round(before * factor)))
    return tuple(first + distance for distance in distances)


def _steps(count: int) -> str:
    return f"{count:,} step{'' if count == 1 else 's'}"


def _save(run: Run, path: FilePath) -> str:
    """Write the weights; why that could not be done, in one sentence, or ''."""
    try:
        run.save(path)
    except UserError as refusal:
        return str(refusal)
    return ""


def after(outcome: Outcome, event: Event) -> Outcome:
    """The outcome so far, with what this event says."""
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
