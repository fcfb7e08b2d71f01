"""Executors of probe readings: the interface and the inline implementation."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from dgn_engine.kernels.precision import float32_products
from dgn_engine.training.readings.reading_jobs import (
    ExactAnswer,
    ExactJob,
    RefinedJob,
    StepContexts,
)
from dgn_engine.training.readings.watch_budget import WatchBudget


class ReadingExecutor(ABC):
    """Executor of probe readings, shared by several schedules and chosen when a run starts.

    Threads: every method is called by the training thread. Answers are delivered in that thread,
    from within `submit` or `deliver_answers` (or `close`, if it gives a reason), and never after
    `cancel`, so users of an executor need no lock. What another thread or process reads is a copy
    of the network, made before `submit` returns; probe examples and labels are shared and must not
    be written to. `submit` and `deliver_answers` never wait for another thread, process or card.
    `cancel` waits for an exact reading that another thread has begun, `close` for whatever another
    thread is doing.

    Attributes:
        refines: Whether it accepts `RefinedJob`.
        reads_aside: Whether it accepts `ExactJob` that training does not wait for.
        shares_memory: Whether its memory is the one that training needs.
        trouble: Why it cannot refine although it should, as part of a sentence; '' otherwise.
    """

    refines = False
    reads_aside = False
    shares_memory = False
    trouble = ""

    @abstractmethod
    def submit(self, jobs: Sequence[ExactJob | RefinedJob], contexts: StepContexts) -> None:
        """Start reading the network as it is now.

        Args:
            jobs: What to read.
            contexts: The probe examples under the current network.
        """

    @abstractmethod
    def cancel(self, job: ExactJob | RefinedJob) -> None:
        """Cancel a job; nothing is delivered for it any more.

        Args:
            job: A job; ignored if it is over or was never submitted.
        """

    @abstractmethod
    def deliver_answers(self, budget: WatchBudget | None = None) -> bool:
        """Deliver new answers, and continue work that this thread has to do itself.

        Args:
            budget: Budget of the run that trains meanwhile and pays for the work; None if nothing
                trains or the caller pays.

        Returns:
            Whether anything was delivered.
        """

    @abstractmethod
    def close(self, trouble: str = "") -> bool:
        """End all refined jobs and free their memory; a later `submit` starts afresh.

        Args:
            trouble: Reason delivered to each job, as part of a sentence; '' to deliver nothing.

        Returns:
            Whether there were jobs.
        """


class InlineReadings(ReadingExecutor):
    """Executor in the calling thread: the answer is delivered before `submit` returns."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
    ) -> None:
        """Create the executor.

        Args:
            clock: Returns wall seconds.
            busy: Returns seconds the calling thread has worked.
        """
        self._clock = clock
        self._busy = busy

    def submit(self, jobs: Sequence[ExactJob | RefinedJob], contexts: StepContexts) -> None:
        """Read the probes now, in full float32, whatever the precision of training.

        Args:
            jobs: Exact jobs.
            contexts: The probe examples under the current network.
        """
        for job in jobs:
            assert isinstance(job, ExactJob)
            context = contexts.thinned_context(job.every)
            result, error, busy = None, None, self._busy()
            with float32_products("ieee"):
                began = self._clock()
                try:
                    result = job.probe.read(context, job.options, job.memory)
                except Exception as raised:  # the run must outlive a faulty probe
                    error = raised
                seconds = self._clock() - began
            worked = self._busy() - busy
            job.deliver(job, ExactAnswer(contexts, result, error, seconds, worked))

    def cancel(self, job: ExactJob | RefinedJob) -> None:
        """Do nothing: no job outlives `submit`.

        Args:
            job: Ignored.
        """
        ...

    def deliver_answers(self, budget: WatchBudget | None = None) -> bool:
        """Do nothing: answers are delivered by `submit`.

        Args:
            budget: Ignored.

        Returns:
            False.
        """
        return False

    def close(self, trouble: str = "") -> bool:
        """Do nothing: there are no refined jobs.

        Args:
            trouble: Ignored.

        Returns:
            False.
        """
        return False
