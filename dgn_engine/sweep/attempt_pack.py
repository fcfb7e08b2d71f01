"""One attempt at a pack of units: dense networks that train as one batched stack."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

from dgn_engine.errors import UserError
from dgn_engine.storage.lock import LockHeldError, free
from dgn_engine.storage.runs.folder_layout import LOCK
from dgn_engine.sweep.attempt import UnitTask, last_lines, write_log
from dgn_engine.sweep.unit import Training, unit_folder
from dgn_engine.sweep.unit_update import ProcessId, UnitUpdate, Word
from dgn_engine.training.batched import Job, JobProgress, JobResult, train_pack

_WORDS: dict[str, Word] = {"finished": "done", "diverged": "diverged", "stopped": "interrupted"}


def attempt_pack(
    tasks: Sequence[UnitTask], tell: Callable[[UnitUpdate], None], interrupted: Callable[[], bool]
) -> list[UnitUpdate]:
    """The last news of each task, in order; trainings only. Never raises an `Exception`."""
    root = tasks[0].root
    names = {unit_folder(root, task.unit.id): task.unit.id for task in tasks}
    for task in tasks:
        tell(UnitUpdate(task.unit.id, "running"))

    def told(progress: JobProgress) -> None:
        fraction = progress.step / progress.total_steps if progress.total_steps else 0.0
        score = _number(progress.outcome.best_accuracy)
        tell(UnitUpdate(names[progress.job.folder], "running", min(1.0, fraction), score))

    try:
        jobs = [_job(task) for task in tasks]
        ends = train_pack(jobs, told, interrupted, most=len(jobs))
        return [_news(task, end) for task, end in zip(tasks, ends, strict=True)]
    except UserError as refusal:
        text = str(refusal)
    except Exception:
        text = traceback.format_exc()
    for task in tasks:
        write_log(root, task.unit.id, text)
    return [UnitUpdate(task.unit.id, "failed", trouble=last_lines(text)) for task in tasks]


def _job(task: UnitTask) -> Job:
    unit, root = task.unit, task.root
    assert isinstance(unit, Training)
    folder = unit_folder(root, unit.id)
    for whose in task.ended:
        free(folder / LOCK, whose.pid, whose.host)
    return Job(unit.resolved(root), folder)


def _news(task: UnitTask, end: JobResult) -> UnitUpdate:
    if end.refusal is None:
        score = _number(end.outcome.best_accuracy)
        return UnitUpdate(task.unit.id, _WORDS[end.status], 1.0, score)
    if isinstance(end.refusal, LockHeldError):
        other = end.refusal.elsewhere
        holder = None if other is None else ProcessId(other.pid, other.host)
        return UnitUpdate(task.unit.id, "held", trouble=str(end.refusal), holder=holder)
    write_log(task.root, task.unit.id, str(end.refusal))
    return UnitUpdate(task.unit.id, "failed", trouble=str(end.refusal))


def _number(accuracy: float) -> float | None:
    return accuracy if accuracy == accuracy else None
