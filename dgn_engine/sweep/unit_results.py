"""What units came to, read from their folders and nothing else."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dgn_engine.protocol.events import Measured, RegimeSwapped, RunContinued
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.calculation import read_result, seconds_taken
from dgn_engine.sweep.unit import unit_folder
from dgn_engine.sweep.unstartable import read_unstartable


@dataclass(frozen=True)
class TrainedRun:
    """A run that is over. Accuracies (0…1) are those of its last regime; NaN where none exists.

    `epochs`, `train`, `test`: the accuracies at each epoch's end, `train` over the last stretch
    of training batches.
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

    @property
    def train_accuracy(self) -> float:
        """Of the last batches."""
        return self.train[-1] if self.train else math.nan


class UnitResults:
    """The units of one sweep's folder by id; raises `Refusal` where one is not done.

    `failed`: trainings that are known to have come to nothing; they have no score.
    """

    def __init__(self, root: Path, failed: Collection[str] = ()) -> None:
        self.root = root
        self._failed = frozenset(failed)
        self._trained: dict[str, TrainedRun] = {}
        self._calculated: dict[str, float] = {}  # seconds

    def trained(self, unit_id: str) -> TrainedRun:
        """Of a training."""
        if unit_id not in self._trained:
            folder = unit_folder(self.root, unit_id)
            failed = unit_id in self._failed
            self._trained[unit_id] = _nothing(folder, None) if failed else _read(folder)
        return self._trained[unit_id]

    def calculated(self, unit_id: str) -> Any:
        """The JSON value of a calculation."""
        folder = unit_folder(self.root, unit_id)
        value = read_result(folder)
        self._calculated[unit_id] = seconds_taken(folder)
        return value

    def seconds_of(self, *unit_ids: str, default: float = math.nan) -> float:
        """That these units took together, as far as it is known; `default` where it is of none."""
        told = [self._seconds_of(unit_id) for unit_id in unit_ids]
        known = [seconds for seconds in told if not math.isnan(seconds)]
        return sum(known) if known else default

    @property
    def seconds(self) -> float:
        """That all units read so far took together."""
        return self.seconds_of(*self._trained, *self._calculated, default=0.0)

    def _seconds_of(self, unit_id: str) -> float:
        read = self._trained.get(unit_id)
        return self._calculated.get(unit_id, math.nan) if read is None else read.seconds


def _read(path: Path) -> TrainedRun:
    orphan = read_unstartable(path)
    if orphan is not None:
        return _nothing(path, orphan.step)
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
    tests = [score.test_accuracy for score in scores if score.test_accuracy is not None]
    return TrainedRun(
        path=path,
        best=max(tests, default=math.nan),
        last=tests[-1] if tests else math.nan,
        epochs=tuple(score.step / steps for score in ends),
        train=tuple(score.train_accuracy for score in ends),
        train_loss=tuple(score.train_loss for score in ends),
        test=tuple(_or_nan(score.test_accuracy) for score in ends),
        seconds=_seconds(reader),
        diverged_at=reader.diverged_at,
    )


def _nothing(path: Path, diverged_at: int | None) -> TrainedRun:
    """Of a run that has not begun."""
    return TrainedRun(path, math.nan, math.nan, (), (), (), (), 0.0, diverged_at)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _seconds(reader: RunReader) -> float:
    """Between the lines of the log; the pause before a run went on does not count."""
    total = 0.0
    for before, after in pairwise(reader.lines):
        if after.name != RunContinued.__name__:
            total += max(0.0, after.at - before.at)
    return total
