"""The expensive readings of one network: pictures that get better and better."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.text.written_numbers import decimals, number
from dgn_engine.training.overflow import stands_for
from dgn_engine.training.probes import Probe
from dgn_engine.training.readings.reading_executor import InlineReadings, ReadingExecutor
from dgn_engine.training.readings.reading_jobs import JobOver, JobSlice, RefinedJob, StepContexts

GOOD = 0.05  # relative standard error with which a newer step takes the place of a sharper picture
FIRST = "The first picture is being made."
STOPPED = "Its reading was cancelled before there was a picture."


class JobPace:
    """How long a job will take by what it has taken: nothing is known after its first slice."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None  # share and seconds after the first slice

    def left(self, done: float, elapsed: float) -> float:
        """Seconds until all is done, the longer of what the whole and the slices after the first
        make likely; 0 while nothing is known."""
        if self._first is None:
            self._first = (done, elapsed)
        share, seconds = done - self._first[0], elapsed - self._first[1]
        if share <= 0.0:
            return 0.0
        return (1.0 - done) * max(elapsed / done, seconds / share)


@dataclass
class _RefiningState:
    """A job, or what is left of one that is over. `job`: None then."""

    job: RefinedJob | None
    step: int
    examples: int  # of the probe set
    newest: Reading | None = None
    shown: float = 0.0  # the share at which its picture was made that is shown; 0: none is
    pace: JobPace = field(default_factory=JobPace)

    def improves(self, made: Reading, shown: Reading, done: float) -> bool:
        """Whether to show what it made: each slice is better than those before it (a job that
        began anew repeats some), and the first as good as what an earlier job left."""
        return done >= self.shown if self.shown else _replaces(made, shown, done)


