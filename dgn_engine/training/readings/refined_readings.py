"""Run expensive probes in an executor, with growing sample sizes and shrinking errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.text.written_numbers import format_relative_error, time_left
from dgn_engine.training.overflow import should_keep_picture
from dgn_engine.training.probes import TOO_ROUGH, Probe
from dgn_engine.training.readings.first_slices import first_slice_seconds
from dgn_engine.training.readings.reading_child import FEWEST
from dgn_engine.training.readings.reading_executor import InlineReadings, ReadingExecutor
from dgn_engine.training.readings.reading_jobs import JobOver, JobSlice, RefinedJob, StepContexts

GOOD = 0.05  # relative standard error at which a newer step replaces a sharper picture
COMPILES = "compiling, once"
STOPPED = "Cancelled before there was a first estimate."


class JobPace:
    """Remaining time of a job, extrapolated from its slices."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None  # share and seconds of the first slice

    def estimate_left(self, done: float, elapsed: float) -> float:
        """Return the time until a job is done.

        The larger of two extrapolations: from all slices, and from those after the first.

        Args:
            done: Share of the work done, in (0, 1].
            elapsed: Seconds since the first slice began.

        Returns:
            Seconds; 0 while nothing is known.
        """
        if self._first is None:
            self._first = (done, elapsed)
        share, seconds = done - self._first[0], elapsed - self._first[1]
        if share <= 0.0:
            return 0.0
        return (1.0 - done) * max(elapsed / done, seconds / share)


@dataclass
class _RefiningState:
    """A job, or what remains of one that is over (`job` is None then)."""

    job: RefinedJob | None
    step: int
    examples: int  # of the probe set
    newest: Reading | None = None
    shown: float = 0.0  # share of the work behind the displayed picture; 0 if there is none
    pace: JobPace = field(default_factory=JobPace)

    def improves(self, new: Reading, shown: Reading, done: float) -> bool:
        """Return whether a new slice should replace the displayed reading.

        Slices of one job only get better, except for those repeated after a restart; the first
        slice must match what an earlier job left.
        """
        return done >= self.shown if self.shown else _should_replace(new, shown, done)


