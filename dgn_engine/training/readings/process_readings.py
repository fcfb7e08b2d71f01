"""Run expensive probes in a low-priority process, in slices that do not hold up training."""

from __future__ import annotations

import errno
import pickle
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dgn_engine.confinement.child_process import (
    PIPE,
    ChildProcess,
    describe_end,
    module_command,
    one_thread,
    own_folder,
    python_environment,
)
from dgn_engine.training.readings.first_slices import compute_first_slices
from dgn_engine.training.readings.reading_executor import ReadingExecutor
from dgn_engine.training.readings.reading_jobs import (
    Answer,
    BeginJob,
    BeginJobs,
    ExactJob,
    JobOver,
    Order,
    ProcessReady,
    RefinedJob,
    StepContexts,
    StopJob,
    pack_context,
)
from dgn_engine.training.readings.watch_budget import WatchBudget

LEAVE = 1.0  # seconds a process has to exit after closing its output
STOP_PATIENCE = 3.0  # seconds a slice may keep running after its job was stopped
_ENDS = {-9: "it was killed, probably because the system ran out of memory"}


class ReadingProcess:
    """A child process with one thread that sends orders and one that receives answers.

    The methods run in the training thread and never wait for a pipe.
    """

    def __init__(self) -> None:
        """Start the process and its threads.

        Raises:
            OSError: No process or thread can be started.
        """
        self._process = ChildProcess(
            module_command("dgn_engine.training.readings.reading_child"),
            environment=python_environment() | one_thread(),
            folder=own_folder(),
            stdin=PIPE,
            own_group=False,
            lower_by=0,
        )
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self.ended = ""  # how the process ended; '' while it runs
        self._threads = [
            threading.Thread(target=target, name="dgn-reading", daemon=True)
            for target in (self._write_orders, self._read_answers)
        ]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:  # no more threads available
            self._orders.put(None)
            self._process.kill()
            self._process.close()
            raise OSError(errno.EAGAIN, str(error)) from None

    @property
    def pid(self) -> int:
        """Return the process id.

        Returns:
            As the system knows it.
        """
        return self._process.pid

    def send_order(self, order: Order) -> None:
        """Queue an order for the process.

        Args:
            order: Begin or stop jobs.
        """
        self._orders.put(order)

    def take_answers(self) -> list[Answer]:
        """Return the answers received so far, without waiting.

        Returns:
            In order of arrival; `ended` is set once the process has ended.
        """
        answers: list[Answer] = []
        while not self.ended and not self._answers.empty():
            answer = self._answers.get()
            if answer is None:
                # It closed its output or sent garbage: give it a moment to exit.
                self._process.wait(LEAVE)
                self._end_process()
                self.ended = describe_end(self._process.exit_code, _ENDS)
            else:
                answers.append(answer)
        return answers

    def kill(self) -> None:
        """Kill the process; it holds nothing worth saving."""
        self._end_process()
        self.ended = self.ended or "it was terminated"

    def _end_process(self) -> None:
        self._process.kill()
        self._orders.put(None)
        for thread in self._threads:
            thread.join()
        self._process.close()

    def _write_orders(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                pickle.dump(order, self._process.stdin, protocol=5)
                self._process.stdin.flush()
            except (OSError, ValueError):
                return  # `_read_answers` notices that it ended

    def _read_answers(self) -> None:
        try:
            while True:
                self._answers.put(pickle.load(self._process.stdout))
        except Exception:  # closed, or cut off in the middle of a message
            self._answers.put(None)


@dataclass
class _OrderedJob:
    job: RefinedJob
    order: BeginJob
    network: bytes
    stopped: float | None = None  # when it was asked to stop


class ProcessReadings(ReadingExecutor):
    """Executor with at most one process, started by its first job or by `start`."""

    refines = True

    def __init__(
        self,
        start: Callable[[], ReadingProcess] = ReadingProcess,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an executor without a process.

        Args:
            start: Starts a process.
            clock: Returns wall seconds.
        """
        self._new_process = start
        self._clock = clock
        self._process: ReadingProcess | None = None
        self._ready = False
        self._jobs: dict[int, _OrderedJob] = {}

    def start(self) -> bool:
        """Start the process unless there is one.

        Returns:
            Whether there is a process; if not, `trouble` says why.
        """
        if self._process is None and not self.trouble:
            try:
                self._process, self._ready = self._new_process(), False
            except OSError as error:
                self.trouble = (
                    f"the reading process could not be started ({error.strerror or error})"
                )
        return self._process is not None

    def end_unless_used(self) -> None:
        """End the process if no answer is awaited; the next job starts another."""
        if all(job.stopped is not None for job in self._jobs.values()):
            self.close()

    def submit(self, jobs: Sequence[ExactJob | RefinedJob], contexts: StepContexts) -> None:
        """Send the jobs with a packed copy of the network, and deliver quick first slices now.

        Args:
            jobs: Refined jobs.
            contexts: The probe examples under the current network.
        """
        network, orders = pack_context(contexts.whole), list[BeginJob]()
        refined = [job for job in jobs if isinstance(job, RefinedJob)]
        for job in refined:
            orders.append(job.order_for(contexts))
            self._jobs[job.ticket] = _OrderedJob(job, orders[-1], network)
        if self.start() and self._process is not None:  # else `deliver_answers` reports it
            self._process.send_order(BeginJobs(network, tuple(orders)))
        # The process may be seconds from loading torch, or from a turn of the processor.
        for job, first_slice in compute_first_slices(refined, contexts):
            job.deliver(first_slice)

    def cancel(self, job: ExactJob | RefinedJob) -> None:
        """Ask the process to stop a job.

        Args:
            job: A submitted job; others are ignored.
        """
        ordered = self._jobs.get(job.ticket) if isinstance(job, RefinedJob) else None
        if ordered is not None and ordered.stopped is None:
            ordered.stopped = self._clock()
            if self._process is not None:
                self._process.send_order(StopJob(ordered.order.ticket))

    def deliver_answers(self, budget: WatchBudget | None = None) -> bool:
        """Deliver what the process has sent; restart it if a stopped job hangs.

        Args:
            budget: Unused: the process runs on another core.

        Returns:
            Whether anything was delivered.
        """
        process = self._process
        if process is None:
            return self._end_jobs(self.trouble) if self.trouble and self._jobs else False
        answers = process.take_answers()
        for answer in answers:
            self._deliver_answer(answer)
        if process.ended:
            self._process = None
            if not self._ready:
                self.trouble = f"the reading process did not start ({process.ended})"
            self._end_jobs(self.trouble or f"the reading process ended ({process.ended})")
            return True
        now = self._clock()
        stuck = [job for job in self._jobs.values() if job.stopped is not None]
        if any(now - (job.stopped or 0.0) > STOP_PATIENCE for job in stuck):
            self._replace_process(process)
        return bool(answers)

    def close(self, trouble: str = "") -> bool:
        """Kill the process and end all jobs.

        Args:
            trouble: Reason delivered to the jobs, as part of a sentence; '' to deliver nothing.

        Returns:
            Whether there were jobs.
        """
        if self._process is not None:
            self._process.kill()
        self._process = None
        return self._end_jobs(trouble)

    def _deliver_answer(self, answer: Answer) -> None:
        if isinstance(answer, ProcessReady):
            self._ready = True
            return
        ordered = self._jobs.get(answer.ticket)
        if ordered is None:
            return
        if isinstance(answer, JobOver):
            del self._jobs[answer.ticket]
        if ordered.stopped is None:
            ordered.job.deliver(answer)

    def _end_jobs(self, trouble: str) -> bool:
        """End all jobs, delivering `trouble` unless it is ''; return whether there were any."""
        jobs, self._jobs = self._jobs, {}
        for ticket, ordered in jobs.items():
            if trouble and ordered.stopped is None:
                ordered.job.deliver(JobOver(ticket, trouble))
        return bool(jobs)

    def _replace_process(self, process: ReadingProcess) -> None:
        """Replace a process in which a stopped job hangs, and resubmit the other jobs."""
        process.kill()
        self._process = None
        self._jobs = {t: job for t, job in self._jobs.items() if job.stopped is None}
        if self._jobs and self.start() and self._process is not None:
            for job in self._jobs.values():
                self._process.send_order(BeginJobs(job.network, (job.order,)))
