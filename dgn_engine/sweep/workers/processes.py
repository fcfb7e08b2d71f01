"""Execute units in processes, as many as there are cores or GPUs."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.config import NetConfig
from dgn_engine.confinement.child_process import usable_cores
from dgn_engine.confinement.parent_watch import LEAVE
from dgn_engine.confinement.spawn_context import SPAWN, end_spawned
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folder, make_folders
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.unit import OnUpdate, Stopped, Training, Unit, UnitTask, UnitUpdate
from dgn_engine.sweep.workers.attempt import LOGS, last_lines, write_log
from dgn_engine.sweep.workers.places import Place, places_on, usable_gpus
from dgn_engine.sweep.workers.unit_child import DEVICE_FAULT, STOP, serve_units

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

Batch = tuple[UnitTask, ...]  # tasks given to a process together
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # more would slow dense networks
MOST_FAULTS = 2  # failures in a row after which a GPU is no longer used


@dataclass(frozen=True)
class ProcessExecutor(Executor):
    """An executor that runs units in processes.

    Attributes:
        limit: maximum number of processes; 0: one per GPU, or as many as the cores allow.
        devices: devices from `parse_devices`; empty: all GPUs.
    """

    limit: int = 0
    devices: tuple[str, ...] = ()

    def workers_in(self, root: Path) -> ProcessWorkers:
        return ProcessWorkers(root, self.limit, self.devices)


def list_places(units: Sequence[Unit], limit: int, devices: Sequence[str]) -> list[Place]:
    """Return the place of each process that may run at a time; see `ProcessExecutor`."""
    cards = usable_gpus(units)
    names = devices or ("cuda",) * bool(cards)
    places = places_on(names, cards, units) or [Place()] * usable_cores()
    return [places[index % len(places)] for index in range(limit or len(places))]


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    place: Place
    log: Path
    tasks: dict[str, UnitTask] = field(default_factory=dict)


class ProcessWorkers:
    """A pool of processes, started on demand."""

    def __init__(self, root: Path, limit: int, devices: Sequence[str] = ()) -> None:
        self._root = root
        self._limit = limit
        self._devices = devices
        self._workers: list[_Worker] = []
        self._places: list[Place] = []  # one per process that may run at a time
        self._faults: Counter[str] = Counter()  # failures in a row by GPU
        self._tight: dict[str, set[str]] = {}  # by unit: devices on which it ran out of memory
        self._logs = 0
        self._on_update: OnUpdate

    @property
    def place_count(self) -> int:
        return len(self._places)

    @property
    def on_cards(self) -> bool:
        return any(place.visible for place in self._places)

    @property
    def is_busy(self) -> bool:
        return any(worker.tasks for worker in self._workers)

    @contextmanager
    def start(self, units: Sequence[Unit], on_update: OnUpdate, stopped: Stopped) -> Iterator[None]:
        self._on_update = on_update
        self._places = list_places(units, self._limit, self._devices)
        make_folders(self._root)
        make_folder(inner_folder(self._root) / LOGS)
        try:
            yield
        finally:
            self.interrupt()
            for worker in self._workers:
                _end_worker(worker, LEAVE)
                with contextlib.suppress(OSError):
                    if not worker.log.stat().st_size:
                        worker.log.unlink()
            self._workers = []
            with contextlib.suppress(OSError):  # keeps the folder if it is not empty
                (self._root / LOGS).rmdir()

    def submit(self, ready: Sequence[UnitTask]) -> Sequence[UnitTask]:
        begun: list[UnitTask] = []
        for batch in self.batches(ready):
            place = self._place_for(batch)
            if place is None and self._devices_without_memory(batch):
                continue  # waits for a larger GPU, with priority at the next call
            if place is None:
                break  # later ones must wait, too, or this one might never start
            self._assign_batch(batch, place)
            begun += batch
        return begun

    def batches(self, ready: Sequence[UnitTask]) -> Iterator[Batch]:
        """Yield the tasks to be given to a process together: here one each."""
        yield from ((task,) for task in ready)

    def _place_for(self, batch: Batch) -> Place | None:
        """Return a free place for a batch on the least used device; None if there is none."""
        busy = [next(iter(worker.tasks.values())) for worker in self._workers if worker.tasks]
        used = Counter(worker.place for worker in self._workers if worker.tasks)
        tight = self._devices_without_memory(batch)
        room = Counter(self._places) - used
        free = [place for place in dict.fromkeys(self._places) if room[place]]
        free = [place for place in free if place.name not in tight]
        if not free:
            return None
        place = min(free, key=lambda candidate: used[candidate])
        if self._limit or place.name or not busy:
            return place
        fits = sum(unit_threads(task.unit) for task in (*busy, batch[0])) <= usable_cores()
        return place if fits else None

    def _devices_without_memory(self, batch: Batch) -> set[str]:
        """Return the devices on which the batch ran out of memory.

        Empty if no other device is left; another failure there is then final.
        """
        tight = set[str]().union(*(self._tight.get(task.unit.id, ()) for task in batch))
        return tight if any(place.name not in tight for place in self._places) else set()

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
                    self._apply_worker_update(
                        worker, UnitUpdate.from_text(pipe.recv_bytes().decode())
                    )
            except (EOFError, OSError):
                self._on_loss(worker)

    def interrupt(self) -> None:
        for worker in self._workers:
            _send_text(worker, STOP)

    def _assign_batch(self, batch: Batch, place: Place) -> None:
        idle = [
            candidate
            for candidate in self._workers
            if not candidate.tasks and candidate.place == place
        ]
        worker = idle[0] if idle else self._start_process(place)
        worker.tasks = {task.unit.id: task for task in batch}
        _send_text(worker, json.dumps([task.to_text() for task in batch]))

    def _start_process(self, place: Place) -> _Worker:
        environment = {**ONE_THREAD, **place.environment}
        ours, theirs = SPAWN.Pipe()
        self._logs += 1
        log = self._root / LOGS / f"worker-{self._logs}.txt"
        process = SPAWN.Process(
            target=serve_units, args=(theirs, environment, str(log)), name="dgn-worker", daemon=True
        )
        process.start()
        theirs.close()
        worker = _Worker(process, ours, place, log)
        self._workers.append(worker)
        return worker

    def _apply_worker_update(self, worker: _Worker, update: UnitUpdate) -> None:
        if update.is_over:
            worker.tasks.pop(update.unit, None)
        if update.state in ("done", "diverged"):
            del self._faults[worker.place.name]
        if update.no_memory:
            update = self._retry_elsewhere(update, worker.place)
        self._on_update(update)

    def _retry_elsewhere(self, update: UnitUpdate, place: Place) -> UnitUpdate:
        """Retry a unit that ran out of memory on each of the other devices before it fails."""
        tried = self._tight.setdefault(update.unit, set())
        tried.add(place.name)
        if all(other.name in tried for other in self._places):
            return update
        return replace(update, state="crowded")

    def _on_loss(self, worker: _Worker) -> None:
        """Report the units of a process that was killed or crashed as lost."""
        self._workers.remove(worker)
        code = _end_worker(worker, 1.0)
        notice = self._note_fault(worker.place) if code == DEVICE_FAULT else ""
        text = f"Its process ended with exit code {code}. {notice}".strip()
        with contextlib.suppress(OSError):
            printed = worker.log.read_text("utf-8", "replace").strip()
            text = f"{text}\n{last_lines(printed)}".strip()
            worker.log.unlink()
        for unit_id in worker.tasks:
            write_log(self._root, unit_id, text)
            self._on_update(UnitUpdate(unit_id, "lost", trouble=text, notice=notice))
            notice = ""  # report it only once

    def _note_fault(self, place: Place) -> str:
        """Stop using a GPU that fails repeatedly, unless it is the last; return a notice or ''."""
        self._faults[place.name] += 1
        left = [other for other in self._places if other.name != place.name]
        if self._faults[place.name] < MOST_FAULTS or not left:
            return ""
        self._places = left
        others = ", ".join(dict.fromkeys(other.name for other in left))
        return (
            f"{place.name} failed {MOST_FAULTS} times in a row and is no longer used; the sweep "
            f"continues on {others}."
        )


def _send_text(worker: _Worker, text: str) -> None:
    with contextlib.suppress(OSError):  # `poll` will notice the closed pipe
        worker.pipe.send_bytes(text.encode())


def _end_worker(worker: _Worker, grace: float) -> int | None:
    code = end_spawned(worker.process, grace)
    worker.pipe.close()
    worker.process.close()
    return code


def unit_threads(unit: Unit) -> int:
    """Return the threads of a unit on a CPU: one, or all cores but one if it has convolutions."""
    if not isinstance(unit, Training) or not _has_convolutions(unit.config.net):
        return 1
    return max(1, (os.cpu_count() or 1) - 1)


@lru_cache(maxsize=256)
def _has_convolutions(net: NetConfig) -> bool:
    from dgn_engine.training.devices import has_convolutions
    from dgn_engine.training.trial_starts import usual_architecture

    try:
        return has_convolutions(usual_architecture(net))
    except UserError:  # reported when the run starts
        return False
