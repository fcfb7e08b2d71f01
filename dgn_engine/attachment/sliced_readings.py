"""Costly readings in slices, between the steps of the loop that is watched: in its own thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dgn_engine.training.probes import all_probes
from dgn_engine.training.reading_process.reading_child import ReadingServer
from dgn_engine.training.reading_process.reading_messages import (
    Answer,
    BeginJob,
    JobOver,
    JobSlice,
    Order,
    ProcessReady,
    StopJob,
)
from dgn_engine.training.reading_process.reading_worker import ReadingWorker

GOOD = 0.05  # relative standard error at which an estimate is good enough, and …
PICTURES = 4  # … the pictures of it after which that is believed: few draws may agree by chance
LONGEST = 30.0  # seconds of work after which a reading stays as it is


@dataclass
class _Work:
    """One job: its `pictures` of all probe examples, and whether there is any at all."""

    whole: bool  # its slices are readings, each of twice the examples of the one before
    pictures: int = 0
    shown: bool = False


class SlicedReadings:
    """Does what the reading process does (`WorkerChild`), a slice whenever `work` is called.

    `busy`: seconds that this thread has worked. A reading ends sooner than in a process that has a
    core to itself: when its estimate is within `GOOD`, or after `LONGEST`.
    """

    def __init__(self, busy: Callable[[], float]) -> None:
        self._busy = busy
        self._worked = 0.0
        self._since: float | None = None  # while a slice is being worked on
        self._answers: list[Answer] = [ProcessReady()]
        self._jobs: dict[int, _Work] = {}
        self._probes = all_probes()
        self._server = ReadingServer(self._hear, self._probes, self._seconds)

    # As a `WorkerChild`

    @property
    def ended(self) -> str:
        return ""

    def put(self, order: Order) -> None:
        if isinstance(order, BeginJob):
            self._jobs[order.ticket] = _Work(self._probes[order.probe].refine is None)
        self._server.take(order)

    def take(self) -> list[Answer]:
        answers, self._answers = self._answers, []
        return answers

    def kill(self) -> None:
        for ticket in list(self._jobs):
            self._server.take(StopJob(ticket))

    # Own

    @property
    def waits(self) -> bool:
        """There is something to work on."""
        return self._server.busy

    @property
    def awaited(self) -> bool:
        """A reading has no picture yet."""
        return self._server.awaited

    def work(self) -> float:
        """Do one slice, of half a second or so; the seconds that it took."""
        before = self._worked
        self._since = self._busy()
        try:
            self._server.work()
        finally:
            self._worked, self._since = self._seconds(), None
        return self._worked - before

    def _seconds(self) -> float:
        """Worked so far, by which the server measures: the loop's own steps do not count."""
        return self._worked + (0.0 if self._since is None else self._busy() - self._since)

    def _hear(self, answer: Answer) -> None:
        self._answers.append(answer)
        if isinstance(answer, JobOver):
            self._jobs.pop(answer.ticket, None)
        elif isinstance(answer, JobSlice):
            job = self._jobs[answer.ticket]
            job.shown |= answer.result is not None
            job.pictures += answer.result is not None and not answer.examples
            if job.shown and _is_enough(job, answer):
                self._server.take(StopJob(answer.ticket))


def _is_enough(job: _Work, made: JobSlice) -> bool:
    if job.pictures >= PICTURES and made.error <= GOOD:
        return True
    left = made.elapsed * (1.0 - made.done) / max(made.done, 1e-9)
    return made.elapsed >= LONGEST or (job.whole and left > LONGEST)


def sliced_readings(busy: Callable[[], float]) -> tuple[SlicedReadings, ReadingWorker]:
    """What works, and what gives it work."""
    child = SlicedReadings(busy)
    return child, ReadingWorker(lambda: child, in_process=True)
