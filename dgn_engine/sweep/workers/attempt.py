"""Execute one unit, or a pack of units, in the current process.

A finished unit is skipped and an interrupted one resumed; errors are returned as updates. torch is
imported when a training starts, after the process has set its number of threads.
"""

from __future__ import annotations

import errno
import os
import platform
import time
import traceback
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.errors import DoesNotFitError, UserError, breaks_cuda
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Measured, RegimeSwapped, RunStarted
from dgn_engine.storage.atomic_write import make_folder
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.lock import LockHeldError, free_lock
from dgn_engine.storage.runs.folder_layout import LOCK, RUN
from dgn_engine.sweep.unit import (
    Calculation,
    OnUpdate,
    ProcessId,
    Stopped,
    Training,
    UnitTask,
    UnitUpdate,
    UpdateState,
    unit_folder,
)

if TYPE_CHECKING:
    from dgn_engine.training.batched import Job, JobProgress, JobResult
    from dgn_engine.training.headless_run import RunWatcher

LOGS = "logs"  # subfolder of a sweep's folder with the errors of each unit
LAST_LINES = 20  # lines of a log to report
EVERY = 0.2  # seconds between updates of a unit
_FAILED: UpdateState = "failed"
_STATES: dict[str, UpdateState] = {
    "finished": "done",
    "diverged": "diverged",
    "stopped": "interrupted",
}


def attempt_unit(task: UnitTask, on_update: OnUpdate, interrupted: Stopped) -> UnitUpdate:
    """Execute a task and return its last update; never raises an `Exception`.

    Args:
        task: the unit and its folder.
        on_update: called with progress.
        interrupted: polled between steps; if it returns True, the unit is saved and ended.
    """
    unit, root = task.unit, task.root
    watcher = _UpdateWatcher(unit.id, on_update)
    on_update(UnitUpdate(unit.id, "running"))
    try:
        _free_locks(task)
        state = _perform_task(task, watcher, interrupted)
    except UserError as refusal:
        return _refusal_update(
            task, refusal, "failed" if _ran_out_of_handles(refusal) else "refused"
        )
    except Exception as error:
        write_log(root, unit.id, traceback.format_exc())
        trouble = last_lines(traceback.format_exc())
        return UnitUpdate(unit.id, _state_after(error), trouble=trouble)
    return UnitUpdate(unit.id, state, watcher.fraction, watcher.score)


def attempt_pack(
    tasks: Sequence[UnitTask], on_update: OnUpdate, interrupted: Stopped
) -> list[UnitUpdate]:
    """Train dense networks as one batched stack; see `attempt_unit`.

    Returns:
        The last update of each task, in order; with `no_memory` if the stack does not fit.
    """
    from dgn_engine.training.batched import train_pack

    root = tasks[0].root
    names = {unit_folder(root, task.unit.id): task.unit.id for task in tasks}
    far: dict[str, float] = {}
    for task in tasks:
        on_update(UnitUpdate(task.unit.id, "running"))

    def on_progress(progress: JobProgress) -> None:
        name = names[progress.job.folder]
        far[name] = min(1.0, progress.step / progress.total_steps) if progress.total_steps else 0.0
        score = _number_or_none(progress.outcome.best_accuracy)
        on_update(UnitUpdate(name, "running", far[name], score))

    try:
        jobs = [_pack_job(task) for task in tasks]
        results = train_pack(jobs, on_progress, interrupted, most=len(jobs))
        return [
            _job_update(task, result, far.get(task.unit.id, 0.0))
            for task, result in zip(tasks, results, strict=True)
        ]
    except UserError as refusal:
        text, state, crowded = str(refusal), _FAILED, False
    except Exception as error:
        text, state, crowded = traceback.format_exc(), _state_after(error), _is_out_of_memory(error)
    for task in tasks:
        write_log(root, task.unit.id, text)
    trouble = last_lines(text)
    return [UnitUpdate(task.unit.id, state, trouble=trouble, no_memory=crowded) for task in tasks]


def _state_after(error: Exception) -> UpdateState:
    """Return 'lost' if this process can no longer use its GPU and must end, else 'failed'."""
    return "lost" if breaks_cuda(str(error)) and not _is_out_of_memory(error) else "failed"


def _is_out_of_memory(error: Exception) -> bool:
    from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory

    if is_out_of_memory(error):
        free_memory()
        return True
    return False


def write_log(root: Path, unit_id: str, text: str) -> None:
    """Append a failed attempt to the unit's log; ignores write errors."""
    head = f"{datetime.now():%Y-%m-%d %H:%M:%S} process {os.getpid()} on {platform.node()}\n"
    try:
        make_folder(inner_folder(root) / LOGS)
        path = inner_folder(root) / LOGS / f"{unit_id}.txt"
        handle = path.open(os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(handle, "a", encoding="utf-8") as log:
            log.write(f"{head}{text.rstrip()}\n\n")
    except OSError:
        pass


def log_path(root: Path, unit_id: str) -> Path:
    return root / LOGS / f"{unit_id}.txt"


def last_lines(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-LAST_LINES:])


