"""One unit per process: as many processes as the cores carry, or one for each GPU."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.sweep.attempt import LOGS, UnitTask, last_lines, log_path, write_log
from dgn_engine.sweep.capacity import cores, gpus, threads
from dgn_engine.sweep.executor import Told, UnitProgress
from dgn_engine.sweep.scheduler import carry_out
from dgn_engine.sweep.unit import Unit
from dgn_engine.sweep.unit_update import UnitUpdate
from dgn_engine.sweep.workers.unit_child import STOP, serve

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

Batch = tuple[UnitTask, ...]  # what a process is given at once
LEAVE = 20.0  # seconds a process has to save and end when nobody waits for it any more
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # more slow dense networks down


@dataclass(frozen=True)
class ProcessExecutor:
    """`workers`: at most so many at a time; 0: one for each GPU, or what the cores carry."""

    workers: int = 0

    def run(
        self,
        units: Sequence[Unit],
        root: Path,
        told: Callable[[UnitProgress], None],
        stop: Callable[[], bool],
    ) -> dict[str, Told]:
        """Carry the units out in `root`; see `Executor`."""
        return carry_out(ProcessWorkers(root.absolute(), self.workers), units, root, told, stop)


@dataclass
class _Worker:
    """A process, the pipe to it, and the tasks it has, by their units."""

    process: SpawnProcess
    pipe: Connection
    gpu: str
    log: Path
    tasks: dict[str, UnitTask] = field(default_factory=dict)


class ProcessWorkers:
    """A crew of processes, each started when there is work for it."""

    def __init__(self, root: Path, workers: int) -> None:
        self._root = root
        self._limit = workers
        self._workers: list[_Worker] = []
        self._places: list[str] = []  # the GPU of each place; '' where there is none
        self._logs = 0
        self._tell: Callable[[UnitUpdate], None]

    @property
    def places(self) -> int:
        """How many may work at a time."""
        return len(self._places)

    @property
    def busy(self) -> bool:
        """Whether anybody has a task."""
        return any(worker.tasks for worker in self._workers)

    @contextmanager
    def gather(
        self, units: Sequence[Unit], tell: Callable[[UnitUpdate], None], stop: Callable[[], bool]
    ) -> Iterator[None]:
        """See `Crew`."""
        self._tell = tell
        found = gpus(units)
        if found:
            count = self._limit or len(found)
            self._places = [found[index % len(found)] for index in range(count)]
        else:
            self._places = [""] * (self._limit or cores())
        (self._root / LOGS).mkdir(parents=True, exist_ok=True)
        try:
            yield
        finally:
            self._dismiss()

    def take(self, ready: Sequence[UnitTask]) -> Sequence[UnitTask]:
        """See `Crew`."""
        begun: list[UnitTask] = []
        for batch in self.batches(ready):
            if not self._fits(batch):
                break  # those behind it wait too, or it would wait for ever
            self._hand(batch)
            begun += batch
        return begun

    def batches(self, ready: Sequence[UnitTask]) -> Iterator[Batch]:
        """What is given to one process at once: here one unit each."""
        yield from ((task,) for task in ready)

    def _fits(self, batch: Batch) -> bool:
        busy = [next(iter(worker.tasks.values())) for worker in self._workers if worker.tasks]
        if len(busy) >= self.places:
            return False
        if self._limit or self._places[0] or not busy:
            return True
        return sum(threads(one.unit) for one in (*busy, batch[0])) <= cores()

    def work(self, seconds: float) -> None:
        """See `Crew`."""
        pipes = {worker.pipe: worker for worker in self._workers}
        if not pipes:
            time.sleep(seconds)
            return
        for pipe in wait(list(pipes), seconds):
            assert isinstance(pipe, Connection)
            worker = pipes[pipe]
            try:
                while pipe.poll():
                    self._hear(worker, UnitUpdate.from_text(pipe.recv_bytes().decode()))
            except (EOFError, OSError):
                self._lose(worker)

    def interrupt(self) -> None:
        """See `Crew`."""
        for worker in self._workers:
            _send(worker, STOP)

    def _hand(self, batch: Batch) -> None:
        idle = [worker for worker in self._workers if not worker.tasks]
        worker = idle[0] if idle else self._start()
        worker.tasks = {task.unit.id: task for task in batch}
        _send(worker, json.dumps([task.to_text() for task in batch]))

    def _start(self) -> _Worker:
        used = [worker.gpu for worker in self._workers]
        gpu = next(place for place in self._places if used.count(place) < self._places.count(place))
        environment = dict(ONE_THREAD, **({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}))
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._logs += 1
        log = self._root / LOGS / f"worker-{self._logs}.txt"
        process = context.Process(
            target=serve, args=(theirs, environment, str(log)), name="dgn-worker", daemon=True
        )
        process.start()
        theirs.close()
        worker = _Worker(process, ours, gpu, log)
        self._workers.append(worker)
        return worker

    def _hear(self, worker: _Worker, news: UnitUpdate) -> None:
        if news.over:
            worker.tasks.pop(news.unit, None)
        self._tell(news)

    def _lose(self, worker: _Worker) -> None:
        """Its end of the pipe is closed: it was killed, or fell."""
        self._workers.remove(worker)
        code = _end(worker)
        text = f"The process that had it ended with exit code {code}."
        with contextlib.suppress(OSError):
            printed = worker.log.read_text("utf-8", "replace").strip()
            text = f"{text}\n{last_lines(printed)}".strip()
            worker.log.unlink()
        for unit_id in worker.tasks:
            write_log(self._root, unit_id, text)
            self._tell(UnitUpdate(unit_id, "lost", trouble=text))

    def _dismiss(self) -> None:
        """Nobody is left, whatever happened."""
        self.interrupt()
        for worker in self._workers:
            worker.process.join(LEAVE)
            _end(worker)
            with contextlib.suppress(OSError):
                if not worker.log.stat().st_size:
                    worker.log.unlink()
        self._workers = []
        with contextlib.suppress(OSError):  # it stays where there is something in it
            log_path(self._root, "").parent.rmdir()


def _send(worker: _Worker, text: str) -> None:
    with contextlib.suppress(OSError):  # `work` finds the pipe closed and says so
        worker.pipe.send_bytes(text.encode())


def _end(worker: _Worker) -> int | None:
    """Kill it where it has not ended; its exit code."""
    if worker.process.is_alive():
        worker.process.join(1.0)
        worker.process.kill()
    worker.process.join()
    worker.pipe.close()
    code = worker.process.exitcode
    worker.process.close()
    return code
