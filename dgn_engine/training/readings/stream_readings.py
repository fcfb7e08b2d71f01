"""Read a network on its card alongside training, on a separate stream and from a copy.

The copy never leaves the card. Expensive readings are computed in slices, as in the reading
process; one CPU thread there would take minutes for what takes seconds here. On a CPU, for tests,
only the stream is missing.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch

from dgn_engine.kernels.precision import float32_products
from dgn_engine.training.probes import Probe, ProbeContext, all_probes
from dgn_engine.training.readings.reading_child import ReadingServer
from dgn_engine.training.readings.reading_executor import InlineReadings, ReadingExecutor
from dgn_engine.training.readings.reading_jobs import (
    Answer,
    BeginJob,
    ExactAnswer,
    ExactJob,
    JobOver,
    JobSlice,
    RefinedJob,
    StepContexts,
)
from dgn_engine.training.readings.watch_budget import WatchBudget

T = TypeVar("T")


class SideStream:
    """A stream beside the training stream, and the one thread that works on it.

    Work runs one piece after another in order of submission, so that light and heavy readings never
    compete for the card.
    """

    def __init__(self, device: torch.device) -> None:
        """Create the stream; the thread starts with the first work.

        Args:
            device: Device of the networks; without a stream on a CPU.
        """
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's stub
        self._thread: ThreadPoolExecutor | None = None
        self._newest: Future[Any] | None = None

    def record_event(self) -> torch.cuda.Event | None:
        """Record what the calling thread has queued so far.

        Returns:
            An event for `wait_for`; None on a CPU.
        """
        if self._stream is None:
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's stub
        event.record(torch.cuda.current_stream(self._device))
        return event

    def wait_for(self, event: torch.cuda.Event | None) -> None:
        """Make all work queued here from now on wait for an event.

        Args:
            event: From `record_event`; None is ignored.
        """
        if self._stream is not None and event is not None:
            self._stream.wait_event(event)

    def synchronize(self) -> None:
        """Wait until the card has done all work of this stream."""
        if self._stream is not None:
            with contextlib.suppress(RuntimeError):  # the training thread gets the same error
                self._stream.synchronize()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run work in the side thread.

        Args:
            work: Queues kernels on the side stream and returns a result.

        Returns:
            Resolves when the card is done as well.
        """

        def on_the_side() -> T:
            if self._stream is None:
                return work()
            with torch.cuda.stream(self._stream):
                try:
                    return work()
                finally:
                    self.synchronize()

        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="dgn-card-readings")
        future = self._thread.submit(on_the_side)
        self._newest = future
        return future

    @property
    def has_waiting(self) -> bool:
        """Return whether submitted work has not started yet.

        Returns:
            True if the newest piece of work is still queued.
        """
        newest = self._newest
        return newest is not None and not (newest.running() or newest.done())

    def close(self) -> None:
        """Finish the submitted work and end the thread; later work starts another."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None


class StreamReadings(ReadingExecutor):
    """Executor on a side stream of the card, in this process.

    Only the side thread touches refined jobs; it takes orders between slices. Exact readings are
    delivered together once the last of them is done.
    """

    refines = True
    reads_aside = True
    shares_memory = True

    def __init__(
        self,
        device: torch.device,
        clock: Callable[[], float] = time.monotonic,
        probes: Mapping[str, Probe] | None = None,
    ) -> None:
        """Create the executor; its thread starts with the first work.

        Args:
            device: Device of the networks.
            clock: Returns wall seconds.
            probes: Probes by key; all if None.
        """
        self._probes = all_probes() if probes is None else dict(probes)
        self._side = SideStream(device)
        self._clock = clock
        self._exact: list[tuple[ExactJob, Future[ExactAnswer]]] = []
        self._jobs: dict[int, RefinedJob] = {}
        self._awaited: set[int] = set()  # tickets of jobs whose first picture is awaited
        # Jobs to begin, after the event of their network's copy, or tickets to stop.
        self._orders: queue.SimpleQueue[
            tuple[BeginJob, ProbeContext, torch.cuda.Event | None] | int
        ] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._server = self._new_server()
        self._work: Future[float] | None = None
        self._took, self._ended = 0.0, clock()  # duration and end of the last slice
        self._trains = False

    def _new_server(self) -> ReadingServer:
        return ReadingServer(self._answers.put, self._probes, self._clock)

    def submit(self, jobs: Sequence[ExactJob | RefinedJob], contexts: StepContexts) -> None:
        """Copy the network and queue the jobs.

        Args:
            jobs: Exact or refined jobs.
            contexts: The probe examples under the current network.
        """
        copied = contexts.copy_network()
        for job in jobs:
            if isinstance(job, ExactJob):
                copied.thinned_context(job.every)
        event = self._side.record_event()
        for job in jobs:
            if isinstance(job, ExactJob):
                work = partial(self._read_exactly, job, copied, event)
                self._exact.append((job, self._side.submit(work)))
                continue
            self._jobs[job.ticket] = job
            if job.first:
                self._awaited.add(job.ticket)
            self._orders.put((job.order_for(contexts), copied.whole, event))

    def cancel(self, job: ExactJob | RefinedJob) -> None:
        """Cancel a job; wait for an exact job that is already running.

        Args:
            job: A submitted job; others are ignored.
        """
        if isinstance(job, RefinedJob):
            if self._jobs.pop(job.ticket, None) is not None:
                self._awaited.discard(job.ticket)
                self._orders.put(job.ticket)
            return
        for pair in [pair for pair in self._exact if pair[0] is job]:
            self._exact.remove(pair)
            if not pair[1].cancel():
                wait([pair[1]])

    def deliver_answers(self, budget: WatchBudget | None = None) -> bool:
        """Deliver answers, charge the finished slice, and start the next if the budget allows.

        First pictures are computed on credit. While nothing trains, slices follow each other.

        Args:
            budget: Budget of the training run; None if nothing trains.

        Returns:
            Whether anything was delivered.
        """
        exact = self._deliver_exact()
        self._advance_work(budget)
        return self._deliver_slices() or exact

    def close(self, trouble: str = "") -> bool:
        """End all refined jobs, and the thread after its current slice.

        Args:
            trouble: Reason delivered to the jobs, as part of a sentence; '' to deliver nothing.

        Returns:
            Whether there were jobs.
        """
        self._trains = True  # so that no slice follows the current one
        self._side.close()
        self._work = None
        self._forget_networks()
        jobs, self._jobs = self._jobs, {}
        for ticket, job in jobs.items() if trouble else ():
            job.deliver(JobOver(ticket, trouble))
        return bool(jobs)

    def _forget_networks(self) -> None:
        """Drop the begun, queued and answered jobs; the side thread must be idle."""
        self._server = self._new_server()
        self._awaited.clear()
        while not self._orders.empty():
            self._orders.get()
        while not self._answers.empty():
            self._answers.get()

    def _deliver_exact(self) -> bool:
        if not all(future.done() for _, future in self._exact):
            return False
        exact, self._exact = self._exact, []
        for job, future in exact:
            job.deliver(job, future.result())
        return any(job.is_wanted for job, _ in exact)

    def _deliver_slices(self) -> bool:
        delivered = False
        while not self._answers.empty():
            answer = self._answers.get()
            assert isinstance(answer, (JobSlice, JobOver))
            job = self._jobs.get(answer.ticket)
            if job is None:
                continue
            if isinstance(answer, JobOver):
                del self._jobs[answer.ticket]
            if isinstance(answer, JobOver) or answer.result is not None:
                self._awaited.discard(answer.ticket)
            job.deliver(answer)
            delivered = True
        return delivered

    def _advance_work(self, budget: WatchBudget | None) -> None:
        self._trains = budget is not None
        if self._work is not None:
            if not self._work.done():
                return
            work, self._work = self._work, None
            if not self._charge_slice(work, budget):
                return
        if self._jobs and self._may_begin(budget):
            self._work = self._side.submit(self._run_slices)
        elif not self._orders.empty():
            self._work = self._side.submit(self._take_orders)

    def _charge_slice(self, work: Future[float], budget: WatchBudget | None) -> bool:
        """Charge a finished slice; return False if it failed, which ends all jobs."""
        try:
            seconds = work.result()
        except Exception as error:  # probe errors are answered by the server
            trouble = f"it failed ({str(error).rstrip('.') or type(error).__name__})"
            details = "".join(traceback.format_exception(error))
            self._forget_networks()
            for ticket in self._jobs:
                self._answers.put(JobOver(ticket, trouble, details))
            return False
        if seconds:
            self._took, self._ended = seconds, self._clock()
            if budget is not None:
                budget.charge("refinements", seconds)
        return True

    def _may_begin(self, budget: WatchBudget | None) -> bool:
        if budget is None or self._awaited:
            return True
        return budget.may_refine(self._took, self._clock() - self._ended)

    # In the thread of the side stream

    def _read_exactly(
        self, job: ExactJob, contexts: StepContexts, copied: torch.cuda.Event | None
    ) -> ExactAnswer:
        self._side.wait_for(copied)
        answers: list[ExactAnswer] = []
        inline = InlineReadings(self._clock, self._clock)
        inline.submit([replace(job, deliver=lambda _, answer: answers.append(answer))], contexts)
        return replace(answers[0], aside=True)

    def _take_orders(self) -> float:
        while not self._orders.empty():
            order = self._orders.get()
            if isinstance(order, int):
                self._server.stop_job(order)
            else:
                self._side.wait_for(order[2])
                self._server.begin_job(order[0], order[1])
        return 0.0

    def _run_slices(self) -> float:
        """Compute one slice, or slice after slice while nothing trains.

        Returns:
            Seconds taken from training.
        """
        while True:
            self._take_orders()
            if not self._server.has_jobs:
                return 0.0
            with float32_products("ieee"):  # whatever the precision of training
                began = self._clock()
                self._server.run_slice()
                self._side.synchronize()
                seconds = self._clock() - began
            if self._trains:
                return seconds
            if self._side.has_waiting or not threading.main_thread().is_alive():
                return 0.0
