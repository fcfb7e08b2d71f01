"""One attempt at a pack of units: dense networks that train as one batched stack."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

from dgn_engine.errors import Refusal
from dgn_engine.storage.lock import Held, free
from dgn_engine.storage.runs.folder_layout import LOCK
from dgn_engine.sweep.attempt import Task, last_lines, write_log
from dgn_engine.sweep.unit import Training, unit_folder
from dgn_engine.sweep.unit_update import News, Whose, Word
from dgn_engine.training.batched import Job, Packed, Progress, train_pack

_WORDS: dict[str, Word] = {"finished": "done", "diverged": "diverged", "stopped": "interrupted"}


def attempt_pack(
    tasks: Sequence[Task], tell: Callable[[News], None], interrupted: Callable[[], bool]
) -> list[News]:
    """The last news of each task, in order; trainings only. Never raises an `Exception`."""
    root = tasks[0].root
    names = {unit_folder(root, task.unit.id): task.unit.id for task in tasks}
    for task in tasks:
        tell(News(task.unit.id, "running"))

    def told(progress: Progress) -> None:
        fraction = progress.step / progress.total_steps if progress.total_steps else 0.0
        score = _number(progress.outcome.best_accuracy)
        tell(News(names[progress.job.folder], "running", min(1.0, fraction), score))

    try:
        jobs = [_job(task) for task in tasks]
        ends = train_pack(jobs, told, interrupted, most=len(jobs))
        return [_news(task, end) for task, end in zip(tasks, ends, strict=True)]
    except Refusal as refusal:
        text = str(refusal)
    except Exception:
        text = traceback.format_exc()
    for task in tasks:
        write_log(root, task.unit.id, text)
    return [News(task.unit.id, "failed", trouble=last_lines(text)) for task in tasks]


def _job(task: Task) -> Job:
    unit, root = task.unit, task.root
    assert isinstance(unit, Training)
    folder = unit_folder(root, unit.id)
    for whose in task.ended:
        free(folder / LOCK, whose.pid, whose.host)
    return Job(unit.resolved(root), folder)


def _news(task: Task, end: Packed) -> News:
    if end.refusal is None:
        score = _number(end.outcome.best_accuracy)
        return News(task.unit.id, _WORDS[end.status], 1.0, score)
    if isinstance(end.refusal, Held):
        other = end.refusal.elsewhere
        holder = None if other is None else Whose(other.pid, other.host)
        return News(task.unit.id, "held", trouble=str(end.refusal), holder=holder)
    write_log(task.root, task.unit.id, str(end.refusal))
    return News(task.unit.id, "failed", trouble=str(end.refusal))


def _number(accuracy: float) -> float | None:
    return accuracy if accuracy == accuracy else None
