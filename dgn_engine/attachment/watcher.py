"""Watches a module while its owner's own loop trains it, and writes a run folder.

    import dgn_engine as dgn

    with dgn.watch(model, probe=(x, y), out="runs/mine") as w:
        for batch, target in loader:
            ...
            w.step(loss=loss)

`dgn-viewer runs/mine` shows it while it is written. Nothing of the training is changed: no random
number is drawn, the module itself is neither run nor switched, and trouble of ours ends the
watching, never the loop.
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
from typing import Self

import torch
from torch import nn

from dgn_engine.attachment.given_scores import GivenScores, Score
from dgn_engine.attachment.isolation import (
    OtherThreadReadsError,
    is_interrupt,
    isolated,
    modes_set_aside,
)
from dgn_engine.attachment.reached_state import ReachedState, StateChangedError, kept_state
from dgn_engine.attachment.tangent_alone import TangentAlone
from dgn_engine.attachment.watched_module import REGIME, WatchedModule, unwrapped
from dgn_engine.attachment.watched_run import create_folder, probe_tensors, started
from dgn_engine.errors import ArgumentError, UserError, did_you_mean
from dgn_engine.model.adapt.module_draws import PassRefusedError, refuse_draws
from dgn_engine.protocol.frames import Frame, Reading, Watching
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.runs import RecordingPaused
from dgn_engine.protocol.training import Finished, Measured
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.log import is_logged, log_word
from dgn_engine.storage.runs.recorder import Recorder
from dgn_engine.text.printable import complain
from dgn_engine.training.probes import all_probes
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.refined_readings import STOPPED
from dgn_engine.training.readings.sliced_readings import SlicedReadings
from dgn_engine.training.readings.watch_budget import SHARE, WatchBudget

PROBES = ("gates", "overlap", "npk", "ntk")  # gates, Λ, H and K
DEBT = 1800.0  # seconds of allowance: one slice of a large network takes more than a minute's
LEDGER = 0.4  # of the share is spent on what is in the ledger; the rest is left for what no clock
# tells apart from training: caches that a reading empties, and calls that find nothing to do
CLOSING = 30.0  # seconds that the disk may take at the end
OVER = "The run ended before there was a first picture."
CHANGED = "What the module computes changes with each pass, so that K is of no one of them."
TANGENT = "ntk"
_SMALLEST_SHARE, _LARGEST_SHARE = 1e-4, 0.9


@dataclass(frozen=True)
class WatchPace:
    """Seconds between two looks at what is due (`look`), of steps whose losses become one point of
    the curve (`note`), after which points are passed on to the thread that writes (`pass_on`), and
    between two frames (`frame`), or more where writing would take more than `frame_share` of the
    share. `last_pictures`: seconds for first pictures of the last step, of what is read in slices.
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
) -> Watcher:
    """Watch `module` while you train it; use it as `with dgn.watch(…) as w:`.

    `probe`: a pair of examples (n, …), as the module takes them, and labels (n,), 2 to 4,096 of
    them; 64 are usual. `out`: a new folder, which becomes an ordinary run folder. `probes`: what is
    read, see `dgn doctor`; `share`: of the run's time that all this may take. `steps_per_epoch`:
    where you want epochs on the axes.

    Raises `UserError` before anything is trained where one of these cannot be used.
    """
    return Watcher(module, probe, out, probes, share, steps_per_epoch, class_names)


