"""Watch a module while your own loop trains it, and write a run folder.

    import dgn_engine as dgn

    with dgn.watch(model, probe=(x, y), out="runs/mine") as w:
        for batch, target in loader:
            ...
            w.step(loss=loss)

`dgn-viewer runs/mine` shows the run while it is written. Training is not affected: no random number
is drawn, the module itself is neither run nor modified, and an error in the watcher ends the
watching, never your loop.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import torch
from torch import nn

from dgn_engine.attachment.given_scores import GivenScores, Score
from dgn_engine.attachment.isolation import (
    OtherThreadReadsError,
    disable_torch_modes,
    is_interrupt,
    isolate_computation,
)
from dgn_engine.attachment.reached_state import (
    ReachedState,
    StateChangedError,
    preserve_reached_state,
)
from dgn_engine.attachment.tangent_alone import TangentAlone
from dgn_engine.attachment.watched_module import REGIME, WatchedModule, unwrap_module
from dgn_engine.attachment.watched_run import create_folder, probe_tensors, run_started_event
from dgn_engine.errors import ArgumentError, UserError, did_you_mean
from dgn_engine.model.adapt.module_draws import PassRefusedError, refuse_draws
from dgn_engine.protocol.frames import Frame, Reading, Watching, read_only_copy
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.runs import RecordingPaused
from dgn_engine.protocol.training import Finished, Measured
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.log import is_logged, log_word
from dgn_engine.storage.runs.recorder import Recorder
from dgn_engine.text.printable import print_error
from dgn_engine.training.probes import all_probes
from dgn_engine.training.probes.alignment import align_kernels
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.refined_readings import STOPPED
from dgn_engine.training.readings.sliced_readings import SlicedReadings
from dgn_engine.training.readings.watch_budget import SHARE, WatchBudget

if TYPE_CHECKING:  # these load matplotlib
    from dgn_engine.attachment.tensorboard_mirror import TensorBoardMirror
    from dgn_engine.figures.tensorboard_log import SummaryWriter

PROBES = ("gates", "overlap", "npk", "ntk")  # gates, Λ, H and K
DEBT = 1800.0  # seconds of allowance: a slice of a large network costs more than a minute's
LEDGER = 0.4  # part of the share for costs that can be measured; the rest is for those that cannot
# be told from training: caches that a reading evicts, and calls that find nothing to do
CLOSING = 30.0  # seconds that the disk may take at the end
OVER = "The run ended before there was a first estimate."
CHANGED = "The module computes something different in each pass, so K is not well defined."
TANGENT, ALIGNMENT = K_ALONE = ("ntk", "alignment")  # for which K is enough
_SMALLEST_SHARE, _LARGEST_SHARE = 1e-4, 0.9


@dataclass(frozen=True)
class WatchPace:
    """The pace of a watcher, in seconds.

    Attributes:
        look: Between two checks whether a reading is due.
        note: Steps whose losses are averaged into one point of the curves.
        pass_on: Between two batches of scores handed to the writing thread.
        frame: Between two frames; more if writing takes more than `frame_share`.
        frame_share: The part of the time share that writing frames may take.
        last_pictures: For the first estimates of slow probes, after the last step.
    """

    look: float = 0.1
    note: float = 0.2
    pass_on: float = 0.5
    frame: float = 1.0
    frame_share: float = 0.4
    last_pictures: float = 3.0


_USUAL = WatchPace()


def watch(
    module: nn.Module,
    probe: tuple[object, object],
    out: str | Path,
    *,
    probes: Sequence[str] = PROBES,
    share: float = SHARE,
    steps_per_epoch: int = 0,
    class_names: Sequence[str] = (),
    tensorboard: SummaryWriter | None = None,
) -> Watcher:
    """Watch a module while you train it: `with dgn.watch(…) as w:`, and `w.step(loss)` after each
    step.

    Args:
        module: The module that you train; it maps examples (n, …) to logits (n, C).
        probe: Examples (n, …) as the module takes them, and integer labels (n,); 2 ≤ n ≤ 4,096,
            usually 64.
        out: A new folder, which becomes an ordinary run folder.
        probes: The names of the probes to compute; `dgn doctor` lists them.
        share: The fraction of the run's time that watching may take.
        steps_per_epoch: Steps in an epoch, if you want epochs on the axes.
        class_names: A name for each of the C classes; by default, their numbers.
        tensorboard: A `torch.utils.tensorboard.SummaryWriter` that gets the same scalars, and
            pictures of the panels, under tags that begin with 'dgn/'.

    Returns:
        A watcher, which starts with `with` or `start()`.

    Raises:
        UserError: An argument cannot be used; nothing has been trained yet.
    """
    return Watcher(module, probe, out, probes, share, steps_per_epoch, class_names, tensorboard)


class Watcher:
    """Watches one module, from `with` (or `start`) to the end of the block (or `close`).

    Args:
        module: As in `watch`, like all arguments up to `tensorboard`.
        probe: Examples (n, …) and labels (n,).
        out: A new folder.
        probes: The names of the probes to compute.
        share: The fraction of the run's time that watching may take.
        steps_per_epoch: Steps in an epoch; 0 if unknown.
        class_names: A name for each class; empty: their numbers.
        tensorboard: The user's `SummaryWriter`, if any.
        pace: How often things are done.

    Attributes:
        steps: The number of training steps so far.
        trouble: Why watching stopped, one sentence; '' while it continues.
    """

    def __init__(
        self,
        module: nn.Module,
        probe: tuple[object, object],
        out: str | Path,
        probes: Sequence[str] = PROBES,
        share: float = SHARE,
        steps_per_epoch: int = 0,
        class_names: Sequence[str] = (),
        tensorboard: SummaryWriter | None = None,
        *,
        pace: WatchPace = _USUAL,
    ) -> None:
        _check_arguments(module, probes, share, steps_per_epoch)
        _check_writer(tensorboard)
        with isolate_computation():
            self._probe = probe_tensors(probe)
        self._module, self._out = module, out
        self._probes, self._class_names = tuple(probes), tuple(class_names)
        self._per_epoch, self._tensorboard = steps_per_epoch, tensorboard
        self._share, self._pace = share, pace
        self._record: WatchRecord | None = None  # while watching
        self._readings: ModuleReadings | None = None
        self._budget = WatchBudget(LEDGER * share, debt=DEBT)
        self._begun = False
        self._pid = os.getpid()
        self.steps = 0
        self.trouble = ""
        self._uncompiled: Callable[..., None] = _call_function
        self._unsaid: BaseException | None = None  # stops the watching at the next step
        self._next_look = 0.0

    @property
    def active(self) -> bool:
        """Return whether the module is being watched.

        Returns:
            True from `start` to `close`, unless watching stopped with an error.
        """
        return self._record is not None

    @property
    def _is_recording(self) -> bool:
        """Return whether this process records: a forked child has no writing thread."""
        return self._record is not None and os.getpid() == self._pid

    @property
    def account(self) -> Watching:
        """Return the present cost of watching.

        Returns:
            Fractions of the loop's time.
        """
        return self._budget.account

    @property
    def recorder_seconds(self) -> float:
        """Return the processor time used by the writing thread.

        Returns:
            Seconds; 0 while nothing is watched.
        """
        return self._record.writer_seconds if self._record is not None else 0.0

    # Start and end

    def start(self) -> Self:
        """Copy the module, create the folder, and read the module before the first step.

        Returns:
            The watcher itself.

        Raises:
            UserError: The folder cannot be created. Any other problem is only a warning.
        """
        self._begun = True
        try:
            with isolate_computation():
                self._start_watching()
        except UserError:
            raise
        except BaseException as error:
            try:
                self.stop_after_error(error)
            except BaseException:  # stopped by the user, who has no watcher to close
                self.close(error)
                raise
        return self

    __enter__ = start

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the watcher; an exception of the loop propagates, and is recorded."""
        self.close(error)

    def close(self, error: BaseException | None = None) -> None:
        """Take a last reading, write what is left, and release the folder.

        Args:
            error: The exception that ended the loop; None if the run is finished.
        """
        if not self._is_recording or self._record is None:
            return
        try:
            if self._unsaid is not None:
                self.stop_after_error(self._unsaid)
                return
            with isolate_computation():
                self._record.record_scores(self.steps)
                if error is None:
                    self._read_and_record(last=True)
                    self._record.emit(Finished(self.steps))
                elif isinstance(error, Exception):
                    what = f"The training script stopped: {error_kind(error)}: {_error_text(error)}"
                    self._record.emit(Failed(what, _error_traceback(error)))
                else:  # Ctrl-C
                    self._record.record_closed(self.steps)
            self._stop_recording()
        except BaseException as own_error:
            self.stop_after_error(own_error)

    # Called by the loop

    def step(
        self, loss: Score | None = None, accuracy: Score | None = None, **unknown: object
    ) -> None:
        """Call this after each training step.

        It never raises. A score that cannot be used, or has an unknown name, is left out with one
        warning.

        Args:
            loss: The loss of the batch: a number, or a tensor of one element. A GPU is not waited
                for.
            accuracy: The accuracy of the batch, 0 to 1, if you know it.
            unknown: Scores under other names, which are not recorded.
        """
        try:
            self._uncompiled(self._count_step, loss, accuracy, unknown)
        except BaseException as error:
            try:
                self.stop_after_error(error)
            except RecursionError as inner:  # the stack is full: the next step reports it
                if inner is error:
                    raise
                self._unsaid = error

    def log(
        self, loss: Score | None = None, accuracy: Score | None = None, **unknown: object
    ) -> None:
        """Report the scores of the steps since the last call, if you do not pass them to `step`.

        Args:
            loss: A mean loss, as in `step`.
            accuracy: A mean accuracy, 0 to 1.
            unknown: Scores under other names, which are not recorded.
        """
        self.steps -= 1  # `step` counts one, but none was taken
        self.step(loss, accuracy, **unknown)

    def test(
        self, loss: Score | None = None, accuracy: Score | None = None, **unknown: object
    ) -> None:
        """Report the scores of a test or validation set at the current step.

        Args:
            loss: The mean loss, as in `step`.
            accuracy: The accuracy, 0 to 1.
            unknown: Scores under other names, which are not recorded.
        """
        try:
            self._uncompiled(self._record_test, loss, accuracy, unknown)
        except BaseException as error:
            self.stop_after_error(error)

    # Internals

    def _count_step(self, loss: object, accuracy: object, unknown: Mapping[str, object]) -> None:
        self.steps += 1
        if not self._is_recording or self._record is None:
            if not self._begun:
                self._begun = True
                warn_user(
                    "Nothing is recorded: this watcher was not started. Use 'with dgn.watch(…) "
                    "as w:', or call start() before the first step."
                )
            return
        if self._unsaid is not None:
            self.stop_after_error(self._unsaid)
            return
        with disable_torch_modes(), torch._C.DisableTorchFunction():
            self._record.scores.add_scores(loss, accuracy, unknown, self.steps)
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + self._pace.look
            self._read_if_due(now)

    def _record_test(self, loss: object, accuracy: object, unknown: Mapping[str, object]) -> None:
        if self._is_recording and self._record is not None:
            with disable_torch_modes(), torch._C.DisableTorchFunction():
                scores = self._record.scores
                scores.warn_of_unknown(unknown)
                self._record.record_scores(
                    self.steps, scores.parse_loss(loss), scores.parse_accuracy(accuracy)
                )

    def _start_watching(self) -> None:
        worked, began = time.thread_time(), time.monotonic()
        with _preserve_state(self._module) as reached:
            self._open_record(WatchedModule(self._module, *self._probe[:2], reached), worked, began)
        if self._readings is not None:
            self._readings.warn_of_omissions()
        # The user may compile a function that calls `w.step`. Importing torch's compiler takes a
        # second, but the first reading has imported it already.
        self._uncompiled = torch.compiler.disable(_call_function)  # type: ignore[no-untyped-call] # of torch

    def _open_record(self, watched: WatchedModule, worked: float, began: float) -> None:
        """Create the folder and read for the first time.

        `worked` and `began` are the processor time and the clock at the start, in seconds.
        """
        labels, order = self._probe[1:]
        _check_names(self._class_names, watched.classes)
        folder = create_folder(self._out, watched.title, len(labels))
        by = f"{watched.title} of {Path(sys.argv[0]).name or 'an interactive session'}"
        try:
            opening = run_started_event(
                folder, watched, order, self._class_names, self._per_epoch, by
            )
            folder.info.record_start(opening, opening.probe_set.digest, torch.get_num_threads())
            folder.info.plan_frames(self._probes, 0)
            recorder = Recorder(folder)
        except BaseException:  # for example, the system cannot start another thread
            folder.close()
            raise
        clock, before = time.thread_time, worked
        if watched.x.device.type != "cpu":
            clock, before = time.monotonic, began
        self._budget = WatchBudget(LEDGER * self._share, busy=clock, debt=DEBT)
        mirror = None
        if self._tensorboard is not None:
            from dgn_engine.attachment.tensorboard_mirror import TensorBoardMirror  # matplotlib

            mirror = TensorBoardMirror(
                self._tensorboard, self._probes, self._budget, opening, warn_user
            )
        self._record = WatchRecord(recorder, self._budget, self._per_epoch, self._pace, mirror)
        atexit.register(self._at_exit)
        self._readings = ModuleReadings(
            self._module,
            watched,
            self._probes,
            self._budget,
            self._record.emit,
            self._pace.last_pictures,
        )
        self._read_and_record()
        self._budget.update_account(running=True)  # opens the account; the start becomes a debt
        self._budget.add_debt("start", clock() - before)

    def _read_if_due(self, now: float) -> None:
        record, readings, began = self._record, self._readings, self._budget.busy()
        assert record is not None
        assert readings is not None
        record.flush_due(now, self.steps)
        due = readings.is_due(self.steps)
        self._budget.charge("recording", self._budget.busy() - began)
        try:
            if due:
                with isolate_computation(patience=0.0):
                    self._read_and_record()
                self._next_look = time.monotonic() + self._pace.look
            elif readings.has_pending_slices and self._budget.has_credit:
                with isolate_computation(patience=0.0):
                    readings.run_slice()
                    record.add_frame(self.steps, readings)
        except OtherThreadReadsError:
            return  # try again at a later step

    def _read_and_record(self, last: bool = False) -> None:
        """Copy the module, compute the probes that are due on the copy, and record them."""
        assert self._record is not None
        assert self._readings is not None
        self._readings.read_due(self.steps, last)
        self._record.add_frame(self.steps, self._readings, last)

    def stop_after_error(self, error: BaseException) -> None:
        """Stop watching, report it once, here and in the run folder, and let the loop continue.

        Args:
            error: What went wrong.

        Raises:
            BaseException: `error` itself, if the user is stopping the program with Ctrl+C or a
                signal.
        """
        if is_interrupt(error):
            raise error
        reason = _error_text(error).strip().rstrip(".") or error_kind(error)
        self.trouble = (
            f"Watching stopped at step {self.steps:,}: {reason}. Your training continues."
        )
        with _suppress_errors():
            try:
                is_expected = isinstance(error, (UserError, StateChangedError))
                if self._record is not None:
                    self._record.emit(
                        Failed(self.trouble, "" if is_expected else _error_traceback(error))
                    )
            finally:
                self._stop_recording()
        self._record = None
        warn_user(self.trouble)

    def _stop_recording(self) -> None:
        record, self._record = self._record, None
        if self._readings is not None:
            self._readings.release()
        atexit.unregister(self._at_exit)
        if record is not None:
            record.close()

    def _at_exit(self) -> None:
        """Finish the folder when the program ends without `close`."""
        if self._is_recording and self._record is not None:
            with _suppress_errors():
                self._record.record_closed(self.steps)
                self._stop_recording()


