"""What the folder of a unit says: its state, what came out, and nothing else is asked.

A training cannot begin where the run whose weights or gates it takes diverged before it left them:
it counts as diverged itself, and its folder says why (`UnstartableUnit`).
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
from dgn_engine.storage.inner_path import inside
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
_SAME_SCORE = 1e-9  # between a logged accuracy and the share of right answers


def state_of(unit: Unit, root: Path) -> FolderState:
    """Return what a unit's folder says; raises `UserError` where it holds another unit's work."""
    folder = unit_folder(root, unit.id)
    if isinstance(unit, Calculation):
        return "done" if is_calculated(unit, folder) else "new"
    if not (folder / RUN).exists():
        return "diverged" if find_unstartable(unit, root) and read_unstartable(folder) else "new"
    reader = RunReader(folder)
    if not reader.config.same_run(unit.resolved(root)):
        raise UserError(
            f"{folder} holds a run with another configuration; choose another folder with --out.",
            kind="other-run",
            value=str(folder),
        )
    status = reader.outcome
    if status in ("finished", "diverged"):
        return "done" if status == "finished" else "diverged"
    return "begun"


@dataclass(frozen=True)
class UnstartableUnit:
    """`source`: the unit that left nothing; `step`: at which the first of them diverged."""

    source: str
    step: int


def find_unstartable(unit: Unit, root: Path) -> UnstartableUnit | None:
    """Return what keeps a unit from beginning once its needs are over; None where nothing does."""
    if not isinstance(unit, Training) or (unit_folder(root, unit.id) / RUN).exists():
        return None
    for made in (unit.gates_from, unit.weights_from):
        if made is not None and not made.path(root).exists():
            step = _diverged_at(unit_folder(root, made.unit))
            if step is not None:
                return UnstartableUnit(made.unit, step)
    return None


def record_unstartable(unit_id: str, unstartable: UnstartableUnit, root: Path) -> None:
    """Say in the unit's folder why it cannot begin, for readers of results."""
    folder = unit_folder(root, unit_id)
    make_folders(folder)
    write_file(inside(folder) / UNSTARTABLE, json.dumps(to_plain(unstartable)).encode())


def read_unstartable(folder: Path) -> UnstartableUnit | None:
    """Return why a unit cannot begin, as its folder says where it holds no run."""
    if (folder / RUN).exists():
        return None
    try:
        tree = json.loads(read_text(inside(folder) / UNSTARTABLE))
        found: UnstartableUnit = from_plain(UnstartableUnit, tree)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return found


def _diverged_at(folder: Path) -> int | None:
    if not (folder / RUN).exists():
        unstartable = read_unstartable(folder)
        return None if unstartable is None else unstartable.step
    return RunReader(folder).diverged_at


@dataclass(frozen=True)
class Answers:
    """Which test examples a run answered right at its best and at its last test score: (N,) bool.

    Their means are the two scores.
    """

    best: Mask
    last: Mask


@dataclass(frozen=True)
class TrainedRun:
    """A run that is over. Accuracies (0…1) are those of its last regime; NaN where none exists.

    `epochs`, `train`, `test`: the accuracies at each epoch's end, `train` over the last stretch
    of training batches. `answers`: None where the folder does not hold those of both scores.
    `test_examples`: 0 where that is not known. `seconds` of training; of a run in a stack, its
    share of them.
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
    """The units of one sweep's folder by id; raises `UserError` where one is not done.

    `failed`: trainings that are known to have come to nothing; they have no score.
    """

    def __init__(self, root: Path, failed: Collection[str] = ()) -> None:
        self.root = root
        self._failed = frozenset(failed)
        self._times = StackTimes(root)
        self._trained: dict[str, TrainedRun] = {}
        self._calculated: dict[str, float] = {}  # seconds

    def trained(self, unit_id: str) -> TrainedRun:
        if unit_id not in self._trained:
            folder = unit_folder(self.root, unit_id)
            failed = unit_id in self._failed
            self._trained[unit_id] = (
                _nothing(folder, None) if failed else _read(folder, self._times)
            )
        return self._trained[unit_id]

    def calculated(self, unit_id: str) -> Any:
        folder = unit_folder(self.root, unit_id)
        value = read_result(folder)
        self._calculated[unit_id] = seconds_taken(folder)
        return value

    def seconds_of(self, *unit_ids: str, default: float = math.nan) -> float:
        """Return the time of these units as far as it is known; `default` where it is of none."""
        taken = {**self._calculated, **{name: run.seconds for name, run in self._trained.items()}}
        seconds = [taken.get(unit_id, math.nan) for unit_id in unit_ids]
        known = [one for one in seconds if not math.isnan(one)]
        return sum(known) if known else default

    @property
    def seconds(self) -> float:
        return self.seconds_of(*self._trained, *self._calculated, default=0.0)


def _read(path: Path, times: StackTimes) -> TrainedRun:
    unstartable = read_unstartable(path)
    if unstartable is not None:
        return _nothing(path, unstartable.step)
    reader = RunReader(path)
    scores: list[Measured] = []
    for event in reader.events:
        if isinstance(event, RegimeSwapped):
            scores = []
        elif isinstance(event, Measured):
            scores.append(event)
    started = reader.started
    steps = started.steps_per_epoch if started is not None else 1
    ends = [score for score in scores if score.step % steps == 0]
    tested = {one.step: one.test_accuracy for one in scores if one.test_accuracy is not None}
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
        seconds=times.seconds(reader),
        diverged_at=reader.diverged_at,
        answers=_answers(path, tested, examples),
        test_examples=examples,
    )


def _answers(folder: Path, tested: Mapping[int, float], examples: int) -> Answers | None:
    """Those of the best and of the last score; `tested`: accuracies by step.

    None where they are not of this step, this score and so many examples: answers that could
    belong to another score are worse than none.
    """
    found = read_answers(folder)
    if not tested or found.examples != examples:
        return None
    at_best, at_last = max(tested, key=lambda step: tested[step]), max(tested)
    best, last = found.best.get(at_best), found.last.get(at_last)
    if best is None or last is None:
        return None
    for mask, score in ((best, tested[at_best]), (last, tested[at_last])):
        if abs(float(mask.mean()) - score) > _SAME_SCORE:
            return None
    return Answers(best, last)


def _nothing(path: Path, diverged_at: int | None) -> TrainedRun:
    """Return the result of a run that has not begun."""
    return TrainedRun(path, math.nan, math.nan, (), (), (), (), 0.0, diverged_at)