class Watcher:
    """One module that is watched, from `with` (or `start`) to its end (or `close`)."""

    def __init__(
        self,
        module: nn.Module,
        probe: tuple[object, object],
        out: str | Path,
        probes: Sequence[str] = PROBES,
        share: float = SHARE,
        steps_per_epoch: int = 0,
        class_names: Sequence[str] = (),
        *,
        pace: WatchPace = _USUAL,
    ) -> None:
        _check(module, probes, share, steps_per_epoch)
        with isolated():
            self._probe = probe_tensors(probe)
        self._module, self._out = module, out
        self._probes, self._class_names = tuple(probes), tuple(class_names)
        self._per_epoch = steps_per_epoch
        self._share, self._pace = share, pace
        self._record: WatchRecord | None = None  # while it is watched
        self._readings: ModuleReadings | None = None
        self._budget = WatchBudget(LEDGER * share, debt=DEBT)
        self._begun = False
        self._pid = os.getpid()
        self.steps = 0
        self.trouble = ""  # why it is watched no more, in a sentence
        self._uncompiled: Callable[..., None] = _call
        self._unsaid: BaseException | None = None  # what ends the watching at the next step
        self._next_look = 0.0

    @property
    def active(self) -> bool:
        return self._record is not None

    @property
    def _records(self) -> bool:
        """Whether it is active in this process: a forked child has no thread that writes."""
        return self._record is not None and os.getpid() == self._pid

    @property
    def account(self) -> Watching:
        """What watching takes at present, as shares of the loop's time."""
        return self._budget.account

    @property
    def recorder_seconds(self) -> float:
        """Processor seconds of the thread that writes."""
        return self._record.seconds if self._record is not None else 0.0

    # From its beginning to its end

    def start(self) -> Self:
        """Copy the module, make the folder, and read it before the first step.

        Raises `UserError` where the folder cannot be made; other trouble is a warning.
        """
        self._begun = True
        try:
            with isolated():
                self._begin()
        except UserError:
            raise
        except BaseException as error:
            try:
                self.give_up(error)
            except BaseException:  # stopped by the user, who gets no watcher to close
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
        """End it; an exception of the loop goes on as it is, and the run folder says it."""
        self.close(error)

    def close(self, error: BaseException | None = None) -> None:
        """Read once more, write what is left, and let the folder go. `error`: what ended the
        loop; without one the run is finished."""
        if not self._records or self._record is None:
            return
        try:
            if self._unsaid is not None:
                self.give_up(self._unsaid)
                return
            with isolated():
                self._record.note_scores(self.steps)
                if error is None:
                    self._look(last=True)
                    self._record.emit(Finished(self.steps))
                elif isinstance(error, Exception):
                    what = f"The training script stopped: {error_kind(error)}: {_text(error)}"
                    self._record.emit(Failed(what, _trace(error)))
                else:  # Ctrl-C
                    self._record.note_closed(self.steps)
            self._end()
        except BaseException as own:
            self.give_up(own)

    # What the loop says

    def step(
        self, loss: Score | None = None, accuracy: Score | None = None, **unknown: object
    ) -> None:
        """One training step was taken. `loss`: of its batch; `accuracy` (0…1), where you know it.

        Never raises; a loss on a card is not waited for. A score that cannot be used, or has
        another name, is left out with one warning.
        """
        try:
            self._uncompiled(self._count_step, loss, accuracy, unknown)
        except BaseException as error:
            try:
                self.give_up(error)
            except RecursionError as deep:  # there is no room to say it: the next step does
                if deep is error:
                    raise
                self._unsaid = error

    def log(
        self, loss: Score | None = None, accuracy: Score | None = None, **unknown: object
    ) -> None:
        """Scores of the steps since the last time, where the loop does not say them at each."""
        self.steps -= 1  # none was taken
        self.step(loss, accuracy, **unknown)

    def test(
        self, loss: Score | None = None, accuracy: Score | None = None, **unknown: object
    ) -> None:
        """The scores of a test set (or validation set) at this step; as those of `step`."""
        try:
            self._uncompiled(self._note_test, loss, accuracy, unknown)
        except BaseException as error:
            self.give_up(error)

    # Own

    def _count_step(self, loss: object, accuracy: object, unknown: Mapping[str, object]) -> None:
        self.steps += 1
        if not self._records or self._record is None:
            if not self._begun:
                self._begun = True
                warn(
                    "Nothing is recorded: this watcher was not started. Write 'with dgn.watch(…) "
                    "as w:', or call its start() before the first step."
                )
            return
        if self._unsaid is not None:
            self.give_up(self._unsaid)
            return
        with modes_set_aside(), torch._C.DisableTorchFunction():
            self._record.scores.add(loss, accuracy, unknown, self.steps)
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + self._pace.look
            self._tick(now)

    def _note_test(self, loss: object, accuracy: object, unknown: Mapping[str, object]) -> None:
        if self._records and self._record is not None:
            with modes_set_aside(), torch._C.DisableTorchFunction():
                scores = self._record.scores
                scores.refuse(unknown)
                self._record.note_scores(self.steps, scores.loss(loss), scores.share(accuracy))

    def _begin(self) -> None:
        worked, began = time.thread_time(), time.monotonic()
        with _state_kept(self._module) as reached:
            self._open(WatchedModule(self._module, *self._probe[:2], reached), worked, began)
        if self._readings is not None:
            self._readings.warn_of_left_out()
        # A step that the user compiles may hold `w.step`. What was read so far has imported the
        # compiler of torch, which takes a second, in any case.
        self._uncompiled = torch.compiler.disable(_call)  # type: ignore[no-untyped-call] # of torch

    def _open(self, watched: WatchedModule, worked: float, began: float) -> None:
        """Make the folder and read for the first time; `worked` and `began` are when it started."""
        labels, order = self._probe[1:]
        _check_names(self._class_names, watched.classes)
        folder = create_folder(self._out, watched.title, len(labels))
        by = f"{watched.title} of {Path(sys.argv[0]).name or 'an interactive session'}"
        try:
            opening = started(folder, watched, order, self._class_names, self._per_epoch, by)
            folder.info.begin(opening, opening.probe_set.digest, torch.get_num_threads())
            folder.info.plan_frames(self._probes, 0)
            recorder = Recorder(folder)
        except BaseException:  # also where the system has no room for another thread
            folder.close()
            raise
        clock, before = time.thread_time, worked
        if watched.x.device.type != "cpu":
            clock, before = time.monotonic, began
        self._budget = WatchBudget(LEDGER * self._share, busy=clock, debt=DEBT)
        self._record = WatchRecord(recorder, self._budget, self._per_epoch, self._pace)
        atexit.register(self._at_exit)
        self._readings = ModuleReadings(
            self._module,
            watched,
            self._probes,
            self._budget,
            self._record.emit,
            self._pace.last_pictures,
        )
        self._look()
        self._budget.settle(running=True)  # opens the account, on which the beginning is a debt
        self._budget.add_debt("start", clock() - before)

    def _tick(self, now: float) -> None:
        record, readings, began = self._record, self._readings, self._budget.busy()
        assert record is not None
        assert readings is not None
        record.pass_on(now, self.steps)
        due = readings.is_due(self.steps)
        self._budget.charge("recording", self._budget.busy() - began)
        try:
            if due:
                with isolated(patience=0.0):
                    self._look()
                self._next_look = time.monotonic() + self._pace.look
            elif readings.waits and self._budget.in_credit:
                with isolated(patience=0.0):
                    readings.work()
                    record.add_frame(self.steps, readings)
        except OtherThreadReadsError:
            return  # there will be another step

    def _look(self, last: bool = False) -> None:
        """Copy the module, read what is due of the copy, and record it."""
        assert self._record is not None
        assert self._readings is not None
        self._readings.read_due(self.steps, last)
        self._record.add_frame(self.steps, self._readings, last)

    def give_up(self, error: BaseException) -> None:
        """Say once, here and in the run folder, that watching stops, and let the loop continue.

        Raises `error` where it is the user's own way to stop the program: Ctrl-C, or a signal.
        """
        if is_interrupt(error):
            raise error
        said = _text(error).strip().rstrip(".") or error_kind(error)
        self.trouble = (
            f"Watching stopped at step {self.steps:,}: {said}. The training went on without it."
        )
        with _ignored():
            try:
                known = isinstance(error, (UserError, StateChangedError))
                if self._record is not None:
                    self._record.emit(Failed(self.trouble, "" if known else _trace(error)))
            finally:
                self._end()
        self._record = None
        warn(self.trouble)

    def _end(self) -> None:
        record, self._record = self._record, None
        if self._readings is not None:
            self._readings.release()
        atexit.unregister(self._at_exit)
        if record is not None:
            record.close()

    def _at_exit(self) -> None:
        """The program ends without `close`."""
        if self._records and self._record is not None:
            with _ignored():
                self._record.note_closed(self.steps)
                self._end()