class WatchRecord:
    """Writes scores, events and frames of a watched module to its run folder.

    Args:
        recorder: The writing thread of the folder.
        budget: What watching may take; the time spent here is charged to it.
        steps_per_epoch: Steps in an epoch; 0 if unknown.
        pace: How often things are written.
        mirror: Writes the same to TensorBoard; None if the user passed no writer.

    Attributes:
        scores: The scores since the last point of the curves.
    """

    def __init__(
        self,
        recorder: Recorder,
        budget: WatchBudget,
        steps_per_epoch: int,
        pace: WatchPace,
        mirror: TensorBoardMirror | None = None,
    ) -> None:
        self._recorder, self._budget, self._per_epoch = recorder, budget, steps_per_epoch
        self._pace, self._mirror = pace, mirror
        self.scores = GivenScores(warn_user)
        self._billed = 0.0  # processor seconds of the recorder
        self._noted = self._passed = self._framed = 0.0
        self._framed_at = 0.0  # processor seconds of the recorder at the last frame
        self._rate_from = (time.monotonic(), 0)

    @property
    def writer_seconds(self) -> float:
        """Return the processor time used by the writing thread.

        Returns:
            Seconds.
        """
        return self._recorder.busy

    def flush_due(self, now: float, step: int) -> None:
        """Charge the writing thread's time, and hand it the scores when that is due.

        Args:
            now: The monotonic clock, in seconds.
            step: The current training step.
        """
        if (busy := self._recorder.busy) != self._billed:
            self._budget.charge("recording", busy - self._billed, own=False)
            self._billed = busy
        for event in self._recorder.take_events():
            if isinstance(event, RecordingPaused):
                warn_user(f"{event.reason} Your training continues.")
        self._budget.update_account(running=True)
        if now - self._noted >= self._pace.note:
            self.record_scores(step)
        if now - self._passed >= self._pace.pass_on:
            self._passed = now
            self._recorder.flush_notes()

    def record_scores(
        self, step: int, loss: float | None = None, accuracy: float | None = None
    ) -> None:
        """Add a point to the curves: means since the last one, NaN for what is unknown.

        Args:
            step: The current training step.
            loss: The loss of a test set; None if there is none now.
            accuracy: Its accuracy, 0 to 1, likewise.
        """
        self._noted = time.monotonic()
        diverged_before, train = self.scores.diverged, self.scores.take_means()
        if diverged_before is None and (diverged := self.scores.diverged) is not None:
            warn_user(f"The loss at step {diverged:,} is not finite. Watching continues.")
        if train is None and loss is None and accuracy is None:
            return
        means = train or (float("nan"), float("nan"))
        self.emit(Measured(step, self._epoch_at(step), *means, loss, accuracy))

    def record_closed(self, step: int) -> None:
        """Record that the loop stopped early.

        Args:
            step: The last training step.
        """
        self._recorder.write_note("Closed", {"step": step})

    def emit(self, event: Event) -> None:
        """Write an event to the run's log, if it belongs there.

        Args:
            event: The event.
        """
        if is_logged(event):
            soon = not isinstance(event, (Measured, ProbeScalars))
            self._recorder.write_note(log_word(event), to_plain(event), soon)
        if self._mirror is not None:
            self._mirror.add_event(event)

    def add_frame(self, step: int, readings: ModuleReadings, last: bool = False) -> None:
        """Record the current readings, unless writing has used up its part of the share.

        Args:
            step: The current training step.
            readings: The readings.
            last: Whether it is the last frame, which is always written.
        """
        now, spent = time.monotonic(), self._recorder.busy - self._framed_at
        share = self._pace.frame_share * self._budget.share
        every = max(self._pace.frame, spent / share)
        if not last and now < self._framed + every:
            return
        began = self._budget.busy()
        since, steps = self._rate_from
        self._rate_from = (now, step)
        frame = Frame(
            run=1,
            step=step,
            epoch=self._epoch_at(step),
            steps_per_second=(step - steps) / (now - since) if now > since else 0.0,
            eta_seconds=None,
            readings=readings.shown_readings,
            regime=REGIME,
            wiring=readings.wiring,
        )
        if self._recorder.add_frame(frame, CLOSING if last else 0.0):
            self._framed, self._framed_at = now, self._recorder.busy
        self._budget.charge("recording", self._budget.busy() - began)
        if self._mirror is not None:
            self._mirror.add_frame(frame, last)

    def close(self) -> None:
        """Finish the folder, and warn if the disk was too slow to store every record."""
        if not self._recorder.close(CLOSING):
            warn_user(
                self._recorder.paused or "The disk was too slow: the last records are missing."
            )

    def _epoch_at(self, step: int) -> float:
        return step / self._per_epoch if self._per_epoch else 0.0


