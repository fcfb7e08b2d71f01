"""Expensive readings of a network on a card: in slices on the side stream, of a copy of it.

The copy never leaves the card. A reading process has one thread of a CPU and no card: what takes
seconds here would take minutes there.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, wait

import torch

from dgn_engine.kernels.precision import products
from dgn_engine.training.cuda.side_stream import SideStream
from dgn_engine.training.probes import all_probes
from dgn_engine.training.reading_process.reading_child import ReadingServer
from dgn_engine.training.reading_process.reading_messages import (
    Answer,
    BeginJob,
    JobOver,
    JobSlice,
    LoadSnapshot,
    Order,
    ProcessReady,
    StopJob,
)
from dgn_engine.training.watch_budget import WatchBudget


class CardReadings:
    """A `WorkerChild` that works on the side stream of a card, in this process.

    All methods belong to the thread that trains; the jobs themselves are touched by the thread of
    the side stream alone, which takes the orders between two slices.
    """

    def __init__(self, side: SideStream, clock: Callable[[], float] = time.monotonic) -> None:
        self._side = side
        self._clock = clock
        # With the event of the copy of the network that is to be waited for.
        self._orders: queue.SimpleQueue[tuple[Order, torch.cuda.Event | None]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._answers.put(ProcessReady())
        self._jobs: dict[int, bool] = {}  # by ticket: whether its first picture is awaited
        self._server = self._new_server()
        self._work: Future[float] | None = None
        self._took, self._ended = 0.0, clock()  # the last slice: its seconds, and when it ended
        self._trains = False

    def _new_server(self) -> ReadingServer:
        return ReadingServer(self._answers.put, all_probes(), self._clock)

    # As a `WorkerChild`

    @property
    def ended(self) -> str:
        return ""

    def put(self, order: Order) -> None:
        """Take an order; a job that is stopped is over at once, though its slice may go on."""
        copied = None
        match order:
            case LoadSnapshot():
                copied = self._side.record_event()
            case BeginJob(ticket):
                self._jobs[ticket] = order.first
            case StopJob(ticket):
                self._jobs.pop(ticket, None)
                self._answers.put(JobOver(ticket))
        self._orders.put((order, copied))

    def take(self) -> list[Answer]:
        """Return the answers since the last time, without slices of jobs that were stopped."""
        answers: list[Answer] = []
        while not self._answers.empty():
            answer = self._answers.get()
            if isinstance(answer, JobSlice):
                if answer.ticket not in self._jobs:
                    continue
                self._jobs[answer.ticket] &= answer.result is None
            elif isinstance(answer, JobOver):
                self._jobs.pop(answer.ticket, None)
            answers.append(answer)
        return answers

    def kill(self) -> None:
        """End all jobs and let go of their networks, after the slice in hand."""
        self._trains = True  # no other slice follows it
        if self._work is not None:
            wait([self._work])
            self._work = None
        self._forget()

    def _forget(self) -> None:
        """Drop jobs, orders and networks while the thread of the side stream is idle."""
        self._jobs.clear()
        while not self._orders.empty():
            self._orders.get()
        self._server = self._new_server()

    # Beside training

    def advance(self, budget: WatchBudget | None) -> None:
        """Charge the slice that has ended, and begin the next one if it may.

        Args:
            budget: That of the run which trains on the same card, whose time a slice takes; first
                pictures are made on credit. None where nothing trains: slices follow each other.
        """
        self._trains = budget is not None
        if self._work is not None:
            if not self._work.done():
                return
            work, self._work = self._work, None
            self._charge(work, budget)
        if self._jobs and self._may_begin(budget):
            self._work = self._side.submit(self._read)
        elif not self._orders.empty():
            self._work = self._side.submit(self._take_orders)

    def _charge(self, work: Future[float], budget: WatchBudget | None) -> None:
        try:
            seconds = work.result()
        except Exception as error:  # not of a probe, for which the server answers
            trouble = f"it failed ({str(error).rstrip('.') or type(error).__name__})"
            details = "".join(traceback.format_exception(error))
            for ticket in self._jobs:
                self._answers.put(JobOver(ticket, trouble, details))
            self._forget()
            return
        if seconds:
            self._took, self._ended = seconds, self._clock()
            if budget is not None:
                budget.charge("refinements", seconds)

    def _may_begin(self, budget: WatchBudget | None) -> bool:
        if budget is None or any(self._jobs.values()):
            return True
        return budget.may_refine(self._took, self._clock() - self._ended)

    # In the thread of the side stream

    def _take_orders(self) -> float:
        while not self._orders.empty():
            order, copied = self._orders.get()
            self._side.wait_for(copied)
            self._server.take(order)
        return 0.0

    def _read(self) -> float:
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