class WatchRecord:
    """The run folder of a watched module: its scores, events and frames, as its loop has time."""

    def __init__(
        self, recorder: Recorder, budget: WatchBudget, steps_per_epoch: int, pace: WatchPace
    ) -> None:
        self._recorder, self._budget, self._per_epoch = recorder, budget, steps_per_epoch
        self._pace = pace
        self.scores = GivenScores(warn)
        self._billed = 0.0  # processor seconds of the recorder
        self._noted = self._passed = self._framed = 0.0
        self._framed_at = 0.0  # processor seconds of the recorder at the last frame
        self._rate_from = (time.monotonic(), 0)

    @property
    def seconds(self) -> float:
        return self._recorder.busy

    def pass_on(self, now: float, step: int) -> None:
        """Bill what was written, and pass scores on to the thread that writes."""
        if (busy := self._recorder.busy) != self._billed:
            self._budget.charge("recording", busy - self._billed, own=False)
            self._billed = busy
        for event in self._recorder.take_events():
            if isinstance(event, RecordingPaused):
                warn(f"{event.reason} Your training goes on.")
        self._budget.settle(running=True)
        if now - self._noted >= self._pace.note:
            self.note_scores(step)
        if now - self._passed >= self._pace.pass_on:
            self._passed = now
            self._recorder.pass_on()

    def note_scores(
        self, step: int, loss: float | None = None, accuracy: float | None = None
    ) -> None:
        """Note one point of the curves: means since the last; what nobody knows is not a number."""
        self._noted = time.monotonic()
        known, train = self.scores.diverged, self.scores.take()
        if known is None and (diverged := self.scores.diverged) is not None:
            warn(f"The loss of step {diverged:,} is not finite. Watching goes on.")
        if train is None and loss is None and accuracy is None:
            return
        means = train or (float("nan"), float("nan"))
        self.emit(Measured(step, self._epoch(step), *means, loss, accuracy))

    def note_closed(self, step: int) -> None:
        """Note that the loop ended before its end."""
        self._recorder.note("Closed", {"step": step})

    def emit(self, event: Event) -> None:
        if is_logged(event):
            soon = not isinstance(event, (Measured, ProbeScalars))
            self._recorder.note(log_word(event), to_plain(event), soon)

    def add_frame(self, step: int, readings: ModuleReadings, last: bool = False) -> None:
        """Record what was read, where writing keeps to its part of the share."""
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
            epoch=self._epoch(step),
            steps_per_second=(step - steps) / (now - since) if now > since else 0.0,
            eta_seconds=None,
            readings=readings.shown,
            regime=REGIME,
            wiring=readings.wiring,
        )
        if self._recorder.add_frame(frame, CLOSING if last else 0.0):
            self._framed, self._framed_at = now, self._recorder.busy
        self._budget.charge("recording", self._budget.busy() - began)

    def close(self) -> None:
        if not self._recorder.close(CLOSING):
            warn(self._recorder.paused or "The disk did not take all that was recorded in time.")

    def _epoch(self, step: int) -> float:
        return step / self._per_epoch if self._per_epoch else 0.0


