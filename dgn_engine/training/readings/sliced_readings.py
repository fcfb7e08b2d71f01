"""Run expensive readings in slices between the steps of a watched loop, in its own thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dgn_engine.training.probes import Probe, all_probes
from dgn_engine.training.readings.reading_child import ReadingServer
from dgn_engine.training.readings.reading_executor import ReadingExecutor
from dgn_engine.training.readings.reading_jobs import (
    Answer,
    ExactJob,
    JobOver,
    JobSlice,
    RefinedJob,
    StepContexts,
)
from dgn_engine.training.readings.watch_budget import WatchBudget

GOOD = 0.05  # relative standard error at which an estimate is good enough, after …
PICTURES = 4  # … pictures: fewer draws may agree by chance
LONGEST = 30.0  # seconds of work after which a reading is final


@dataclass
class _BegunJob:
    """A job, its number of pictures of all probe examples, and whether it has any picture."""

    job: RefinedJob
    whole: bool  # each slice is an exact reading of twice the examples
    pictures: int = 0
    shown: bool = False


class SlicedReadings(ReadingExecutor):
    """Executor of one slice, of about half a second, per call of `deliver_answers`.

    A reading ends sooner than in a process with a core of its own: once its estimate is within
    `GOOD`, or after `LONGEST` seconds.
    """

    refines = True

    def __init__(
        self, busy: Callable[[], float], probes: Mapping[str, Probe] | None = None
    ) -> None:
        """Create the executor.

        Args:
            busy: Returns seconds this thread has worked.
            probes: Probes by key; all if None.
        """
        self._busy = busy
        self._worked = 0.0
        self._since: float | None = None  # while a slice is being worked on
        self._answers: list[JobSlice | JobOver] = []
        self._jobs: dict[int, _BegunJob] = {}
        self._probes = all_probes() if probes is None else dict(probes)
        self._server = ReadingServer(self._collect_answer, self._probes, self._worked_seconds)

    def submit(self, jobs: Sequence[ExactJob | RefinedJob], contexts: StepContexts) -> None:
        """Queue refined jobs on a copy of the network.

        Args:
            jobs: Refined jobs.
            contexts: The probe examples under the current network.
        """
        copied = contexts.copy_network().whole
        for job in jobs:
            assert isinstance(job, RefinedJob)
            self._jobs[job.ticket] = _BegunJob(job, self._probes[job.name].refine is None)
            self._server.begin_job(job.order_for(contexts), copied)

    def cancel(self, job: ExactJob | RefinedJob) -> None:
        """Remove a job.

        Args:
            job: A submitted job; others are ignored.
        """
        if isinstance(job, RefinedJob) and self._jobs.pop(job.ticket, None) is not None:
            self._server.stop_job(job.ticket)

    def deliver_answers(self, budget: WatchBudget | None = None) -> bool:
        """Compute one slice and deliver its answers.

        Args:
            budget: Pays for the slice; None if the caller pays.

        Returns:
            Whether anything was delivered.
        """
        if not self._server.has_jobs:
            return False
        before = self._worked
        self._since = self._busy()
        try:
            self._server.run_slice()
        finally:
            self._worked, self._since = self._worked_seconds(), None
        if budget is not None:
            budget.charge("refinements", self._worked - before)
        answers, self._answers = self._answers, []
        for answer in answers:
            begun = self._jobs[answer.ticket]
            if isinstance(answer, JobOver):
                del self._jobs[answer.ticket]
            begun.job.deliver(answer)
        return bool(answers)

    def close(self, trouble: str = "") -> bool:
        """End all jobs.

        Args:
            trouble: Reason delivered to the jobs, as part of a sentence; '' to deliver nothing.

        Returns:
            Whether there were jobs.
        """
        jobs, self._jobs = self._jobs, {}
        for ticket, begun in jobs.items():
            self._server.stop_job(ticket)
            if trouble:
                begun.job.deliver(JobOver(ticket, trouble))
        return bool(jobs)

    @property
    def has_jobs(self) -> bool:
        """Return whether there is work to do.

        Returns:
            True while any job is unfinished.
        """
        return self._server.has_jobs

    @property
    def awaits_picture(self) -> bool:
        """Return whether a reading has no picture yet.

        Returns:
            True while any job has produced no result.
        """
        return self._server.awaits_picture

    def _worked_seconds(self) -> float:
        """Return the seconds worked so far; the loop's own steps do not count."""
        return self._worked + (0.0 if self._since is None else self._busy() - self._since)

    def _collect_answer(self, answer: Answer) -> None:
        assert isinstance(answer, (JobSlice, JobOver))
        self._answers.append(answer)
        if isinstance(answer, JobSlice):
            begun = self._jobs[answer.ticket]
            begun.shown |= answer.result is not None
            begun.pictures += answer.result is not None and not answer.examples
            if begun.shown and _is_enough(begun, answer):
                self._server.stop_job(answer.ticket)
                self._answers.append(JobOver(answer.ticket))


def _is_enough(begun: _BegunJob, latest: JobSlice) -> bool:
    if begun.pictures >= PICTURES and latest.error <= GOOD:
        return True
    left = latest.elapsed * (1.0 - latest.done) / max(latest.done, 1e-9)
    return latest.elapsed >= LONGEST or (begun.whole and left > LONGEST)