class RefinedReadings:
    """Jobs of a schedule, by probe; they change its `readings` when the executor delivers.

    What is not in `read_at` is due at once: there, once the executor refines no more.
    """

    def __init__(
        self,
        probes: Mapping[str, Probe],
        readings: dict[str, Reading],
        read_at: dict[str, float],
        emit: Callable[[Event], None],
    ) -> None:
        self.executor: ReadingExecutor = InlineReadings()
        self._probes = probes
        self._readings = readings
        self._emit = emit
        self._read_at = read_at
        self._jobs: dict[str, _RefiningState] = {}
        self.pictures: set[str] = set()  # in `readings`, made by a job of the network as it is
        # Or failed: not begun again before it is asked for, or the network changes.
        self.cancelled: set[str] = set()
        self._broken: set[str] = set()  # a fault that was reported

    @property
    def available(self) -> bool:
        return self.executor.refines and not self.executor.trouble

    @property
    def busy(self) -> bool:
        return any(progress.job is not None for progress in self._jobs.values())

    def step_of(self, name: str) -> int | None:
        """The step that is being read; None where none is."""
        progress = self._jobs.get(name)
        return progress.step if progress is not None and progress.job is not None else None

    def begin(
        self, options: Mapping[str, Mapping[str, OptionValue]], contexts: StepContexts
    ) -> None:
        """Read the probes with these options, in this order, of this step; jobs of another step
        are given up."""
        jobs = []
        for name, chosen in options.items():
            self._stop(name)
            progress = _RefiningState(None, contexts.step, len(contexts.whole.x))
            first = name not in self.pictures
            progress.job = RefinedJob(name, chosen, partial(self._deliver, progress), first)
            self._jobs[name] = progress
            jobs.append(progress.job)
            before = self._readings.get(name)
            if before is None or before.absent:
                before = Reading(name, contexts.step, absent=FIRST)
            self._readings[name] = replace(before, progress=0.0, left=0.0, cancelled=False)
        self.executor.submit(jobs, contexts)

    def forget(self, name: str) -> None:
        """Stop it, and let whatever comes next take the place of what is shown."""
        self._stop(name)
        self.cancelled.discard(name)
        self.pictures.discard(name)

    def invalidate(self) -> bool:
        """The network is another one: nothing that was read of it is shown any more; whether
        there was anything."""
        dropped = False
        for name in self._jobs:
            self.forget(name)
            dropped |= self._readings.pop(name, None) is not None
        self._jobs.clear()
        return dropped

    def cancel(self, name: str) -> None:
        """Stop refining; the picture stays."""
        if self.step_of(name) is None:
            return
        self._stop(name)
        self.cancelled.add(name)
        shown = self._readings[name]
        absent = STOPPED if shown.pending else shown.absent
        self._finish(name, replace(shown, absent=absent, cancelled=True))

    def resume(self, name: str) -> bool:
        """Let a cancelled reading be begun again; whether it was one."""
        was_cancelled = name in self.cancelled
        self.cancelled.discard(name)
        return was_cancelled

    def end(self, trouble: str) -> bool:
        """End all jobs of the executor where they take memory from training; whether there were
        any. `trouble`: why, as part of a sentence."""
        return self.executor.shares_memory and self.executor.close(trouble)

    def release(self) -> None:
        """Stop all jobs: nobody watches any more."""
        for name in self._jobs:
            self._stop(name)

    def _stop(self, name: str) -> None:
        progress = self._jobs.get(name)
        if progress is not None and progress.job is not None:
            self.executor.cancel(progress.job)
            progress.job = None

    def _deliver(self, progress: _RefiningState, answer: JobSlice | JobOver) -> None:
        if progress.job is None:
            return
        name = progress.job.name
        if isinstance(answer, JobOver):
            progress.job = None
            self._end(name, progress, answer)
        else:
            self._sharpen(name, progress, answer)

    def _sharpen(self, name: str, progress: _RefiningState, piece: JobSlice) -> None:
        left = progress.pace.left(piece.done, piece.elapsed)
        if piece.result is not None:
            made = _reading_of(name, progress.step, piece)
        elif progress.newest is not None:
            made = replace(progress.newest, error=piece.error, seconds=piece.elapsed)
        else:
            return
        progress.newest = made
        shown = self._readings.get(name)
        if stands_for(shown, made):
            progress.newest = None
            return
        first = shown is None or name not in self.pictures
        if shown is None or first or progress.improves(made, shown, piece.done):
            self.pictures.add(name)
            progress.shown = piece.done
            shown = replace(made, remark=describe_examples(made, progress.examples))
        self._readings[name] = replace(shown, progress=min(piece.done, 1.0), left=left)

    def _end(self, name: str, progress: _RefiningState, over: JobOver) -> None:
        shown = self._readings.get(name)
        if shown is None:
            return
        if not over.trouble:
            made = progress.newest
            if made is not None:
                if made.scalars:  # of a reading that is as good as it gets
                    seen = (made.examples, progress.examples if made.examples else 0)
                    self._emit(ProbeScalars(made.step, name, made.scalars, *seen))
                shown = replace(made, remark=describe_examples(made, progress.examples))
                self._broken.discard(name)
            self._finish(name, replace(shown, interval=shown.seconds))
        elif self.executor.trouble:
            self._read_at.pop(name, None)
        else:
            self.cancelled.add(name)
            self._report(name, progress.step, over)
            if shown.pending:
                why = f"{self._probes[name].title} has no picture: {over.trouble}."
                shown = replace(shown, absent=why, facts={"fault": "no picture"})
            else:
                shown = replace(shown, remark=f"{shown.remark} · not refined: {over.trouble}")
            self._finish(name, replace(shown, cancelled=True))

    def _finish(self, name: str, reading: Reading) -> None:
        """Show what stays: nothing is under way."""
        self._readings[name] = replace(reading, progress=1.0, left=0.0)

    def _report(self, name: str, step: int, over: JobOver) -> None:
        if over.details and name not in self._broken:
            self._broken.add(name)
            what = f"The probe '{self._probes[name].title}' of step {step:,}: {over.trouble}."
            self._emit(Failed(what, over.details))


def _reading_of(name: str, step: int, piece: JobSlice) -> Reading:
    assert piece.result is not None
    for array in piece.result.arrays.values():
        array.flags.writeable = False
    return Reading(
        name,
        step,
        seconds=piece.elapsed,
        arrays=dict(piece.result.arrays),
        scalars=dict(piece.result.scalars),
        facts=dict(piece.result.facts),
        absent=piece.result.absent,
        examples=piece.examples,
        error=piece.error,
    )


def _replaces(new: Reading, shown: Reading, done: float) -> bool:
    """Whether it is shown in the place of the other, which may be of an earlier step."""
    if done >= 1.0 or shown.absent:
        return True
    if _count(new) < _count(shown):
        return False
    enough = shown.error if new.step == shown.step else max(shown.error, GOOD)
    return new.error <= enough


def _count(reading: Reading) -> float:
    return reading.examples or math.inf


def describe_examples(reading: Reading, whole: int) -> str:
    """Return what a kernel is made of: '8 of 64 probe examples, exact', '64 … · ± 5 %'."""
    if reading.absent:
        return ""
    seen = f"{reading.examples} of {whole}" if reading.examples else str(whole)
    if not reading.error:
        return f"{seen} probe examples, exact"
    share = 100.0 * reading.error
    shown = "< 0.01" if share < 0.01 else number(share, 1) if share < 9.5 else decimals(share, 0)
    return f"{seen} probe examples · ± {shown} %"
