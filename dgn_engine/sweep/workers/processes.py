"""One unit per process: as many processes as the cores carry, or one for each GPU."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.config import NetConfig
from dgn_engine.confinement.child import usable_cores
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folder, make_folders
from dgn_engine.storage.inner_path import inside
from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.unit import OnUpdate, Stopped, Training, Unit, UnitTask, UnitUpdate
from dgn_engine.sweep.workers.attempt import LOGS, last_lines, log_path, write_log
from dgn_engine.sweep.workers.unit_child import LEAVE, STOP, serve

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

Batch = tuple[UnitTask, ...]  # what a process is given at once
_SHAPE, _CLASSES = (3, 32, 32), 10  # any images: only the kinds of the layers matter here
_GPU = ("auto", "cuda")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # more slow dense networks down


@dataclass(frozen=True)
class ProcessExecutor(Executor):
    """`limit`: at most so many processes at a time; 0: one for each GPU, or as the cores carry."""

    limit: int = 0

    def workers_in(self, root: Path) -> ProcessWorkers:
        return ProcessWorkers(root, self.limit)


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    gpu: str
    log: Path
    tasks: dict[str, UnitTask] = field(default_factory=dict)


class ProcessWorkers:
    """Processes, each started when there is work for it."""

    def __init__(self, root: Path, limit: int) -> None:
        self._root = root
        self._limit = limit
        self._workers: list[_Worker] = []
        self._places: list[str] = []  # the GPU of each place; '' where there is none
        self._logs = 0
        self._on_update: OnUpdate

    @property
    def places(self) -> int:
        return len(self._places)

    @property
    def busy(self) -> bool:
        return any(worker.tasks for worker in self._workers)

    @contextmanager
    def start(self, units: Sequence[Unit], on_update: OnUpdate, stopped: Stopped) -> Iterator[None]:
        self._on_update = on_update
        found = gpus(units)
        if found:
            count = self._limit or len(found)
            self._places = [found[index % len(found)] for index in range(count)]
        else:
            self._places = [""] * (self._limit or usable_cores())
        make_folders(self._root)
        make_folder(inside(self._root) / LOGS)
        try:
            yield
        finally:
            self._shut_down()

    def submit(self, ready: Sequence[UnitTask]) -> Sequence[UnitTask]:
        begun: list[UnitTask] = []
        for batch in self.batches(ready):
            if not self._fits(batch):
                break  # those behind it wait too, or it would wait for ever
            self._assign(batch)
            begun += batch
        return begun

    def batches(self, ready: Sequence[UnitTask]) -> Iterator[Batch]:
        """Yield what one process is given at once: here one unit each."""
        yield from ((task,) for task in ready)

    def _fits(self, batch: Batch) -> bool:
        busy = [next(iter(worker.tasks.values())) for worker in self._workers if worker.tasks]
        if len(busy) >= self.places:
            return False
        if self._limit or self._places[0] or not busy:
            return True
        return sum(threads(one.unit) for one in (*busy, batch[0])) <= usable_cores()

    def poll(self, seconds: float) -> None:
        pipes = {worker.pipe: worker for worker in self._workers}
        if not pipes:
            time.sleep(seconds)
            return
        for pipe in wait(list(pipes), seconds):
            assert isinstance(pipe, Connection)
            worker = pipes[pipe]
            try:
                while pipe.poll():
                    self._apply(worker, UnitUpdate.from_text(pipe.recv_bytes().decode()))
            except (EOFError, OSError):
                self._on_loss(worker)

    def interrupt(self) -> None:
        for worker in self._workers:
            _send(worker, STOP)

    def _assign(self, batch: Batch) -> None:
        idle = [worker for worker in self._workers if not worker.tasks]
        worker = idle[0] if idle else self._start_process()
        worker.tasks = {task.unit.id: task for task in batch}
        _send(worker, json.dumps([task.to_text() for task in batch]))

    def _start_process(self) -> _Worker:
        used = [worker.gpu for worker in self._workers]
        gpu = min(self._places, key=used.count)  # of those that are used least, the first
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

    def _apply(self, worker: _Worker, update: UnitUpdate) -> None:
        if update.over:
            worker.tasks.pop(update.unit, None)
        self._on_update(update)

    def _on_loss(self, worker: _Worker) -> None:
        """Report the units of a process that closed its end of the pipe: killed, or crashed."""
        self._workers.remove(worker)
        code = _end(worker)
        text = f"The process that had it ended with exit code {code}."
        with contextlib.suppress(OSError):
            printed = worker.log.read_text("utf-8", "replace").strip()
            text = f"{text}\n{last_lines(printed)}".strip()
            worker.log.unlink()
        for unit_id in worker.tasks:
            write_log(self._root, unit_id, text)
            self._on_update(UnitUpdate(unit_id, "lost", trouble=text))

    def _shut_down(self) -> None:
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
    with contextlib.suppress(OSError):  # `poll` finds the pipe closed and says so
        worker.pipe.send_bytes(text.encode())


def _end(worker: _Worker) -> int | None:
    """Kill it where it has not ended, and return its exit code."""
    if worker.process.is_alive():
        worker.process.join(1.0)
        worker.process.kill()
    worker.process.join()
    worker.pipe.close()
    code = worker.process.exitcode
    worker.process.close()
    return code


def threads(unit: Unit) -> int:
    """Return the threads of a unit on a CPU: one; what convolves takes all cores but one."""
    if not isinstance(unit, Training) or not _convolves(unit.config.net):
        return 1
    return max(1, (os.cpu_count() or 1) - 1)


def gpus(units: Sequence[Unit]) -> tuple[str, ...]:
    """Return the GPUs that these units would use, as CUDA_VISIBLE_DEVICES names them."""
    if not any(isinstance(one, Training) and one.config.device in _GPU for one in units):
        return ()
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    named = [name.strip() for name in named if name.strip()]
    return tuple(named[:count]) if named else tuple(str(index) for index in range(count))


@lru_cache(maxsize=256)
def _convolves(net: NetConfig) -> bool:
    from dgn_engine.model.architecture import Conv
    from dgn_engine.model.importing.from_file import architecture_for

    try:
        architecture = architecture_for(net, _SHAPE, _CLASSES)
    except UserError:  # the run itself will say so
        return False
    return any(isinstance(node, Conv) for node in architecture.nodes)