class ModuleReadings:
    """What is read of copies of a module: what the probes see, or K alone where it has no gates."""

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
        for name in probes:  # only K can be computed: each panel says why
            self._readings[name] = Reading(name, 0, absent=watched.refusal)
        if TANGENT in probes:
            self._alone = TangentAlone(watched.x, watched.labels)

    @property
    def shown(self) -> dict[str, Reading]:
        """The newest of each probe, with what is left out of it."""
        without = self._watched.without_hooks
        return {
            name: replace(reading, remark=", ".join(filter(None, (reading.remark, without))))
            for name, reading in self._readings.items()
        }

    @property
    def wiring(self) -> tuple[int, ...]:
        return self._watched.network.wiring if self._watched.network is not None else ()

    def warn_of_left_out(self) -> None:
        """Warn of what is not read of the module, now that it was read once."""
        watched = self._watched
        if watched.without_hooks:
            warn(f"What is shown is {watched.without_hooks}.")
        if watched.network is not None:
            if watched.remark:
                warn(watched.remark)
            return
        only = "only scores are recorded" if self._alone is None else "only K is computed"
        words = [f"There are no gates and no path kernels of this module; {only}."]
        words.append(watched.refusal)
        if self._alone is not None:
            words.append(self._alone.remark)
        elif TANGENT in self._probes and self._readings[TANGENT].absent != watched.refusal:
            words.append(self._readings[TANGENT].absent)
        warn(" ".join(filter(None, words)))

    def is_due(self, step: int) -> bool:
        if self._schedule is not None:
            return bool(self._schedule.due(step))
        return self._alone is not None and time.monotonic() >= self._alone_due

    @property
    def waits(self) -> bool:
        return self._sliced is not None and self._sliced.waits

    def read_due(self, step: int, last: bool = False) -> None:
        """Copy the module, and read what is due of the copy; `last`: nothing is under way then."""
        due = self._schedule.due(step, last) if self._schedule is not None else ()
        if due:
            began = self._budget.busy()
            with _state_kept(self._module) as reached:
                self._watched.renew(reached)
            self._budget.charge("copies", self._budget.busy() - began)
        if due and self._schedule is not None and self._watched.network is not None:
            context = self._watched.context(self._watched.network)
            self._schedule.read(due, context, step)
            self._readings = dict(self._schedule.readings)
        if last:
            self._finish()
        if self._alone is not None:
            self._read_alone(self._alone, step)

    def work(self) -> None:
        assert self._sliced is not None
        assert self._schedule is not None
        self._sliced.latest(self._budget)
        self._readings = dict(self._schedule.readings)

    def _finish(self) -> None:
        """Take some seconds for what has no picture yet; then nothing is under way any more."""
        if self._sliced is None or self._schedule is None:
            return
        began = self._budget.busy()
        while self._sliced.awaited and self._budget.busy() - began < self._last_pictures:
            self._sliced.latest()
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

    def _read_alone(self, alone: TangentAlone, step: int) -> None:
        began = self._budget.busy()
        try:
            with _state_kept(self._module) as reached:
                self._watched.renew(reached)
                with refuse_draws(reached.draws_of_numpy):
                    reading = alone.read(self._watched.copy, step)
                if not self._watched.is_as_read(reached):
                    reading = Reading(TANGENT, step, absent=CHANGED)
        except (ValueError, PassRefusedError) as refusal:  # it says which module has no K
            reading = Reading(TANGENT, step, absent=str(refusal))
            self._alone = None
        self._budget.took(TANGENT, "readings", self._budget.busy() - began)
        every = self._budget.interval(TANGENT)
        self._alone_due = time.monotonic() + every
        self._readings[TANGENT] = replace(reading, interval=every)
        if reading.scalars:
            seen = (reading.examples, len(self._watched.x)) if reading.examples else (0, 0)
            self._emit(ProbeScalars(step, TANGENT, reading.scalars, *seen))

    def release(self) -> None:
        """Nobody waits for its readings any more."""
        if self._schedule is not None:
            self._schedule.release()