class ModuleReadings:
    """The readings of a module's copies: all probes, or K alone if its gates cannot be followed.

    Args:
        module: The user's module.
        watched: Its copy.
        probes: The names of the probes.
        budget: What watching may take.
        emit: Called with each event.
        last_pictures: Seconds for the first estimates of slow probes, after the last step.
    """

    def __init__(
        self,
        module: nn.Module,
        watched: WatchedModule,
        probes: tuple[str, ...],
        budget: WatchBudget,
        emit: Callable[[Event], None],
        last_pictures: float,
    ) -> None:
        self._last_pictures = last_pictures
        self._module, self._watched, self._probes = module, watched, probes
        self._budget, self._emit = budget, emit
        self._readings: dict[str, Reading] = {}
        self._schedule: ProbeSchedule | None = None
        self._sliced: SlicedReadings | None = None
        self._alone: TangentAlone | None = None
        self._alone_due = 0.0
        if watched.network is not None:
            self._sliced = SlicedReadings(budget.busy)
            self._schedule = ProbeSchedule(emit, fewer=True, budget=budget)
            self._schedule.use_executor(self._sliced)
            self._schedule.watch(tuple(ProbeRequest(name) for name in probes))
            return
        for name in probes:  # only K can be computed; each panel shows the reason
            self._readings[name] = Reading(name, 0, absent=watched.refusal)
        if any(name in K_ALONE for name in probes):
            self._alone = TangentAlone(watched.x, watched.labels)

    @property
    def shown_readings(self) -> dict[str, Reading]:
        """Return the newest reading of each probe, with a remark on ignored hooks.

        Returns:
            Readings by the names of their probes.
        """
        without = self._watched.ignored_hooks
        return {
            name: replace(reading, remark=", ".join(filter(None, (reading.remark, without))))
            for name, reading in self._readings.items()
        }

    @property
    def wiring(self) -> tuple[int, ...]:
        """Return the order of the gate layers.

        Returns:
            A permutation; empty if there is no gated network.
        """
        return self._watched.network.wiring if self._watched.network is not None else ()

    def warn_of_omissions(self) -> None:
        """Warn of everything that the readings leave out, after the first one."""
        watched = self._watched
        if watched.ignored_hooks:
            warn_user(f"Your module is read {watched.ignored_hooks}.")
        if watched.network is not None:
            if watched.remark:
                warn_user(watched.remark)
            return
        instead = "only scores are recorded" if self._alone is None else "only K is computed"
        sentences = [f"This module has no gates and no path kernels; {instead}."]
        sentences.append(watched.refusal)
        if self._alone is not None:
            sentences.append(self._alone.remark)
        else:
            absent = [self._readings[name].absent for name in self._probes if name in K_ALONE]
            sentences += [words for words in absent[:1] if words != watched.refusal]
        warn_user(" ".join(filter(None, sentences)))

    def is_due(self, step: int) -> bool:
        """Return whether a probe should be computed now.

        Args:
            step: The current training step.

        Returns:
            True if `read_due` would compute something.
        """
        if self._schedule is not None:
            return bool(self._schedule.due_probes(step))
        return self._alone is not None and time.monotonic() >= self._alone_due

    @property
    def has_pending_slices(self) -> bool:
        """Return whether a slow reading is in progress.

        Returns:
            True if `run_slice` has work to do.
        """
        return self._sliced is not None and self._sliced.has_jobs

    def read_due(self, step: int, last: bool = False) -> None:
        """Copy the module, and compute the probes that are due on the copy.

        Args:
            step: The current training step.
            last: Whether it is the last reading, which leaves no slow reading in progress.
        """
        due = self._schedule.due_probes(step, last) if self._schedule is not None else ()
        if due:
            began = self._budget.busy()
            with _preserve_state(self._module) as reached:
                self._watched.refresh_copy(reached)
            self._budget.charge("copies", self._budget.busy() - began)
        if due and self._schedule is not None and self._watched.network is not None:
            context = self._watched.probe_context(self._watched.network)
            self._schedule.read_probes(due, context, step)
            self._readings = dict(self._schedule.readings)
        if last:
            self._finish_pending()
        if self._alone is not None:
            self._read_tangent_kernel(self._alone, step)

    def run_slice(self) -> None:
        """Continue a slow reading for one slice of time."""
        assert self._sliced is not None
        assert self._schedule is not None
        self._sliced.deliver_answers(self._budget)
        self._readings = dict(self._schedule.readings)

    def _finish_pending(self) -> None:
        """Spend a few seconds on first estimates, then cancel all slow readings."""
        if self._sliced is None or self._schedule is None:
            return
        began = self._budget.busy()
        while self._sliced.awaits_picture and self._budget.busy() - began < self._last_pictures:
            self._sliced.deliver_answers()
        for name in self._probes:
            self._schedule.cancel(name)
        self._readings = {
            name: replace(
                reading,
                absent=OVER if reading.absent == STOPPED else reading.absent,
                cancelled=False,
            )
            for name, reading in self._schedule.readings.items()
        }

    def _read_tangent_kernel(self, alone: TangentAlone, step: int) -> None:
        began = self._budget.busy()
        try:
            with _preserve_state(self._module) as reached:
                self._watched.refresh_copy(reached)
                with refuse_draws(reached.draws_of_numpy):
                    reading = alone.read_kernel(self._watched.copy, step)
                if not self._watched.copy_still_matches(reached):
                    reading = Reading(TANGENT, step, absent=CHANGED)
        except (ValueError, PassRefusedError) as refusal:  # the reason why there is no K
            reading = Reading(TANGENT, step, absent=str(refusal))
            self._alone = None
        self._budget.record_reading(TANGENT, "readings", self._budget.busy() - began)
        every = self._budget.reading_interval(TANGENT)
        self._alone_due = time.monotonic() + every
        for name in set(K_ALONE) & set(self._probes):
            read = reading if name == TANGENT else self._read_alignment(reading)
            self._readings[name] = replace(read, interval=every)
            if read.scalars:
                seen = (read.examples, len(self._watched.x)) if read.examples else (0, 0)
                self._emit(ProbeScalars(step, name, read.scalars, *seen))

    def _read_alignment(self, reading: Reading) -> Reading:
        """Return the alignment of K; its examples change, so shape and scale have no reference."""
        if reading.absent:
            return replace(reading, probe=ALIGNMENT)
        kernel, labels = (torch.tensor(reading.arrays[name]) for name in ("value", "labels"))
        finite = {"value": kernel} if bool(torch.isfinite(kernel).all()) else {}
        aligned = align_kernels(finite, labels, self._watched.classes)
        arrays = {name: read_only_copy(array) for name, array in aligned.arrays.items()}
        return replace(reading, probe=ALIGNMENT, arrays=arrays, scalars=aligned.scalars)

    def release(self) -> None:
        """Drop the readings that are in progress."""
        if self._schedule is not None:
            self._schedule.release()


