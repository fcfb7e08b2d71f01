"""The engine's side of the reading process: starts it, gives it jobs, hears of them, ends it."""

from __future__ import annotations

import itertools
import pickle
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dgn_engine.confinement.child_process import (
    PIPE,
    ChildProcess,
    describe_end,
    module_command,
    one_thread,
    own_folder,
    python_environment,
)
from dgn_engine.plugins import OptionValue
from dgn_engine.training.reading_process.reading_messages import (
    Answer,
    BeginJob,
    DropSnapshot,
    JobOver,
    JobSlice,
    Listener,
    LoadSnapshot,
    NetworkSnapshot,
    Order,
    ProcessReady,
    StopJob,
)

LEAVE = 1.0  # seconds that a process has to end after its last word
ENDS = {-9: "it was killed, as a system does that runs out of memory"}
STOP_PATIENCE = 3.0  # seconds that a slice may go on after its job was stopped


class WorkerChild(Protocol):
    """A process that takes orders and answers; `ended`: how it did, '' while it lives."""

    def put(self, order: Order) -> None: ...
    def take(self) -> list[Answer]: ...
    @property
    def ended(self) -> str: ...
    def kill(self) -> None: ...


class ReadingProcess:
    """A child with two threads that carry messages, so that nobody waits for a pipe."""

    def __init__(self) -> None:
        """Raises `OSError` where no process can be started."""
        self._process = ChildProcess(
            module_command("dgn_engine.training.reading_process.reading_child"),
            environment=python_environment() | one_thread(),
            folder=own_folder(),
            stdin=PIPE,
            own_group=False,
            lower_by=0,
        )
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._ended = ""
        self._threads = [
            threading.Thread(target=target, name="dgn-reading", daemon=True)
            for target in (self._write, self._read)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def put(self, order: Order) -> None:
        self._orders.put(order)

    def take(self) -> list[Answer]:
        found: list[Answer] = []
        while not self._ended and not self._answers.empty():
            answer = self._answers.get()
            if answer is None:
                # It closed its output, or sent what is no message: it may end by itself.
                self._process.wait(LEAVE)
                self._finish()
                self._ended = describe_end(self._process.code, ENDS)
            else:
                found.append(answer)
        return found

    @property
    def ended(self) -> str:
        return self._ended

    def kill(self) -> None:
        """End it at once; it has nothing to lose."""
        self._finish()
        self._ended = self._ended or "it was ended"

    def _finish(self) -> None:
        self._process.kill()
        self._orders.put(None)
        for thread in self._threads:
            thread.join()
        self._process.close()

    def _write(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                pickle.dump(order, self._process.stdin, protocol=5)
                self._process.stdin.flush()
            except (OSError, ValueError):
                return  # `_read` finds it ended

    def _read(self) -> None:
        try:
            while True:
                self._answers.put(pickle.load(self._process.stdout))
        except Exception:  # closed, or cut off in the middle of a message
            self._answers.put(None)


@dataclass
class _Ordered:
    order: BeginJob
    snapshot: NetworkSnapshot
    listener: Listener
    stopped: float | None = None  # when it was told to stop


class ReadingWorker:
    """At most one process, started for its first job or when it is warmed up.

    `trouble`: why none can be started, as a part of a sentence; '' where one can. `in_process`:
    what `start` gives is no process but works in this one.
    """

    def __init__(
        self,
        start: Callable[[], WorkerChild] = ReadingProcess,
        clock: Callable[[], float] = time.monotonic,
        in_process: bool = False,
    ) -> None:
        self.in_process = in_process
        self._start = start
        self._clock = clock
        self._child: WorkerChild | None = None
        self._ready = False
        self._loaded: set[int] = set()
        self._jobs: dict[int, _Ordered] = {}
        self._tickets = itertools.count(1)
        self.trouble = ""

    def start_with(self, start: Callable[[], WorkerChild], in_process: bool) -> None:
        """From now on, start children so; jobs of the one before are forgotten."""
        self.close()
        self._start, self.in_process, self.trouble = start, in_process, ""

    def warm(self) -> bool:
        """Have a process; whether there is one."""
        if self._child is None and not self.trouble:
            try:
                self._child, self._ready = self._start(), False
            except OSError as error:
                self.trouble = f"no process could be started for it ({error.strerror or error})"
        return self._child is not None

    def rest(self) -> None:
        """End a process that has nothing to do; another one is started for the next job."""
        if not self._jobs:
            self.close()

    def begin(
        self,
        snapshot: NetworkSnapshot,
        probe: str,
        options: Mapping[str, OptionValue],
        seed: int,
        listener: Listener,
        first: bool = False,
    ) -> int:
        """Begin a job and return its ticket; `listener` hears of it from `poll`. `first`: nothing
        of this network is shown for the probe yet."""
        ticket = next(self._tickets)
        order = BeginJob(ticket, snapshot.key, probe, dict(options), seed, first)
        self._jobs[ticket] = _Ordered(order, snapshot, listener)
        self.warm()
        self._send(self._jobs[ticket])
        return ticket

    def stop(self, ticket: int) -> None:
        """Stop a job; its listener hears nothing any more."""
        job = self._jobs.get(ticket)
        if job is not None and job.stopped is None:
            job.stopped = self._clock()
            if self._child is not None:
                self._child.put(StopJob(ticket))

    def poll(self) -> bool:
        """Hand on what was answered; whether there was anything. Called between two steps."""
        child = self._child
        if child is None:
            return self._lost(self.trouble) if self.trouble and self._jobs else False
        answers = child.take()
        for answer in answers:
            self._hear(answer)
        if child.ended:
            self._child = None
            self._loaded.clear()
            if not self._ready:
                self.trouble = f"the process for it did not start ({child.ended})"
            self._lost(self.trouble or f"the process for it ended ({child.ended})")
            return True
        now = self._clock()
        stuck = [job for job in self._jobs.values() if job.stopped is not None]
        if any(now - (job.stopped or 0.0) > STOP_PATIENCE for job in stuck):
            self._replace(child)
        return bool(answers)

    def end_jobs(self, trouble: str) -> bool:
        """End the child; each job is over for this reason. Returns whether there was a job."""
        if self._child is not None:
            self._child.kill()
            self._child = None
        self._loaded.clear()
        return self._lost(trouble)

    def close(self) -> None:
        """End the process; nobody hears of its jobs."""
        self._jobs.clear()
        self._loaded.clear()
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _send(self, job: _Ordered) -> None:
        child, snapshot = self._child, job.snapshot
        if child is None:
            return  # `poll` says so
        if snapshot.key not in self._loaded:
            self._loaded.add(snapshot.key)
            child.put(LoadSnapshot(snapshot.key, snapshot.content))
        child.put(job.order)

    def _hear(self, answer: Answer) -> None:
        if isinstance(answer, ProcessReady):
            self._ready = True
            return
        job = self._jobs.get(answer.ticket)
        if job is None:
            return
        if isinstance(answer, JobOver):
            del self._jobs[answer.ticket]
            self._drop(job.snapshot.key)
        if job.stopped is None:
            job.listener(answer)

    def _drop(self, key: int) -> None:
        """Forget a snapshot that no job needs any more."""
        if self._child is None or any(job.snapshot.key == key for job in self._jobs.values()):
            return
        self._loaded.discard(key)
        self._child.put(DropSnapshot(key))

    def _lost(self, how: str) -> bool:
        """Every job is over, and says how."""
        jobs, self._jobs = self._jobs, {}
        for ticket, job in jobs.items():
            if job.stopped is None:
                job.listener(JobOver(ticket, how))
        return bool(jobs)

    def _replace(self, child: WorkerChild) -> None:
        """A stopped job does not come to its end: another process does what the others want."""
        child.kill()
        self._child = None
        self._loaded.clear()
        self._jobs = {t: job for t, job in self._jobs.items() if job.stopped is None}
        if self._jobs and self.warm():
            for job in self._jobs.values():
                self._send(job)


__all__ = ["JobOver", "JobSlice", "ReadingProcess", "ReadingWorker", "WorkerChild"]
