"""The reading process: reads orders from standard input and runs slices of jobs in turn.

It exits as soon as its input closes, even in the middle of a slice, however its parent ended.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import IO

import torch

from dgn_engine.confinement.child_entry import ignore_group_signals
from dgn_engine.plugins import OptionValue
from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory
from dgn_engine.training.overflow import has_overflowed
from dgn_engine.training.probes import Probe, ProbeContext, ProbeResult, Refinement, all_probes
from dgn_engine.training.readings.reading_jobs import (
    Answer,
    BeginJob,
    JobOver,
    JobSlice,
    Order,
    ProcessReady,
    StopJob,
    unpack_context,
)

NICENESS = 10  # of 19; on Windows the parent starts it below the normal priority
FIRST_MINUTE = 15.0  # processor seconds, loading torch included, at most at normal priority
FEWEST = 8  # probe examples: fewer are not informative


@dataclass
class _SlicedJob:
    order: BeginJob
    context: ProbeContext
    slices: Iterator[Refinement]
    turn: float  # seconds of work; starts at the least of the other jobs
    shown: ProbeResult | None = None
    began: float | None = None  # start of its first slice
    sent: JobSlice | None = None  # its newest slice


def _job_priority(job: _SlicedJob) -> tuple[bool, int, float]:
    """Return the sort key of a job: newest job without a picture first, then least time spent."""
    has_picture = job.shown is not None
    return has_picture, 0 if has_picture else -job.order.key, job.turn


class ReadingServer:
    """The jobs of the reading process.

    Jobs without a picture come first, newest snapshot first; then those with the least time spent.
    """

    def __init__(
        self,
        send: Callable[[Answer], None],
        probes: Mapping[str, Probe],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a server without jobs.

        Args:
            send: Takes the answers; called by the thread that calls the methods.
            probes: Probes by key.
            clock: Returns the seconds by which turns are shared.
        """
        self._send = send
        self._probes = probes
        self._clock = clock
        self._jobs: list[_SlicedJob] = []
        self._running: _SlicedJob | None = None  # until it is told that it compiles

    @property
    def has_jobs(self) -> bool:
        """Return whether there are jobs.

        Returns:
            True until the last job is over or stopped.
        """
        return bool(self._jobs)

    @property
    def awaits_picture(self) -> bool:
        """Return whether a job has no picture yet.

        Returns:
            True while any job has sent no result.
        """
        return any(job.shown is None for job in self._jobs)

    @property
    def awaits_whole_picture(self) -> bool:
        """Return whether a job has no picture of all probe examples yet.

        Returns:
            True while the best result of any job is of fewer.
        """
        return any(
            job.shown is None or 0 < _count_examples(job.shown) < len(job.context.x)
            for job in self._jobs
        )

    def handle_order(self, order: Order) -> None:
        """Carry out an order.

        Args:
            order: Begin or stop jobs.
        """
        if isinstance(order, StopJob):
            self.stop_job(order.ticket)
            self._send(JobOver(order.ticket))
            return
        context = unpack_context(order.network)
        for job in order.jobs:
            self.begin_job(job, context)

    def begin_job(self, order: BeginJob, context: ProbeContext) -> None:
        """Add a job; `run_slice` computes its first slice.

        Args:
            order: What to read.
            context: The probe examples under an unchanging network.
        """
        probe = self._probes[order.probe]
        generator = torch.Generator().manual_seed(order.seed)
        refine = probe.refine or (lambda *given: read_growing_subsets(probe, *given[:2]))
        turn = min((job.turn for job in self._jobs), default=0.0)
        slices = refine(context, order.options, generator)
        self._jobs.append(_SlicedJob(order, context, slices, turn))

    def stop_job(self, ticket: int) -> None:
        """Remove a job without an answer.

        Args:
            ticket: Identifies the job.
        """
        self._jobs = [job for job in self._jobs if job.order.ticket != ticket]

    def run_slice(self) -> None:
        """Compute one slice of the next job and send its answer; requires that there is a job."""
        job = min(self._jobs, key=_job_priority)
        ticket, now = job.order.ticket, self._clock()
        job.began = now if job.began is None else job.began
        self._running = job
        try:
            refinement = next(job.slices, None)
            answer: Answer = (
                JobOver(ticket) if refinement is None else self._slice_answer(job, refinement)
            )
        except Exception as error:  # the process must outlive a faulty probe
            answer = JobOver(ticket, *_describe_error(error, job.context))
        if isinstance(answer, JobSlice):
            job.sent = answer
        else:
            self._jobs.remove(job)
        if self._running is not None:  # else it compiled, which serves all jobs
            job.turn += self._clock() - now
        self._running = None
        self._send(answer)

    def report_compilation(self) -> None:
        """Send that the slice being computed compiles loops; only once, and after a picture."""
        job, self._running = self._running, None
        if job is not None and job.sent is not None:
            self._send(replace(job.sent, result=None, compiles=True))

    def _slice_answer(self, job: _SlicedJob, refinement: Refinement) -> JobSlice:
        new = refinement.result is not job.shown
        job.shown = refinement.result
        result = replace(refinement.result, memory=None) if new else None
        whole, shown = len(job.context.x), _count_examples(refinement.result)
        assert job.began is not None
        return JobSlice(
            job.order.ticket,
            result,
            refinement.done,
            refinement.error,
            shown if 0 < shown < whole else 0,
            self._clock() - job.began,
        )


