"""State and results of units, read from their folders alone.

A training cannot start if the run that provides its weights or gates diverged before writing them.
It then counts as diverged itself, and its folder records why (`UnstartableUnit`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dgn_engine.errors import UserError
from dgn_engine.protocol.training import Measured, RegimeSwapped
from dgn_engine.storage.atomic_write import make_folders, write_file
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.regular_files import read_text
from dgn_engine.storage.runs.folder_layout import RUN
from dgn_engine.storage.runs.run_answers import Mask, read_answers
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.calculation import is_calculated, read_result, seconds_taken
from dgn_engine.sweep.stack_time import StackTimes
from dgn_engine.sweep.unit import Calculation, Training, Unit, unit_folder

FolderState = Literal["done", "diverged", "begun", "new"]
UNSTARTABLE = "orphan.json"
_SAME_SCORE = 1e-9  # tolerance between a logged accuracy and the share of correct answers


def state_of(unit: Unit, root: Path) -> FolderState:
    """Return the state of a unit from its folder; raises `UserError` if that has other work."""
    folder = unit_folder(root, unit.id)
    if isinstance(unit, Calculation):
        return "done" if is_calculated(unit, folder) else "new"
    if not (folder / RUN).exists():
        return "diverged" if find_unstartable(unit, root) and read_unstartable(folder) else "new"
    reader = RunReader(folder)
    if not unit.is_run(reader.config, root):
        raise UserError(
            f"{folder} has a run with a different configuration; choose another folder with --out.",
            kind="other-run",
            value=str(folder),
        )
    status = reader.outcome
    if status in ("finished", "diverged"):
        return "done" if status == "finished" else "diverged"
    return "begun"


@dataclass(frozen=True)
class UnstartableUnit:
    """Why a unit cannot start.

    Attributes:
        source: the unit that should have provided weights or gates.
        step: the step at which that unit, or the first in a chain, diverged.
    """

    source: str
    step: int


def find_unstartable(unit: Unit, root: Path) -> UnstartableUnit | None:
    """Return why a unit whose needs are over cannot start; None if it can."""
    if not isinstance(unit, Training) or (unit_folder(root, unit.id) / RUN).exists():
        return None
    for source in (unit.gates_from, unit.weights_from):
        if source is not None and not source.path(root).exists():
            step = _diverged_at(unit_folder(root, source.unit))
            if step is not None:
                return UnstartableUnit(source.unit, step)
    return None


def record_unstartable(unit_id: str, unstartable: UnstartableUnit, root: Path) -> None:
    """Record in the unit's folder why it cannot start."""
    folder = unit_folder(root, unit_id)
    make_folders(folder)
    write_file(inner_folder(folder) / UNSTARTABLE, json.dumps(to_plain(unstartable)).encode())


def read_unstartable(folder: Path) -> UnstartableUnit | None:
    """Return the recorded reason why a unit could not start; None if it has a run or no record."""
    if (folder / RUN).exists():
        return None
    try:
        tree = json.loads(read_text(inner_folder(folder) / UNSTARTABLE))
        unstartable: UnstartableUnit = from_plain(UnstartableUnit, tree)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return unstartable


def _diverged_at(folder: Path) -> int | None:
    if not (folder / RUN).exists():
        unstartable = read_unstartable(folder)
        return None if unstartable is None else unstartable.step
    return RunReader(folder).diverged_at


@dataclass(frozen=True)
class Answers:
    """The correct test examples of a run at its best and last test score: (N,) bool.

    Their means are the two scores.
    """

    best: Mask
    last: Mask


@dataclass(frozen=True)
class TrainedRun:
    """The result of a finished run. Accuracies (0…1) are those of its last regime, or NaN.

    Attributes:
        path: its folder.
        best, last: best and last test accuracy.
        epochs: epochs at which the following were measured.
        train, train_loss: accuracy and loss over the last training batches of each epoch.
        test: test accuracy at the end of each epoch.
        seconds: training time; its share if it was part of a stack.
        diverged_at: step at which the loss diverged, if it did.
        answers: correct test examples at both scores, if recorded.
        test_examples: number of test examples; 0 if unknown.
    """

    path: Path
    best: float
    last: float
    epochs: tuple[float, ...]
    train: tuple[float, ...]
    train_loss: tuple[float, ...]
    test: tuple[float, ...]
    seconds: float
    diverged_at: int | None
    answers: Answers | None = field(default=None, compare=False)
    test_examples: int = 0

    @property
    def train_accuracy(self) -> float:
        """Train accuracy over the last batches."""
        return self.train[-1] if self.train else math.nan