@contextmanager
def _preserve_state(module: nn.Module) -> Iterator[ReachedState]:
    """Restore what passes of a copy change of the state that they can reach.

    Also disables autocast's cache of weights, which would hold those of each copy until the user's
    outermost `torch.autocast` ends.
    """
    enabled = torch.is_autocast_cache_enabled()
    with preserve_reached_state(unwrap_module(module)) as reached:
        torch.set_autocast_cache_enabled(False)
        try:
            yield reached
        finally:
            torch.set_autocast_cache_enabled(enabled)


def _check_arguments(
    module: object, probes: Sequence[str], share: float, steps_per_epoch: int
) -> None:
    if not isinstance(module, nn.Module):
        raise ArgumentError(
            f"module is of type {type(module).__name__}; pass a torch.nn.Module.",
            kind="wrong-type",
            value=module,
        )
    if isinstance(probes, str) or not probes:
        raise ArgumentError(
            "probes must be a sequence of probe names, for example ('gates', 'npk').",
            kind="no-choice",
            value=probes,
        )
    known = all_probes()
    for name in probes:
        if name not in known:
            raise ArgumentError(
                f"Unknown probe '{name}'. Available: {', '.join(known)}."
                f"{did_you_mean(name, known)}",
                kind="unknown-name",
                value=name,
            )
    if not _SMALLEST_SHARE <= share <= _LARGEST_SHARE:
        raise ArgumentError(
            f"share is {share:g}; pass a fraction of the time, such as 0.05.",
            kind="out-of-bounds",
            value=share,
        )
    if steps_per_epoch < 0:
        raise ArgumentError(
            f"steps_per_epoch is {steps_per_epoch}; it must be 0 or more.",
            kind="out-of-bounds",
            value=steps_per_epoch,
        )