def read_growing_subsets(
    probe: Probe, context: ProbeContext, options: Mapping[str, OptionValue]
) -> Iterator[Refinement]:
    """Read a probe that has no estimator exactly on 8, 16, 32, … and finally all examples.

    Args:
        probe: The probe.
        context: All probe examples.
        options: Options of the probe.

    Yields:
        One exact reading per subset.
    """
    count = len(context.x)
    strides = [1]
    while count // (2 * strides[0]) >= FEWEST:
        strides.insert(0, 2 * strides[0])
    costs = [probe.cost(context.architecture, -(-count // every)) or 1.0 for every in strides]
    for number, every in enumerate(strides, 1):
        part = context.subsample(every) if every > 1 else context
        result = probe.read(part, options, None)
        part.drop_kernels()
        yield Refinement(result, 1.0 if every == 1 else sum(costs[:number]) / sum(costs))


def _count_examples(result: ProbeResult) -> int:
    """Return how many probe examples a result is of; 0 if it does not say."""
    labels = result.arrays.get("labels")
    return 0 if labels is None else len(labels)


def _describe_error(error: Exception, context: ProbeContext) -> tuple[str, str]:
    """Return why a job failed, as part of a sentence, and the traceback of an unexpected error."""
    overflowed = False
    with contextlib.suppress(Exception):  # a full or failed card may refuse this, too
        if is_out_of_memory(error):
            free_memory()
        else:
            overflowed = has_overflowed(context)
    if is_out_of_memory(error):
        return "not enough memory to refine it further", ""
    if overflowed:
        return "the weights overflowed; undo and lower the learning rate", ""
    return f"it failed ({str(error).rstrip('.') or type(error).__name__})", traceback.format_exc()


class _CompilationHandler(logging.Handler):
    """Reports compilations that `slab_loops` logs. Its threads work while the main one waits."""

    def __init__(self, server: ReadingServer) -> None:
        super().__init__()
        self._server = server

    def emit(self, record: logging.LogRecord) -> None:
        self._server.report_compilation()


def _read_orders(orders: IO[bytes], inbox: queue.SimpleQueue[Order]) -> None:
    """Pass on the parent's orders; exit when it is gone."""
    while True:
        try:
            inbox.put(pickle.load(orders))
        except Exception:  # closed, or cut off in the middle of a message
            os._exit(0)


def main() -> None:
    """Serve until the input closes; lower the priority once all have a picture of all examples."""
    ignore_group_signals()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep prints of libraries out of the answers
    inbox: queue.SimpleQueue[Order] = queue.SimpleQueue()
    listener = threading.Thread(target=_read_orders, args=(sys.stdin.buffer, inbox), daemon=True)
    listener.start()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)

    def send_answer(answer: Answer) -> None:
        pickle.dump(answer, answers, protocol=5)
        answers.flush()

    server = ReadingServer(send_answer, all_probes())
    compilations = logging.getLogger("dgn_engine.kernels.slab_loops")
    compilations.setLevel(logging.DEBUG)
    compilations.addHandler(_CompilationHandler(server))
    send_answer(ProcessReady())
    nice = False
    while True:
        while not server.has_jobs or not inbox.empty():
            server.handle_order(inbox.get())
        server.run_slice()
        if nice or server.awaits_picture:
            continue
        if time.process_time() > FIRST_MINUTE or not server.awaits_whole_picture:
            nice = True
            if hasattr(os, "nice"):
                os.nice(NICENESS)


if __name__ == "__main__":
    main()
