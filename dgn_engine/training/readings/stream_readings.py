"""Readings of a network on a card, beside its training: on a stream of their own, of a copy.

The copy never leaves the card. Expensive readings are made in slices, as in a reading process; that
has one thread of a CPU and no card: what takes seconds here would take minutes there. On a CPU,
where tests use it, only the stream is missing.
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

from dgn_engine.kernels.precision import products
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
    """A stream beside the one that trains, and the one thread that works on it.

    It does one piece of work after another, in the order in which they came, so that light and
    heavy readings never compete with each other for the card.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's stub
        self._thread: ThreadPoolExecutor | None = None
        self._newest: Future[Any] | None = None

    def record_event(self) -> torch.cuda.Event | None:
        """Return an event of all that the calling thread has queued so far; None on a CPU."""
        if self._stream is None:
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's stub
        event.record(torch.cuda.current_stream(self._device))
        return event

    def wait_for(self, event: torch.cuda.Event | None) -> None:
        """Let what is queued here from now on come after this event."""
        if self._stream is not None and event is not None:
            self._stream.wait_event(event)

    def synchronize(self) -> None:
        if self._stream is not None:
            with contextlib.suppress(RuntimeError):  # the thread that trains meets the same fault
                self._stream.synchronize()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Do this work on the side; it is done when the card is."""

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
        newest = self._newest
        return newest is not None and not (newest.running() or newest.done())

    def close(self) -> None:
        """End the thread; what was submitted is finished first. Later work has another thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None


class StreamReadings(ReadingExecutor):
    """Works on the side stream of a card, in this process.

    Refined jobs are touched by the thread of the side stream alone, which takes orders between two
    slices. Exact readings are delivered together, when the last of them is there.
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
        self._probes = all_probes() if probes is None else dict(probes)
        self._side = SideStream(device)
        self._clock = clock
        self._exact: list[tuple[ExactJob, Future[ExactAnswer]]] = []
        self._jobs: dict[int, RefinedJob] = {}
        self._awaited: set[int] = set()  # tickets of jobs whose first picture is awaited
        # What to begin, after the event of the copy of its network, or to stop.
        self._orders: queue.SimpleQueue[
            tuple[BeginJob, ProbeContext, torch.cuda.Event | None] | int
        ] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._server = self._new_server()
        self._work: Future[float] | None = None
        self._took, self._ended = 0.0, clock()  # the last slice: its seconds, and when it ended
        self._trains = False

    def _new_server(self) -> ReadingServer:
        return ReadingServer(self._answers.put, self._probes, self._clock)

    def submit(self, jobs: Sequence[ExactJob | RefinedJob], contexts: StepContexts) -> None:
        copied = contexts.copy_network()
        for job in jobs:
            if isinstance(job, ExactJob):
                copied.part(job.every)
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
        if isinstance(job, RefinedJob):
            if self._jobs.pop(job.ticket, None) is not None:
                self._awaited.discard(job.ticket)
                self._orders.put(job.ticket)
            return
        for pair in [pair for pair in self._exact if pair[0] is job]:
            self._exact.remove(pair)
            if not pair[1].cancel():
                wait([pair[1]])

    def latest(self, budget: WatchBudget | None = None) -> bool:
        """Deliver what was made, charge the slice that has ended, and begin the next if it may.

        First pictures are made on credit. Where nothing trains, slices follow each other.
        """
        exact = self._deliver_exact()
        self._advance(budget)
        return self._deliver_slices() or exact

    def close(self, trouble: str = "") -> bool:
        """End all refined jobs, and the thread, after the slice that it is at."""
        self._trains = True  # no other slice follows it
        self._side.close()
        self._work = None
        self._forget_networks()
        jobs, self._jobs = self._jobs, {}
        for ticket, job in jobs.items() if trouble else ():
            job.deliver(JobOver(ticket, trouble))
        return bool(jobs)

    def _forget_networks(self) -> None:
        """Drop what the idle thread of the side stream has begun, is to begin, and has made."""
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

    def _advance(self, budget: WatchBudget | None) -> None:
        self._trains = budget is not None
        if self._work is not None:
            if not self._work.done():
                return
            work, self._work = self._work, None
            if not self._charge(work, budget):
                return
        if self._jobs and self._may_begin(budget):
            self._work = self._side.submit(self._refine)
        elif not self._orders.empty():
            self._work = self._side.submit(self._take_orders)

    def _charge(self, work: Future[float], budget: WatchBudget | None) -> bool:
        """Have training pay for a slice; False where it failed, and all jobs are over."""
        try:
            seconds = work.result()
        except Exception as error:  # not of a probe, for which the server answers
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
        inline.submit([replace(job, deliver=lambda _, made: answers.append(made))], contexts)
        return replace(answers[0], aside=True)

    def _take_orders(self) -> float:
        while not self._orders.empty():
            order = self._orders.get()
            if isinstance(order, int):
                self._server.stop(order)
            else:
                self._side.wait_for(order[2])
                self._server.begin(order[0], order[1])
        return 0.0

    def _refine(self) -> float:
        """Do one slice, or slice after slice while nothing trains.

        Returns:
            The seconds that were taken from training.
        """
        while True:
            self._take_orders()
            if not self._server.busy:
                return 0.0
            with products("ieee"):  # whatever steps are computed in
                began = self._clock()
                self._server.work()
                self._side.synchronize()
                seconds = self._clock() - began
            if self._trains:
                return seconds
            if self._side.has_waiting or not threading.main_thread().is_alive():
                return 0.0