class UnitResults:
    """The results of the units in a sweep's folder; raises `UserError` for an unfinished unit.

    Args:
        root: the folder of the sweep.
        failed: ids of failed trainings, which have no score.
    """

    def __init__(self, root: Path, failed: Collection[str] = ()) -> None:
        self.root = root
        self._failed = frozenset(failed)
        self._times = StackTimes(root)
        self._trained: dict[str, TrainedRun] = {}
        self._calculated: dict[str, float] = {}  # seconds

    def trained_run(self, unit_id: str) -> TrainedRun:
        if unit_id not in self._trained:
            folder = unit_folder(self.root, unit_id)
            failed = unit_id in self._failed
            self._trained[unit_id] = (
                _empty_run(folder, None) if failed else _read_trained_run(folder, self._times)
            )
        return self._trained[unit_id]

    def calculation_result(self, unit_id: str) -> Any:
        folder = unit_folder(self.root, unit_id)
        value = read_result(folder)
        self._calculated[unit_id] = seconds_taken(folder)
        return value

    def seconds_of(self, *unit_ids: str, default: float = math.nan) -> float:
        """Return the total known time of these units in seconds; `default` if none is known."""
        times = {**self._calculated, **{name: run.seconds for name, run in self._trained.items()}}
        seconds = [times.get(unit_id, math.nan) for unit_id in unit_ids]
        finite = [value for value in seconds if not math.isnan(value)]
        return sum(finite) if finite else default

    @property
    def seconds(self) -> float:
        return self.seconds_of(*self._trained, *self._calculated, default=0.0)


def _read_trained_run(path: Path, times: StackTimes) -> TrainedRun:
    unstartable = read_unstartable(path)
    if unstartable is not None:
        return _empty_run(path, unstartable.step)
    reader = RunReader(path)
    scores: list[Measured] = []
    for event in reader.events:
        if isinstance(event, RegimeSwapped):
            scores = []
        elif isinstance(event, Measured):
            scores.append(event)
    started = reader.start_event
    steps = started.steps_per_epoch if started is not None else 1
    ends = [score for score in scores if score.step % steps == 0]
    tested = {
        score_event.step: score_event.test_accuracy
        for score_event in scores
        if score_event.test_accuracy is not None
    }
    tests = [score.test_accuracy for score in scores if score.test_accuracy is not None]
    examples = started.test_examples if started is not None else 0
    return TrainedRun(
        path=path,
        best=max(tests, default=math.nan),
        last=tests[-1] if tests else math.nan,
        epochs=tuple(score.step / steps for score in ends),
        train=tuple(score.train_accuracy for score in ends),
        train_loss=tuple(score.train_loss for score in ends),
        test=tuple(math.nan if e.test_accuracy is None else e.test_accuracy for e in ends),
        seconds=times.run_seconds(reader),
        diverged_at=reader.diverged_at,
        answers=_best_and_last_answers(path, tested, examples),
        test_examples=examples,
    )


def _best_and_last_answers(
    folder: Path, tested: Mapping[int, float], examples: int
) -> Answers | None:
    """Read the correct test examples at the best and last score.

    Args:
        folder: the run's folder.
        tested: test accuracies by step.
        examples: number of test examples.

    Returns:
        None unless they match the steps, the scores and the number of examples, as wrong answers
        are worse than none.
    """
    recorded = read_answers(folder)
    if not tested or recorded.example_count != examples:
        return None
    at_best, at_last = max(tested, key=lambda step: tested[step]), max(tested)
    best, last = recorded.best.get(at_best), recorded.last.get(at_last)
    if best is None or last is None:
        return None
    for mask, score in ((best, tested[at_best]), (last, tested[at_last])):
        if abs(float(mask.mean()) - score) > _SAME_SCORE:
            return None
    return Answers(best, last)


def _empty_run(path: Path, diverged_at: int | None) -> TrainedRun:
    """Return the result of a run without scores."""
    return TrainedRun(path, math.nan, math.nan, (), (), (), (), 0.0, diverged_at)