class RefinedReadings:
    """The refined jobs of a schedule, by probe; updates `readings` as answers arrive.

    All methods run in the training thread.

    Attributes:
        executor: Runs the jobs.
        pictures: Probes whose displayed reading comes from a job of the current network.
        cancelled: Probes that were cancelled or failed; not restarted until asked for or the
            network changes.
    """

    def __init__(
        self,
        probes: Mapping[str, Probe],
        readings: dict[str, Reading],
        read_at: dict[str, float],
        emit: Callable[[Event], None],
    ) -> None:
        """Start without jobs.

        Args:
            probes: Probes by key.
            readings: Displayed readings by probe, changed in place.
            read_at: When each probe was read; a probe removed from it is due at once, which happens
                if the executor fails.
            emit: Takes scalars and failures.
        """
        self.executor: ReadingExecutor = InlineReadings()
        self._probes = probes
        self._readings = readings
        self._emit = emit
        self._read_at = read_at
        self._jobs: dict[str, _RefiningState] = {}
        self.pictures: set[str] = set()
        # Cancelled or failed.
        self.cancelled: set[str] = set()
        self._broken: set[str] = set()  # probes whose failure was reported

    @property
    def can_refine(self) -> bool:
        """Return whether the executor can refine.

        Returns:
            False for inline readings, and if the executor is in trouble.
        """
        return self.executor.refines and not self.executor.trouble

    @property
    def is_refining(self) -> bool:
        """Return whether a job is in progress.

        Returns:
            True until all jobs are over or cancelled.
        """
        return any(progress.job is not None for progress in self._jobs.values())

    def step_of(self, name: str) -> int | None:
        """Return the step that is being read.

        Args:
            name: Key of the probe.

        Returns:
            Step, or None if no job is in progress.
        """
        progress = self._jobs.get(name)
        return progress.step if progress is not None and progress.job is not None else None

    def begin_jobs(
        self, options: Mapping[str, Mapping[str, OptionValue]], contexts: StepContexts
    ) -> None:
        """Start jobs, in this order; jobs of the same probes at an earlier step are dropped.

        Args:
            options: Options by probe.
            contexts: The probe examples under the current network.
        """
        jobs = []
        for name, chosen in options.items():
            self._stop_job(name)
            progress = _RefiningState(None, contexts.step, len(contexts.whole.x))
            first = name not in self.pictures
            progress.job = RefinedJob(name, chosen, partial(self._handle_answer, progress), first)
            self._jobs[name] = progress
            jobs.append(progress.job)
            before = self._readings.get(name)
            if before is None or before.absent:
                before = Reading(name, contexts.step, absent=_describe_wait(contexts))
            self._readings[name] = replace(
                before, progress=0.0, left=0.0, doing="", cancelled=False
            )
        self.executor.submit(jobs, contexts)

    def forget_probe(self, name: str) -> None:
        """Stop a job, and let any later reading replace its picture.

        Args:
            name: Key of the probe.
        """
        self._stop_job(name)
        self.cancelled.discard(name)
        self.pictures.discard(name)

    def invalidate_all(self) -> bool:
        """Drop all jobs and their readings, since the network has changed.

        Returns:
            Whether there were any readings.
        """
        dropped = False
        for name in self._jobs:
            self.forget_probe(name)
            dropped |= self._readings.pop(name, None) is not None
        self._jobs.clear()
        return dropped

    def cancel(self, name: str) -> None:
        """Stop refining; the picture stays.

        Args:
            name: Key of the probe.
        """
        if self.step_of(name) is None:
            return
        self._stop_job(name)
        self.cancelled.add(name)
        shown = self._readings[name]
        absent = STOPPED if shown.pending else shown.absent
        self._show_final(name, replace(shown, absent=absent, cancelled=True))

    def resume(self, name: str) -> bool:
        """Allow a cancelled probe to be read again.

        Args:
            name: Key of the probe.

        Returns:
            Whether it was cancelled.
        """
        was_cancelled = name in self.cancelled
        self.cancelled.discard(name)
        return was_cancelled

    def end_jobs(self, trouble: str) -> bool:
        """End all jobs of the executor if they use the memory that training needs.

        Args:
            trouble: Why, as part of a sentence.

        Returns:
            Whether there were any.
        """
        return self.executor.shares_memory and self.executor.close(trouble)

    def release(self) -> None:
        """Stop all jobs."""
        for name in self._jobs:
            self._stop_job(name)

    def _stop_job(self, name: str) -> None:
        progress = self._jobs.get(name)
        if progress is not None and progress.job is not None:
            self.executor.cancel(progress.job)
            progress.job = None

    def _handle_answer(self, progress: _RefiningState, answer: JobSlice | JobOver) -> None:
        if progress.job is None:
            return
        name = progress.job.name
        if isinstance(answer, JobOver):
            progress.job = None
            self._end_job(name, progress, answer)
        else:
            self._show_slice(name, progress, answer)

    def _show_slice(self, name: str, progress: _RefiningState, piece: JobSlice) -> None:
        left = progress.pace.estimate_left(piece.done, piece.elapsed)
        doing = COMPILES if piece.compiles else ""
        if piece.result is not None:
            new = _make_reading(name, progress.step, piece)
        elif progress.newest is not None:
            new = replace(progress.newest, error=piece.error, seconds=piece.elapsed)
        else:
            return
        progress.newest = new
        shown = self._readings.get(name)
        if should_keep_picture(shown, new):
            progress.newest = None
            return
        first = shown is None or name not in self.pictures
        if shown is None or first or progress.improves(new, shown, piece.done):
            self.pictures.add(name)
            progress.shown = piece.done
            shown = replace(new, remark=describe_examples(new, progress.examples))
        self._readings[name] = replace(shown, progress=min(piece.done, 1.0), left=left, doing=doing)

    def _end_job(self, name: str, progress: _RefiningState, answer: JobOver) -> None:
        shown = self._readings.get(name)
        if shown is None:
            return
        if not answer.trouble:
            last = progress.newest
            if last is not None:
                if last.scalars:  # only final readings have scalars
                    counts = (last.examples, progress.examples if last.examples else 0)
                    self._emit(ProbeScalars(last.step, name, last.scalars, *counts))
                shown = replace(last, remark=describe_examples(last, progress.examples))
                self._broken.discard(name)
            self._show_final(name, replace(shown, interval=shown.seconds))
        elif self.executor.trouble:
            self._read_at.pop(name, None)
        else:
            self.cancelled.add(name)
            self._report_failure(name, progress.step, answer)
            if shown.pending:
                why = f"{self._probes[name].title} is not available: {answer.trouble}."
                shown = replace(shown, absent=why, facts={"fault": "no picture"})
            else:
                shown = replace(shown, remark=f"{shown.remark} · not refined: {answer.trouble}")
            self._show_final(name, replace(shown, cancelled=True))

    def _show_final(self, name: str, reading: Reading) -> None:
        """Show a reading that will not change any more."""
        self._readings[name] = replace(reading, progress=1.0, left=0.0, doing="")

    def _report_failure(self, name: str, step: int, answer: JobOver) -> None:
        if answer.details and name not in self._broken:
            self._broken.add(name)
            what = f"Probe '{self._probes[name].title}' stopped at step {step:,}: {answer.trouble}."
            self._emit(Failed(what, answer.details))


def _make_reading(name: str, step: int, piece: JobSlice) -> Reading:
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


def _should_replace(new: Reading, shown: Reading, done: float) -> bool:
    """Return whether a new reading replaces the displayed one, which may be of an earlier step."""
    if done >= 1.0 or shown.absent:
        return True
    if _count_examples(new) < _count_examples(shown):
        return False
    if new.step != shown.step:
        return new.error <= max(shown.error, GOOD)
    more = _count_examples(new) > _count_examples(shown)
    return new.error <= (max(shown.error, TOO_ROUGH) if more else shown.error)


def _describe_wait(contexts: StepContexts) -> str:
    """Describe what a probe without a picture waits for."""
    whole, seconds = len(contexts.whole.x), first_slice_seconds(contexts.whole.architecture)
    few = f"{FEWEST} of {whole} probe examples" if whole >= 2 * FEWEST else "all probe examples"
    return f"Estimating from {few}, about {time_left(seconds)}."


def _count_examples(reading: Reading) -> float:
    return reading.examples or math.inf


def describe_examples(reading: Reading, whole: int) -> str:
    """Describe what a kernel was computed from.

    Args:
        reading: The reading.
        whole: Number of all probe examples.

    Returns:
        '8 of 64 probe examples, exact' or '64 probe examples · ± 5 %'; '' without a picture.
    """
    if reading.absent:
        return ""
    counted = f"{reading.examples} of {whole}" if reading.examples else str(whole)
    if not reading.error:
        return f"{counted} probe examples, exact"
    return f"{counted} probe examples · {format_relative_error(reading.error)}"
