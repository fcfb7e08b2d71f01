"""Processes of a sweep that are made up, and workers that are asked by hand."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dgn_engine.sweep.unit import Unit, UnitTask, UnitUpdate
from dgn_engine.sweep.workers.batched_workers import BatchedExecutor
from dgn_engine.sweep.workers.processes import ProcessExecutor, ProcessWorkers
from dgn_engine.sweep.workers.unit_child import STOP
from tests.engine.sweep.small import never_stop


class Child:
    """A process that is made up; `pipe`: its end."""

    exitcode: int | None = None

    def __init__(self, target: object, args: tuple[Any, ...], name: str, daemon: bool) -> None:
        theirs, self.environment, log = args
        self.log = Path(log)
        self.pipe = Connection(os.dup(theirs.fileno()))
        self.calls: list[object] = []
        self.closes = True  # when it is told to stop
        assert daemon

    def start(self) -> None:
        self.log.touch()

    def is_alive(self) -> bool:
        return self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        self.calls.append(timeout)
        if self.exitcode is None and self.closes and self.told == STOP:
            self.exitcode = 0

    def kill(self) -> None:
        self.calls.append("kill")
        self.exitcode = -9

    def close(self) -> None:
        self.pipe.close()

    told = ""

    def hear(self) -> Any:
        """The next message of the parent: tasks, or that it should stop."""
        self.told = self.pipe.recv_bytes().decode()
        return self.told if self.told == STOP else [*map(UnitTask.from_text, json.loads(self.told))]

    def say(self, update: UnitUpdate) -> None:
        self.pipe.send_bytes(update.to_text().encode())

    def die(self, code: int, said: str) -> None:
        self.log.write_text(said)
        self.exitcode = code
        self.pipe.close()


class Context:
    """A context of multiprocessing that starts nothing."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self.Pipe = Pipe

    def Process(self, **given: Any) -> Child:
        self.children.append(Child(**given))
        return self.children[-1]


class Bench:
    def __init__(self, root: Path, context: Context) -> None:
        self.root, self.context = root, context
        self.updates: list[UnitUpdate] = []
        self.stack = ExitStack()
        self.workers: ProcessWorkers

    def begin(self, executor: ProcessExecutor | BatchedExecutor, *units: Unit) -> None:
        self.workers = executor.workers_in(self.root)
        self.stack.enter_context(self.workers.start(units, self.updates.append, never_stop))

    def submit(self, *units: Unit) -> list[str]:
        tasks = [UnitTask(unit, self.root) for unit in units]
        return [task.unit.id for task in self.workers.submit(tasks)]

    @property
    def children(self) -> list[Child]:
        return self.context.children

    def poll(self) -> list[UnitUpdate]:
        told = len(self.updates)
        self.workers.poll(0.0)
        return self.updates[told:]