@contextmanager
def _state_kept(module: nn.Module) -> Iterator[ReachedState]:
    """Put back the state that passes of a copy in it reach by name or keep in the process, and keep
    no weights in half precision for the user's outermost `torch.autocast`, which would hold those
    of each copy until it ends."""
    enabled = torch.is_autocast_cache_enabled()
    with kept_state(unwrapped(module)) as reached:
        torch.set_autocast_cache_enabled(False)
        try:
            yield reached
        finally:
            torch.set_autocast_cache_enabled(enabled)


def _check(module: object, probes: Sequence[str], share: float, steps_per_epoch: int) -> None:
    if not isinstance(module, nn.Module):
        raise ArgumentError(
            f"module is of type {type(module).__name__}; a module is needed.",
            kind="wrong-type",
            value=module,
        )
    if isinstance(probes, str) or not probes:
        raise ArgumentError(
            "probes names what is read, for example ('gates', 'npk').",
            kind="no-choice",
            value=probes,
        )
    known = all_probes()
    for name in probes:
        if name not in known:
            raise ArgumentError(
                f"There is no probe '{name}'; there are {', '.join(known)}."
                f"{did_you_mean(name, known)}",
                kind="unknown-name",
                value=name,
            )
    if not _SMALLEST_SHARE <= share <= _LARGEST_SHARE:
        raise ArgumentError(
            f"share is {share:g}; it is a share of the time, like 0.05.",
            kind="out-of-bounds",
            value=share,
        )
    if steps_per_epoch < 0:
        raise ArgumentError(
            f"steps_per_epoch is {steps_per_epoch}; it is 0 or more.",
            kind="out-of-bounds",
            value=steps_per_epoch,
        )


def _check_names(names: Sequence[str], classes: int) -> None:
    if names and len(names) != classes:
        raise ArgumentError(
            f"class_names holds {len(names):,} name(s); the module has {classes:,} classes.",
            kind="wrong-length",
            value=names,
        )


def _call(function: Callable[..., None], *given: object) -> None:
    function(*given)


def warn(sentence: str) -> None:
    """A warning, also where the owner made errors of warnings: their loop must not end by it."""
    try:
        warnings.warn(f"dgn: {sentence}", RuntimeWarning, stacklevel=4)
    except BaseException as error:  # `warnings.showwarning` may be the user's own
        if is_interrupt(error):
            raise
        with _ignored():
            complain(f"dgn: {sentence}")


@contextmanager
def _ignored() -> Iterator[None]:
    """Ignore whatever is raised, except the user's own way to stop the program."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error):
            raise


def _text(error: BaseException) -> str:
    """What an exception says, or '': its `__str__` may be the user's own, and fail.

    That may also return a string of a class of its own, whose methods fail.
    """
    with _ignored():
        return str.__str__(str(error))
    return ""


def _trace(error: BaseException) -> str:
    """Where it was raised, or '' where its `__notes__`, say, are the user's own, and fail."""
    with _ignored():
        return "".join(traceback.format_exception(error))
    return ""


def error_kind(error: BaseException) -> str:
    """The name of its class, of which a class of classes may make something else."""
    return str(vars(type)["__name__"].__get__(type(error)))