def _perform_task(task: UnitTask, watcher: RunWatcher, interrupted: Stopped) -> UpdateState:
    """Run or train the unit and return its state; errors are raised."""
    from dgn_engine.sweep.calculation import run_calculation
    from dgn_engine.sweep.unit_results import state_of

    unit, root = task.unit, task.root
    state = state_of(unit, root)
    if state in ("done", "diverged"):
        return "done" if state == "done" else "diverged"
    if isinstance(unit, Calculation):
        run_calculation(unit, root)
        return "done"
    from dgn_engine.training.headless_run import NotBegunError

    try:
        diverged = _train_unit(unit, root, state == "begun", watcher, interrupted)
    except NotBegunError:
        return "interrupted"
    if diverged:
        return "diverged"
    return "interrupted" if interrupted() and state_of(unit, root) != "done" else "done"


def _train_unit(
    unit: Training, root: Path, begun: bool, watcher: RunWatcher, interrupted: Stopped
) -> bool:
    """Train or resume a run; return whether it diverged."""
    from dgn_engine.storage.runs.run_folder import RunFolder
    from dgn_engine.training.headless_run import HeadlessRun, NotBegunError

    path, config = unit_folder(root, unit.id), unit.resolve_paths(root)
    headless = HeadlessRun(watcher, interrupted)
    folder = RunFolder(path) if begun else RunFolder.create(path, config)
    if not (folder.checkpoints or folder.info.config.is_same_run(config)):
        # It starts again, but its files are no longer there: the sweep's folder was moved.
        folder.discard_folder()
        folder, begun = RunFolder.create(path, config), False
    try:
        outcome = (
            headless.continue_folder(folder)
            if begun
            else headless.train(folder.info.config, folder)
        )
    except (UserError, NotBegunError):
        if not folder.info.was_built:
            folder.discard_folder()  # the run never started
        raise
    finally:
        folder.close()
    if outcome.unsaved:
        raise UserError(outcome.unsaved)
    return outcome.diverged


def _ran_out_of_handles(refusal: UserError) -> bool:
    """Return whether too many files were open, which is temporary."""
    return any(os.strerror(code) in str(refusal) for code in (errno.EMFILE, errno.ENFILE))


def _pack_job(task: UnitTask) -> Job:
    from dgn_engine.storage.runs.run_reader import RunReader
    from dgn_engine.training.batched import Job

    assert isinstance(task.unit, Training)
    _free_locks(task)
    folder, config = unit_folder(task.root, task.unit.id), task.unit.resolve_paths(task.root)
    if (folder / RUN).exists():
        stored = RunReader(folder).config
        if task.unit.is_run(stored, task.root):
            config = stored  # with the paths from before the sweep's folder was moved
    return Job(config, folder)


def _job_update(task: UnitTask, result: JobResult, far: float) -> UnitUpdate:
    """Return the last update of a run in a stack; `far` is its share of steps when interrupted."""
    if result.refusal is not None:
        return _refusal_update(task, result.refusal, "failed")
    state, score = _STATES[result.status], _number_or_none(result.outcome.best_accuracy)
    return UnitUpdate(task.unit.id, state, far if state == "interrupted" else 1.0, score)


def _refusal_update(task: UnitTask, refusal: UserError, state: UpdateState) -> UnitUpdate:
    """Return the update for an error: 'held' if another process has locked the run."""
    if isinstance(refusal, LockHeldError):
        other = refusal.elsewhere
        holder = None if other is None else ProcessId(other.pid, other.host)
        return UnitUpdate(task.unit.id, "held", trouble=str(refusal), holder=holder)
    write_log(task.root, task.unit.id, str(refusal))
    crowded = isinstance(refusal, DoesNotFitError)
    return UnitUpdate(task.unit.id, state, trouble=str(refusal), no_memory=crowded)


def _free_locks(task: UnitTask) -> None:
    for process in task.ended:
        free_lock(unit_folder(task.root, task.unit.id) / LOCK, process.pid, process.host)


def _number_or_none(accuracy: float) -> float | None:
    return accuracy if accuracy == accuracy else None


class _UpdateWatcher:
    def __init__(self, unit_id: str, on_update: OnUpdate) -> None:
        self._unit, self._on_update = unit_id, on_update
        self._sent = time.monotonic()
        self._steps = 0
        self._total = 0
        self.score: float | None = None

    @property
    def fraction(self) -> float:
        return min(1.0, self._steps / self._total) if self._total else 0.0

    def on_step(self, step: int) -> None:
        self._steps = step
        now = time.monotonic()
        if now - self._sent >= EVERY:
            self._sent = now
            self._on_update(UnitUpdate(self._unit, "running", self.fraction, self.score))

    def on_event(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._total = event.total_steps
            case RegimeSwapped():
                self.score = None
            case Measured(test_accuracy=float(accuracy)):
                self.score = accuracy if self.score is None else max(self.score, accuracy)
