"""The progress of a reproduction, computed from executor updates, stored in `progress.json`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.result_layout import PROGRESS
from dgn_engine.frozen_data import dataclass
from dgn_engine.regimes import find_regime
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.regular_files import read_text
from dgn_engine.sweep.schedule import OVER, UnitProgress
from dgn_engine.sweep.unit import Training, Unit
from dgn_engine.text.written_numbers import format_percent

LEAST = 0.002  # share of the work that must be done before the remaining time is estimated


@dataclass(frozen=True)
class RunningUnit:
    """A running unit; `score` is its best test accuracy so far (0…1)."""

    unit: str
    fraction: float
    score: float | None = None


@dataclass(frozen=True)
class FailedUnit:
    """A unit that failed permanently, and the end of its log."""

    unit: str
    trouble: str


@dataclass(frozen=True)
class ReproductionProgress:
    """The progress of a reproduction.

    Attributes:
        name: the experiment.
        state: see `results.json`.
        total, done, failed: numbers of units.
        fraction: share of the work that is done (0…1).
        elapsed: seconds since the start.
        left: estimated seconds left; None if not known yet.
        best: the unit with the best score so far.
        running: running units.
        failures: failed units.
    """

    name: str
    state: str
    total: int
    done: int
    failed: int
    fraction: float
    elapsed: float
    left: float | None = None
    best: RunningUnit | None = None
    running: tuple[RunningUnit, ...] = ()
    failures: tuple[FailedUnit, ...] = ()


class ProgressTally:
    """Tracks progress from the updates of an executor. The work of a unit is its number of epochs.

    The remaining time is extrapolated from the rate of steps since the first one, so that the time
    to start processes and load data is excluded. Future units are expected to stop as early as
    finished ones.
    """

    def __init__(
        self, name: str, units: Sequence[Unit], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._now = now
        self._work = {unit.id: work_of(unit) for unit in units}
        self._trainings = {unit.id for unit in units if isinstance(unit, Training)}
        self.last: dict[str, UnitProgress] = {}
        self._began = now()
        self._start: tuple[float, float] | None = None  # time, work done: before the first step
        self._best: RunningUnit | None = None

    def add(self, progress: UnitProgress) -> None:
        self.last[progress.unit] = progress
        if self._start is None and progress.state != "skipped" and self._has_taken_steps(progress):
            self._start = self._now(), self._work_done()
        score = progress.score
        if score is not None and score == score:
            scored = RunningUnit(progress.unit, progress.fraction, score)
            if self._best is None or self._best.score is None or score > self._best.score:
                self._best = scored

    def progress(self, state: str = "running") -> ReproductionProgress:
        total = sum(self._work.values()) or 1.0
        done = sum(
            self._work.get(unit, 0.0) * _done_share(last) for unit, last in self.last.items()
        )
        now = self._now()
        units = self.last.values()
        return ReproductionProgress(
            name=self._name,
            state=state,
            total=len(self._work),
            done=sum(
                unit_progress.state in OVER and unit_progress.state != "failed"
                for unit_progress in units
            ),
            failed=sum(unit_progress.state == "failed" for unit_progress in units),
            fraction=min(1.0, done / total),
            elapsed=now - self._began,
            left=self._seconds_left(now),
            best=self._best,
            running=tuple(
                RunningUnit(unit_progress.unit, unit_progress.fraction, unit_progress.score)
                for unit_progress in units
                if unit_progress.state == "running"
            ),
            failures=tuple(
                FailedUnit(unit_progress.unit, unit_progress.trouble)
                for unit_progress in units
                if unit_progress.state == "failed"
            ),
        )

    def _has_taken_steps(self, progress: UnitProgress) -> bool:
        """Return whether training steps were taken, or, without trainings, any work was done."""
        return progress.fraction > 0 and (progress.unit in self._trainings or not self._trainings)

    def _work_done(self) -> float:
        """Return the work done, counting only steps taken by units that stopped early."""
        return sum(self._work.get(u, 0.0) * _trained_share(last) for u, last in self.last.items())

    def _seconds_left(self, now: float) -> float | None:
        if self._start is None:
            return None
        began, before = self._start
        done = self._work_done()
        over = {unit for unit, last in self.last.items() if last.state in OVER}
        ended = [
            self.last[unit].trained
            for unit in over & self._trainings
            if self.last[unit].state == "done"
        ]
        usual = sum(ended) / len(ended) if ended else 1.0
        to_come = sum(
            work * max(0.0, usual - (_trained_share(self.last[unit]) if unit in self.last else 0.0))
            for unit, work in self._work.items()
            if unit not in over
        )
        if done - before <= LEAST * (done + to_come):
            return 0.0 if not to_come else None
        return to_come * (now - began) / (done - before)


def work_of(unit: Unit) -> float:
    """Return the work of a unit: the epochs of a training, 1 for a calculation."""
    if not isinstance(unit, Training):
        return 1.0
    gating = unit.config.gating
    epochs = unit.config.training.epochs
    learns_gates = find_regime(gating.regime).takes_gates and not gating.gates_from
    if learns_gates and unit.gates_from is None:
        epochs += gating.pretrain_epochs or epochs
    return float(max(epochs, 1))


def write_progress(progress: ReproductionProgress, folder: Path) -> None:
    """Write `progress.json` atomically, ignoring errors; no sync, as it is rewritten often."""
    content = json.dumps(to_plain(progress)).encode()
    with suppress(OSError):
        write_file(inner_folder(folder) / PROGRESS, content, synced=False)


def read_progress(folder: Path) -> ReproductionProgress:
    """Read `progress.json`; raises `UserError` if it is missing or damaged."""
    path = inner_folder(folder) / PROGRESS
    try:
        tree = json.loads(read_text(path))
        progress: ReproductionProgress = from_plain(ReproductionProgress, tree)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"Cannot read {path}: {error}.", kind="no-file", value=str(path)) from None
    return progress


def _trained_share(progress: UnitProgress) -> float:
    """Return the share of its steps that a unit has taken."""
    over = progress.state in OVER and progress.state != "failed"
    return progress.trained if over else min(1.0, max(0.0, progress.fraction))


def _done_share(progress: UnitProgress) -> float:
    return 1.0 if progress.state in OVER else min(1.0, max(0.0, progress.fraction))


def result_status(folder: Path) -> str:
    """Return the status of a result: 'none', 'interrupted, 40 % done' or 'done 2026-11-21'."""
    try:
        now = read_progress(folder)
    except UserError:
        return "none"
    if now.state == "done":
        try:
            return f"done {document.read_document(folder).made[:10]}"
        except UserError:
            return "damaged"
    state = "interrupted" if now.state == "running" else now.state
    return f"{state}, {format_percent(now.fraction, 0)} done"
