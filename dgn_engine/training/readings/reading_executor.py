"""Where readings are made: one interface, and its simplest implementation."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from dgn_engine.kernels.precision import products
from dgn_engine.training.readings.reading_jobs import (
    ExactAnswer,
    ExactJob,
    RefinedJob,
    StepContexts,
)
from dgn_engine.training.readings.watch_budget import WatchBudget


class ReadingExecutor(ABC):
    """Makes readings, here or elsewhere. Chosen when a run begins; several schedules may share it.

    Threads: all methods are called by one thread, the one that trains. An answer is delivered in
    that thread, from within `submit` or `latest` (or `close`, where it gives a reason), and never
    after `cancel`: nobody who uses an executor needs a lock. What another thread or process reads
    is a copy of the network, made before `submit` returns; probe examples and labels are shared
    with another thread, and nobody writes to them. `submit` and `latest` wait for no other thread,
    process or card. `cancel` waits for an exact reading that another thread has begun, `close` for
    whatever another thread is at.
    """

    refines = False  # it takes a `RefinedJob`
    reads_aside = False  # it takes an `ExactJob` that training does not wait for
    shares_memory = False  # what it holds lies in the memory that training needs
    trouble = ""  # why it does not refine, as part of a sentence, where it was meant to

    @abstractmethod
    def submit(self, jobs: Sequence[ExactJob | RefinedJob], contexts: StepContexts) -> None:
        """Read this step of the network as it is now."""

    @abstractmethod
    def cancel(self, job: ExactJob | RefinedJob) -> None:
        """Stop a job; one that is over already, or was never submitted, stays as it is."""

    @abstractmethod
    def latest(self, budget: WatchBudget | None = None) -> bool:
        """Deliver what was made since the last time, and work on where this thread has to; whether
        anything was delivered.

        `budget`: that of the run which trains meanwhile, and pays for the work. None where nothing
        trains, or the caller pays.
        """

    @abstractmethod
    def close(self, trouble: str = "") -> bool:
        """End all refined jobs and free what they hold; whether there were any. A later `submit`
        begins anew.

        `trouble`: why, as part of a sentence that each job is told; '': they are told nothing.
        """


class InlineReadings(ReadingExecutor):
    """Reads at once, in the thread that submits: the answer is there when `submit` returns."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock
        self._busy = busy

    def submit(self, jobs: Sequence[ExactJob | RefinedJob], contexts: StepContexts) -> None:
        for job in jobs:
            assert isinstance(job, ExactJob)
            context = contexts.part(job.every)
            result, error, busy = None, None, self._busy()
            with products("ieee"):  # in full float32, whatever steps are computed in
                began = self._clock()
                try:
                    result = job.probe.read(context, job.options, job.memory)
                except Exception as raised:  # the run must outlive a faulty probe
                    error = raised
                seconds = self._clock() - began
            worked = self._busy() - busy
            job.deliver(job, ExactAnswer(contexts, result, error, seconds, worked))

    def cancel(self, job: ExactJob | RefinedJob) -> None: ...

    def latest(self, budget: WatchBudget | None = None) -> bool:
        return False

    def close(self, trouble: str = "") -> bool:
        return False
