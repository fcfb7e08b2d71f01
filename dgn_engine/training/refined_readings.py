"""The heavy readings of one network: what the reading process makes of them, better and better."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.text.written_numbers import decimals, number
from dgn_engine.training.overflow import stands_for
from dgn_engine.training.probes import Probe
from dgn_engine.training.reading_process.reading_messages import (
    JobOver,
    JobSlice,
    NetworkSnapshot,
)
from dgn_engine.training.reading_process.reading_worker import ReadingWorker

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
class _Refined:
    """A job, or what is left of one that is over. `ticket`: 0 then."""

    ticket: int
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
    """Jobs of a schedule, by probe; they change its `readings` when the worker is polled.

    `lost(name)`: the worker cannot be had any more, and the schedule has to read it itself.
    """

    def __init__(
        self,
        worker: ReadingWorker,
        probes: Mapping[str, Probe],
        readings: dict[str, Reading],
        emit: Callable[[Event], None],
        lost: Callable[[str], None],
    ) -> None:
        self.worker = worker
        self._probes = probes
        self._readings = readings
        self._emit = emit
        self._lost = lost
        self._jobs: dict[str, _Refined] = {}
        self._pictures: set[str] = set()  # in `readings`, made by a job of the network as it is
        self._held: set[str] = set()  # cancelled, or failed
        self._broken: set[str] = set()  # a fault that was told

    def step_of(self, name: str) -> int | None:
        """The step that is being read; None where none is."""
        job = self._jobs.get(name)
        return job.step if job is not None and job.ticket else None

    def holds(self, name: str) -> bool:
        """It is not begun again before it is asked for, or the network changes."""
        return name in self._held

    def has_picture(self, name: str) -> bool:
        return name in self._pictures

    @property
    def busy(self) -> bool:
        return any(job.ticket for job in self._jobs.values())

    def begin(
        self, name: str, snapshot: NetworkSnapshot, step: int, options: Mapping[str, OptionValue]
    ) -> None:
        """Read this step; a job of another one is given up."""
        self._stop(name)
        job = self._jobs[name] = _Refined(0, step, snapshot.examples)
        job.ticket = self.worker.begin(
            snapshot,
            name,
            options,
            step,
            lambda heard: self._hear(name, job, heard),
            name not in self._pictures,
        )
        before = self._readings.get(name)
        if before is None or before.absent:
            before = Reading(name, step, absent=FIRST)
        self._readings[name] = replace(before, progress=0.0, left=0.0, cancelled=False)

    def forget(self, name: str) -> None:
        """Stop it, and let whatever comes next take the place of what is shown."""
        self._stop(name)
        self._held.discard(name)
        self._pictures.discard(name)

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
        self._held.add(name)
        shown = self._readings[name]
        absent = STOPPED if shown.pending else shown.absent
        self._rest(name, replace(shown, absent=absent, cancelled=True))

    def go_on(self, name: str) -> None:
        self._held.discard(name)

    def release(self) -> None:
        """Nobody looks any more."""
        for name in self._jobs:
            self._stop(name)

    def _stop(self, name: str) -> None:
        job = self._jobs.get(name)
        if job is not None and job.ticket:
            self.worker.stop(job.ticket)
            job.ticket = 0

    def _hear(self, name: str, job: _Refined, heard: JobSlice | JobOver) -> None:
        if job is not self._jobs.get(name) or not job.ticket:
            return
        if isinstance(heard, JobOver):
            job.ticket = 0
            self._end(name, job, heard)
        else:
            self._sharpen(name, job, heard)

    def _sharpen(self, name: str, job: _Refined, found: JobSlice) -> None:
        left = job.pace.left(found.done, found.elapsed)
        if found.result is not None:
            made = _reading(name, job, found)
        elif job.newest is not None:
            made = replace(job.newest, error=found.error, seconds=found.elapsed)
        else:
            return
        job.newest = made
        shown = self._readings.get(name)
        if stands_for(shown, made):
            job.newest = None
            return
        first = shown is None or name not in self._pictures
        if shown is None or first or job.improves(made, shown, found.done):
            self._pictures.add(name)
            job.shown = found.done
            shown = replace(made, remark=words(made, job.examples))
        self._readings[name] = replace(shown, progress=min(found.done, 1.0), left=left)

    def _end(self, name: str, job: _Refined, over: JobOver) -> None:
        shown = self._readings.get(name)
        if shown is None:
            return
        if not over.trouble:
            if job.newest is not None:
                self._trace(job.newest, job.examples)
                shown = replace(job.newest, remark=words(job.newest, job.examples))
                self._broken.discard(name)
            self._rest(name, replace(shown, interval=shown.seconds))
            return
        if self.worker.trouble:
            self._lost(name)
            return
        self._held.add(name)
        self._tell(name, job.step, over)
        if shown.pending:
            why = f"{self._probes[name].title} has no picture: {over.trouble}."
            fault = {"fault": "no picture"}
            self._rest(name, replace(shown, absent=why, facts=fault, cancelled=True))
            return
        remark = f"{shown.remark} · not refined: {over.trouble}"
        self._rest(name, replace(shown, remark=remark, cancelled=True))

    def _rest(self, name: str, reading: Reading) -> None:
        """Nothing is under way."""
        self._readings[name] = replace(reading, progress=1.0, left=0.0)

    def _trace(self, reading: Reading, whole: int) -> None:
        """Scalars of a reading that is as good as it gets."""
        if reading.scalars:
            seen = (reading.examples, whole if reading.examples else 0)
            self._emit(ProbeScalars(reading.step, reading.probe, reading.scalars, *seen))

    def _tell(self, name: str, step: int, over: JobOver) -> None:
        if over.details and name not in self._broken:
            self._broken.add(name)
            what = f"The probe '{self._probes[name].title}' of step {step:,}: {over.trouble}."
            self._emit(Failed(what, over.details))


def _reading(name: str, job: _Refined, found: JobSlice) -> Reading:
    assert found.result is not None
    for array in found.result.arrays.values():
        array.flags.writeable = False
    return Reading(
        name,
        job.step,
        seconds=found.elapsed,
        arrays=dict(found.result.arrays),
        scalars=dict(found.result.scalars),
        facts=dict(found.result.facts),
        absent=found.result.absent,
        examples=found.examples,
        error=found.error,
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


def words(reading: Reading, whole: int) -> str:
    """What a kernel is made of: '8 of 64 probe examples, exact', '64 probe examples · ± 5 %'."""
    if reading.absent:
        return ""
    seen = f"{reading.examples} of {whole}" if reading.examples else str(whole)
    if not reading.error:
        return f"{seen} probe examples, exact"
    share = 100.0 * reading.error
    shown = "< 0.01" if share < 0.01 else number(share, 1) if share < 9.5 else decimals(share, 0)
    return f"{seen} probe examples · ± {shown} %"
