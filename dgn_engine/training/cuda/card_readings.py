"""Expensive readings of a network on a card: in slices on the side stream, of a copy of it.

The copy never leaves the card. A reading process has one thread of a CPU and no card: what takes
seconds here would take minutes there.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from concurrent.futures import Future

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

PAUSE = 0.001  # seconds between two slices: who waits for the switch of `products` can have it


class CardReadings:
    """A `WorkerChild` that works on the side stream of a card, in this process.

    All methods belong to the thread that trains; the jobs themselves are touched by the thread of
    the side stream alone, which takes the orders between two slices.
    """

    def __init__(self, side: SideStream, clock: Callable[[], float] = time.monotonic) -> None:
        self._side = side
        self._clock = clock
        self._orders: queue.SimpleQueue[tuple[Order, torch.cuda.Event | None]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._answers.put(ProcessReady())
        self._jobs: dict[int, bool] = {}  # by ticket: whether its first picture is awaited
        self._server = ReadingServer(self._answers.put, all_probes(), clock)
        self._work: Future[float] | None = None
        self._trains = False

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
        """Stop all jobs."""
        for ticket in list(self._jobs):
            self.put(StopJob(ticket))

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
            seconds, self._work = self._work.result(), None
            if budget is not None:
                budget.charge("refinements", seconds)
        if not self._jobs and self._orders.empty():
            return
        if budget is None or budget.in_credit or any(self._jobs.values()):
            self._work = self._side.submit(self._read)

    def _read(self) -> float:
        """Do one slice, or slice after slice while nothing trains.

        Returns:
            The seconds that were taken from training.
        """
        while True:
            began = self._clock()
            while not self._orders.empty():
                order, copied = self._orders.get()
                self._side.wait_for(copied)
                self._server.take(order)
            if not self._server.busy:
                return 0.0
            with products("ieee"):  # whatever steps are computed in
                self._server.work()
            if self._trains or self._side.has_waiting:
                return self._clock() - began if self._trains else 0.0
            time.sleep(PAUSE)
