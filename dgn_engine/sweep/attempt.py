"""One attempt at a unit, in whatever process: text in, text out, and any trouble put into words."""

from __future__ import annotations

import json
import os
import platform
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.protocol.events import Event, Measured, RegimeSwapped, RunStarted
from dgn_engine.storage.lock import LockHeldError, free
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.runs.folder_layout import LOCK
from dgn_engine.sweep.perform import perform
from dgn_engine.sweep.unit import Unit, unit_folder
from dgn_engine.sweep.unit_update import ProcessId, UnitUpdate

LOGS = "logs"  # in the sweep's folder: what went wrong with which unit, attempt by attempt
LAST_LINES = 20  # of a log, in a report
EVERY = 0.2  # seconds between two messages of one unit


@dataclass(frozen=True)
class UnitTask:
    """A unit to attempt. `ended`: processes that are known to be dead, whose locks do not count."""

    unit: Unit
    root: Path
    ended: tuple[ProcessId, ...] = ()

    def to_text(self) -> str:
        """As it crosses between processes and machines."""
        return json.dumps(to_plain(self, omit_none=True))

    @staticmethod
    def from_text(text: str) -> UnitTask:
        """The inverse of `to_text`."""
        task: UnitTask = from_plain(UnitTask, json.loads(text))
        return task


def attempt(text: str, tell: Callable[[str], None], interrupted: Callable[[], bool]) -> str:
    """Carry out the task in `text`; `tell` gets news on the way, the last of them is returned.

    Never raises an `Exception`: what goes wrong is news as well.
    """
    task = UnitTask.from_text(text)
    return attempt_task(task, lambda news: tell(news.to_text()), interrupted).to_text()


def attempt_task(
    task: UnitTask, tell: Callable[[UnitUpdate], None], interrupted: Callable[[], bool]
) -> UnitUpdate:
    """The same within one process."""
    unit, root = task.unit, task.root
    watcher = _Teller(unit.id, tell)
    tell(UnitUpdate(unit.id, "running"))
    lock = unit_folder(root, unit.id) / LOCK
    try:
        for whose in task.ended:
            free(lock, whose.pid, whose.host)
        state = perform(unit, root, watcher, interrupted)
    except LockHeldError as held:
        holder = None
        if held.elsewhere is not None:
            holder = ProcessId(held.elsewhere.pid, held.elsewhere.host)
        return UnitUpdate(unit.id, "held", trouble=str(held), holder=holder)
    except UserError as refusal:
        write_log(root, unit.id, str(refusal))
        return UnitUpdate(unit.id, "refused", trouble=str(refusal))
    except Exception:
        write_log(root, unit.id, traceback.format_exc())
        return UnitUpdate(unit.id, "failed", trouble=last_lines(traceback.format_exc()))
    word = "interrupted" if state not in ("done", "diverged") else state
    return UnitUpdate(unit.id, word, watcher.fraction, watcher.score)


def write_log(root: Path, unit_id: str, text: str) -> None:
    """Add an attempt that failed to the unit's log; a disk that is full must not hide the cause."""
    head = f"{datetime.now():%Y-%m-%d %H:%M:%S} process {os.getpid()} on {platform.node()}\n"
    try:
        (root / LOGS).mkdir(parents=True, exist_ok=True)
        with log_path(root, unit_id).open("a", encoding="utf-8") as log:
            log.write(f"{head}{text.rstrip()}\n\n")
    except OSError:
        pass


def log_path(root: Path, unit_id: str) -> Path:
    """Where the attempts that failed are told of."""
    return root / LOGS / f"{unit_id}.txt"


def last_lines(text: str) -> str:
    """The end of a log."""
    lines: Sequence[str] = text.rstrip().splitlines()
    return "\n".join(lines[-LAST_LINES:])


class _Teller:
    """Watches a training; tells how far it is, now and then."""

    def __init__(self, unit_id: str, tell: Callable[[UnitUpdate], None]) -> None:
        self._unit, self._tell = unit_id, tell
        self._told = time.monotonic()
        self._steps = 0
        self._total = 0
        self.score: float | None = None

    @property
    def fraction(self) -> float:
        return min(1.0, self._steps / self._total) if self._total else 0.0

    def stepped(self, step: int) -> None:
        self._steps = step
        now = time.monotonic()
        if now - self._told >= EVERY:
            self._told = now
            self._tell(UnitUpdate(self._unit, "running", self.fraction, self.score))

    def on_event(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._total = event.total_steps
            case RegimeSwapped():
                self.score = None
            case Measured(test_accuracy=float(accuracy)):
                self.score = accuracy if self.score is None else max(self.score, accuracy)
            case _:
                pass