def _check_writer(writer: object) -> None:
    if writer is not None and not all(
        callable(getattr(writer, name, None)) for name in ("add_scalar", "add_image")
    ):
        raise ArgumentError(
            f"tensorboard is of type {type(writer).__name__}; pass a "
            "torch.utils.tensorboard.SummaryWriter.",
            kind="wrong-type",
            value=writer,
        )


def _check_names(names: Sequence[str], classes: int) -> None:
    if names and len(names) != classes:
        raise ArgumentError(
            f"class_names has {len(names):,} name(s), but the module has {classes:,} classes.",
            kind="wrong-length",
            value=names,
        )


def _call_function(function: Callable[..., None], *given: object) -> None:
    function(*given)


def warn_user(sentence: str) -> None:
    """Issue a warning, even if the user turned warnings into errors: their loop must not end.

    Args:
        sentence: The text of the warning.
    """
    try:
        warnings.warn(f"dgn: {sentence}", RuntimeWarning, stacklevel=4)
    except BaseException as error:  # the user may have replaced `warnings.showwarning`
        if is_interrupt(error):
            raise
        with _suppress_errors():
            print_error(f"dgn: {sentence}")


@contextmanager
def _suppress_errors() -> Iterator[None]:
    """Suppress any exception except the user's own way to stop the program."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error):
            raise


def _error_text(error: BaseException) -> str:
    """Return the message of an exception; '' if its own `__str__` fails.

    A user's `__str__` may also return an instance of a str subclass whose methods fail.
    """
    with _suppress_errors():
        return str.__str__(str(error))
    return ""


def _error_traceback(error: BaseException) -> str:
    """Return the traceback as text; '' if formatting fails, as with a user's own `__notes__`."""
    with _suppress_errors():
        return "".join(traceback.format_exception(error))
    return ""


def error_kind(error: BaseException) -> str:
    """Return the name of an exception's class, even if a metaclass overrides `__name__`.

    Args:
        error: The exception.

    Returns:
        For example 'ValueError'.
    """
    return str(vars(type)["__name__"].__get__(type(error)))
