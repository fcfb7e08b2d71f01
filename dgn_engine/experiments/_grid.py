"""The grid of an experiment: a unit per cell and seed, and the rows and curves of each cell.

The id of a unit is 'CELL-sSEED'. A plan creates units with `training_unit` and `calculation_unit`;
findings read all seeds of a cell with `Grid`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dgn_engine.config import RunConfig
from dgn_engine.experiments._claims import Sample
from dgn_engine.experiments._configurations import in_regime, with_training
from dgn_engine.experiments._test_set_error import (
    binomial_variance,
    one_image,
    paired_variance,
)
from dgn_engine.protocol.experiments import Figure, PlottedLine, Printed, Row
from dgn_engine.regimes import find_regime
from dgn_engine.storage.runs.run_answers import Mask
from dgn_engine.sweep.statistics import mean_and_half_width
from dgn_engine.sweep.unit import Calculation, CalculationInputs, Training, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.training.weight_keeper import BEST, KEPT

BAND = "Lines: means over seeds; bands: 95 % intervals."
LOG_BAND = "Lines: geometric means over seeds; bands: 95 % intervals of the logarithm."


def training_unit(
    config: RunConfig,
    regime: str,
    seed: int,
    cell: str = "",
    *,
    gates_of: Training | None = None,
    gates_from: UnitFile | None = None,
    weights_from: UnitFile | None = None,
    **gating: object,
) -> Training:
    """Return the run of a cell for a seed.

    Args:
        config: the settings.
        regime: the regime.
        seed: the seed.
        cell: name of the cell; by default the regime.
        gates_of: run from which a regime with copied gates takes them, at its best test score.
        gates_from: another file to take gates from.
        weights_from: file with initial weights.
        gating: further settings of the gates.
    """
    if gates_of is not None and find_regime(regime).takes_gates:
        gates_from = UnitFile(gates_of.id, f"{KEPT}/{BEST}")
    config = in_regime(config, regime, seed, **gating)
    return Training(f"{cell or regime}-s{seed}", config, gates_from, weights_from)


def gate_source(config: RunConfig, seed: int, cell: str = "", regime: str = "ReLU") -> Training:
    """Return a run that keeps the weights at its best test score, for others to copy its gates."""
    return training_unit(with_training(config, keep_best=True), regime, seed, cell)


def five_regimes(config: RunConfig, seed: int, prefix: str) -> Iterator[Training]:
    """Yield runs of ReLU, FR-II, FR-DI, DL and FL, in cells 'PREFIX-REGIME'.

    FL has the gates of the ReLU network at its best test score.
    """
    relu = gate_source(config, seed, f"{prefix}-ReLU")
    yield relu
    for regime in ("FR-II", "FR-DI", "DL", "FL"):
        yield training_unit(config, regime, seed, f"{prefix}-{regime}", gates_of=relu)


def calculation_unit(
    unit_id: str,
    function: Callable[[CalculationInputs], Any],
    *needs: Training,
    **arguments: object,
) -> Calculation:
    """Return a calculation that calls a module-level function.

    Args:
        unit_id: id of the unit.
        function: the function; its module and name are stored in the unit.
        needs: units whose folders it reads.
        arguments: its arguments, plain JSON values.
    """
    name = f"{function.__module__}:{function.__name__}"
    return Calculation(unit_id, name, arguments, tuple(unit.id for unit in needs))


@dataclass(frozen=True)
class TrainedCell:
    """The runs of a cell, one per seed."""

    runs: list[TrainedRun]

    @property
    def best(self) -> list[float]:
        """Best test accuracies in percent."""
        return [100 * run.best for run in self.runs]

    @property
    def last(self) -> list[float]:
        """Last test accuracies in percent."""
        return [100 * run.last for run in self.runs]

    def correct_answers(self, at: Literal["best", "last"]) -> list[Mask] | None:
        """Return the correct test examples of each run; None if a run has no record of them.

        Args:
            at: at the best or at the last test score.
        """
        masks_known = [run.answers for run in self.runs if run.answers is not None]
        if not masks_known:
            return None
        masks = [record.best if at == "best" else record.last for record in masks_known]
        complete = len(masks) == len(self.runs) and len({len(mask) for mask in masks}) == 1
        return masks if complete else None

    @property
    def test_examples(self) -> int:
        """Number of test examples; 0 if unknown."""
        return min(run.test_examples for run in self.runs)

    @property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.runs)

    @property
    def last_epoch(self) -> float:
        """Last epoch of the longest run; 0 if no run completed an epoch."""
        return max((run.epochs[-1] for run in self.runs if run.epochs), default=0.0)

    def row(
        self,
        label: str,
        printed: Printed | None = None,
        remark: str = "",
        values: Sequence[float] | None = None,
        unit: str = "%",
        place: tuple[str, str] | None = None,
        of: str = "seeds",
    ) -> Row:
        """Return a row of the best test accuracies, or of other `values`, one per replicate.

        Args:
            label: its title.
            printed: the paper's number.
            remark: a remark.
            values: other values.
            unit: their unit.
            place: row and column in the paper's table.
            of: what the replicates are.
        """
        numbers = tuple(self.best if values is None else values)
        return Row(label, numbers, printed, unit, self.last_epoch, self.seconds, remark, of, place)

    def accuracy_line(self, label: str) -> PlottedLine:
        return mean_line(
            label, self._longest_epochs, [[100 * s for s in run.test] for run in self.runs]
        )

    def loss_line(self, label: str) -> PlottedLine:
        """Return the geometric mean of the training losses, for a logarithmic axis."""
        losses = [run.train_loss for run in self.runs]
        return mean_line(label, self._longest_epochs, losses, log=True)

    @property
    def _longest_epochs(self) -> tuple[float, ...]:
        return max((run.epochs for run in self.runs), key=len)


@dataclass(frozen=True)
class CalculatedCell:
    """The results (JSON values) of a cell, one per seed, and their total time, or NaN."""

    results: list[Any]
    seconds: float

    def __getitem__(self, key: str) -> list[Any]:
        return [result[key] for result in self.results]

    @property
    def known_seconds(self) -> float:
        return 0.0 if math.isnan(self.seconds) else self.seconds

    def row(
        self,
        label: str,
        values: Sequence[float],
        printed: Printed | None = None,
        unit: str = "",
        of: str = "seeds",
    ) -> Row:
        """Return a row with one value per seed; `of` is what the replicates are."""
        return Row(label, tuple(values), printed, unit, seconds=self.seconds, of=of)


@dataclass(frozen=True)
class Grid:
    """The results of all seeds, to be read cell by cell."""

    results: UnitResults
    seeds: range

    def read_trained(self, cell: str) -> TrainedCell:
        """Read the runs of a cell; raises `UserError` if one is not done."""
        return TrainedCell([self.results.trained_run(unit_id) for unit_id in self._unit_ids(cell)])

    def read_calculated(self, cell: str) -> CalculatedCell:
        """Read the calculations of a cell; raises `UserError` if one is not done."""
        values = [self.results.calculation_result(unit_id) for unit_id in self._unit_ids(cell)]
        return CalculatedCell(values, self.results.seconds_of(*self._unit_ids(cell)))

    def best_step(
        self, prefix: str, steps: Sequence[float], cells: Sequence[str]
    ) -> tuple[float, dict[str, TrainedCell]]:
        """Return the best learning rate for the cells of a row, and their runs with it.

        It has the highest mean accuracy over cells and seeds. A run that diverged before its first
        score counts as zero.

        Args:
            prefix: the ids are 'PREFIX-STEP-CELL-sSEED'.
            steps: the learning rates.
            cells: the cells.
        """

        def total_accuracy(found: tuple[float, dict[str, TrainedCell]]) -> float:
            """Sum the accuracies, which suffices as all cells have the same seeds."""
            runs = [run for cell in found[1].values() for run in cell.runs]
            return sum(0.0 if math.isnan(run.best) else run.best for run in runs)

        rows = [
            (step, {cell: self.read_trained(f"{prefix}-{step:g}-{cell}") for cell in cells})
            for step in steps
        ]
        return max(rows, key=total_accuracy)

    def _unit_ids(self, cell: str) -> list[str]:
        return [f"{cell}-s{seed}" for seed in self.seeds]


def pairwise_difference(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(one, other, strict=True)]


Term = tuple[float, TrainedCell]


def contrast(*terms: Term, at: Literal["best", "last"] = "best") -> Sample:
    """Return Σ coefficient · test accuracy in percentage points, one value per seed.

    The variance due to the finite test set is computed from the correct examples of each run, or
    bounded by the accuracies if these were not recorded; it is at least one image. A mean over
    models is a contrast of as many terms.

    Args:
        terms: coefficients and cells with the same seeds.
        at: whether to use the best or the last test score of each run.
    """
    scored = [
        _Scored(coefficient, cell, cell.best if at == "best" else cell.last)
        for coefficient, cell in terms
    ]
    coefficients = [term.coefficient for term in scored]
    weighted = zip(*(term.accuracies for term in scored), strict=True)
    values = tuple(sum(map(operator.mul, coefficients, seed)) for seed in weighted)
    sets: dict[int, list[_Scored]] = {}
    for term in scored:
        sets.setdefault(term.cell.test_examples, []).append(term)
    least = max(map(one_image, sets), default=0.0)
    variance = sum(_test_variance(shared, size, at) for size, shared in sets.items())
    return Sample(values, test_variance=max(variance, least))


class _Scored(NamedTuple):
    """A term of a contrast with its accuracies in percent, one per seed."""

    coefficient: float
    cell: TrainedCell
    accuracies: list[float]


def _test_variance(terms: Sequence[_Scored], size: int, at: Literal["best", "last"]) -> float:
    """Return the test-set variance of terms that share a test set of `size` examples."""
    answers = [term.cell.correct_answers(at) for term in terms]
    known = [masks for masks in answers if masks is not None]
    if len(known) == len(terms):
        return paired_variance(
            [(term.coefficient, masks) for term, masks in zip(terms, known, strict=True)]
        )
    means = [(term.coefficient, _mean(term.accuracies) / 100) for term in terms]
    return binomial_variance(means, size)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def mean_line(
    label: str, x: Sequence[float], curves: Sequence[Sequence[float]], log: bool = False
) -> PlottedLine:
    """Return the mean of the curves at each x with the half-width of its 95 % interval.

    Shorter curves count as far as they go. With `log`, for curves on a logarithmic axis, both are
    those of log10 y; where a value is not positive, the line has a gap.
    """
    if log:
        curves = [[math.log10(y) if y > 0 else math.nan for y in curve] for curve in curves]
    columns = [
        tuple(curve[index] for curve in curves if index < len(curve)) for index in range(len(x))
    ]
    points = [(at, values) for at, values in zip(x, columns, strict=True) if values]
    means, halves = [], []
    for _, values in points:
        mean, half = mean_and_half_width(values)
        means.append(10.0**mean if log else mean)
        halves.append(0.0 if math.isnan(half) else half)
    spread = tuple(halves) if any(halves) else ()
    at = tuple(float(at) for at, _ in points)
    return PlottedLine(label, at, tuple(means), spread, log=log)


def start_and_end(
    label: str, curves: Sequence[Sequence[float]], cell: CalculatedCell, runs: TrainedCell
) -> Iterator[Row]:
    """Yield rows for the start and the end of curves over the kept epochs.

    The time of the row for the start does not include training.
    """
    epochs = cell["epochs"][0]
    for when, index in (("start", 0), ("end", -1)):
        values = tuple(curve[index] for curve in curves)
        seconds = cell.known_seconds + (runs.seconds if index else 0.0)
        yield Row(f"{label} at the {when}", values, unit="", epochs=epochs[index], seconds=seconds)


def learning_curves(title: str, cells: Mapping[str, TrainedCell], name: str = "learning") -> Figure:
    """Plot test accuracies against epochs, one line per label."""
    lines = tuple(cell.accuracy_line(label) for label, cell in cells.items())
    return Figure(name, title, "epoch", "test accuracy (%)", lines, note=BAND)


def loss_curves(
    title: str, cells: Mapping[str, TrainedCell], loss: str = "cross entropy", name: str = "loss"
) -> Figure:
    """Plot training losses, named `loss` on their axis, against epochs; one line per label."""
    lines = tuple(cell.loss_line(label) for label, cell in cells.items())
    return Figure(name, title, "epoch", loss, lines, log_y=True, note=LOG_BAND)
