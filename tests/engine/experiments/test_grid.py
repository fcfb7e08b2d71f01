"""Cells of units: how runs are named, what they need, and how all seeds of a cell are read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.config import RunConfig
from dgn_engine.experiments import dgn_hard_data
from dgn_engine.experiments._grid import (
    CalculatedCell,
    Grid,
    TrainedCell,
    calculation_unit,
    gate_source,
    mean_line,
    training_unit,
)
from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.protocol.experiments import Figure, Printed, Row
from dgn_engine.sweep.unit import Calculation, UnitFile
from tests.engine.experiments.made_up import MadeUpResults, approximately, make_run_of, make_runs_of

CONFIG = RunConfig()


def test_a_run_is_named_by_its_regime_unless_it_has_a_cell() -> None:
    assert training_unit(CONFIG, "DL", 3).id == "DL-s3"
    named = training_unit(CONFIG, "DL", 3, "other", beta=2.0)
    assert (named.id, named.config.seed) == ("other-s3", 3)
    assert (named.config.gating.regime, named.config.gating.beta) == ("DL", 2.0)


def test_only_a_regime_that_takes_gates_takes_those_of_a_run() -> None:
    relu = gate_source(CONFIG, 1)
    assert relu.config.training.keep_best
    assert training_unit(CONFIG, "DL", 1, gates_of=relu).gates_from is None
    assert training_unit(CONFIG, "FL", 1, gates_of=relu).gates_from == UnitFile(
        "ReLU-s1", "weights/best.safetensors"
    )
    other = UnitFile("x", "y.pt")
    assert training_unit(CONFIG, "FL", 1, gates_from=other).gates_from == other
    assert training_unit(CONFIG, "FL", 1, weights_from=other).weights_from == other
    assert gate_source(CONFIG, 1, "cell", "DL-linear").id == "cell-s1"


def test_a_calculation_names_its_function_its_arguments_and_its_needs() -> None:
    made = calculation_unit("x", dgn_hard_data.plan, gate_source(CONFIG, 1), n=3)  # type: ignore[arg-type]
    assert made == Calculation(
        "x", "dgn_engine.experiments.dgn_hard_data:plan", {"n": 3}, ("ReLU-s1",)
    )


def test_a_trained_cell_has_percents_and_the_longest_run_counts() -> None:
    short, long, none = (
        make_run_of(1009, epochs=(1.0,), test=(0.5,), train_loss=(0.25,)),
        make_run_of(1013, epochs=(1.0, 7.0), test=(0.25, 0.75), train_loss=(0.5, 0.75)),
        make_run_of(1019, epochs=(), test=(), train_loss=()),
    )
    cell = TrainedCell([short, long, none])
    assert cell.best == approximately([10.09, 10.13, 10.19])
    assert cell.last == approximately([5.045, 5.065, 5.095])
    assert (cell.seconds, cell.last_epoch) == (approximately(100.9 + 101.3 + 101.9), 7.0)
    assert TrainedCell([none]).last_epoch == 0.0
    line = cell.accuracy_line("a")
    assert (line.x, line.y) == ((1.0, 7.0), approximately((37.5, 75.0)))
    assert cell.loss_line("a").y == approximately((math.sqrt(0.25 * 0.5), 0.75))
    assert cell.row("r", Printed(3.0), "why", [2.0], "") == Row(
        "r", (2.0,), Printed(3.0), "", 7.0, approximately(304.1), "why"
    )


def test_a_calculated_cell_knows_its_seconds_or_not() -> None:
    cell = CalculatedCell([{"a": 1}, {"a": 2}], 3.0)
    assert cell["a"] == [1, 2]
    assert cell.known_seconds == 3.0
    assert CalculatedCell([], math.nan).known_seconds == 0.0
    assert cell.row("r", [4.0], Printed(5.0), "%") == Row(
        "r", (4.0,), Printed(5.0), "%", approximately(math.nan), 3.0
    )


def test_seconds_of_a_cell_are_those_of_its_seeds() -> None:
    results = MadeUpResults(values={f"c-s{s}": (s, 2.0**s) for s in range(4)})
    assert Grid(results, range(3)).read_calculated("c").seconds == 7.0


def test_a_row_has_one_step_the_best_in_the_mean_where_no_score_counts_as_nothing() -> None:
    scores = {  # by step and cell, of three seeds
        ("0.1", "FL"): (0.9, 0.9, math.nan),
        ("0.1", "DL"): (0.5, 0.5, 0.5),
        ("0.01", "FL"): (0.6, 0.6, 0.7),
        ("0.01", "DL"): (0.5, 0.5, 0.5),
    }
    runs = make_runs_of(f"p-{step}-{cell}" for step, cell in scores)
    for (step, cell), of_seeds in scores.items():
        for seed, score in enumerate(of_seeds):
            unit = f"p-{step}-{cell}-s{seed}"
            runs[unit] = replace(runs[unit], best=score)
    step, cells = Grid(MadeUpResults(runs), range(3)).best_step("p", (0.1, 0.01), ("FL", "DL"))
    assert (step, list(cells)) == (0.01, ["FL", "DL"]), "1.8 of 3 against 1.9"
    assert cells["FL"].best == approximately([60, 60, 70])
    runs["p-0.01-DL-s2"] = replace(runs["p-0.01-DL-s2"], best=0.3)
    step, cells = Grid(MadeUpResults(runs), range(3)).best_step("p", (0.1, 0.01), ("FL", "DL"))
    assert step == 0.1, "3.3 against 3.2: the other cell decides"
    assert cells["FL"].best == approximately([90, 90, math.nan])


@pytest.mark.parametrize(
    ("curves", "y", "spread"),
    [
        ([[1.0, 2.0]], (1.0, 2.0), ()),
        ([[1.0, 2.0], [3.0, 2.0]], (2.0, 2.0), (12.706204736174694, 0.0)),
        ([[1.0], [3.0, 5.0]], (2.0, 5.0), (12.706204736174694, 0.0)),
        ([[1.0], [1.0]], (1.0,), ()),
    ],
)
def test_curves_are_averaged_as_far_as_they_go(
    curves: list[list[float]], y: tuple[float, ...], spread: tuple[float, ...]
) -> None:
    """t(0.975) of one degree of freedom is 12.706; s/√2 of 1 and 3 is 1."""
    line = mean_line("a", (10, 20), curves)
    assert (line.x, line.y) == (approximately((10.0, 20.0)[: len(y)]), approximately(y))
    assert line.spread == approximately(spread)


def test_on_a_logarithmic_axis_the_mean_is_geometric_and_the_band_stays_positive() -> None:
    """A slow twin: numpy's mean and standard deviation of log10 y, with t(0.975) of 2 degrees."""
    values = np.array([[1.0, 5.0], [10.0, 0.2], [400.0, 0.0]])
    line = mean_line("a", (0, 1), values.tolist(), log=True)
    logs = np.log10(values[:, 0])
    assert line.y[0] == approximately(10 ** logs.mean())
    assert line.spread[0] == approximately(4.302652729911275 * logs.std(ddof=1) / math.sqrt(3))
    assert math.isnan(line.y[1]), "a zero has no logarithm: a gap"
    assert line.spread[1] == 0.0
    figure = Figure("f", "", "x", "y", (mean_line("a", (0, 1), values[:, :1].repeat(2, 1), True),))
    (chart,) = scene_of((replace(figure, log_y=True),)).charts
    band = next(curve for curve in chart.curves if curve.filled)
    ends = line.y[0] / 10 ** line.spread[0], line.y[0] * 10 ** line.spread[0]
    assert (band.y.min(), band.y.max()) == approximately(ends)
    assert chart.y.limits is not None
    assert 0 < chart.y.limits[0] < ends[0] < ends[1] < chart.y.limits[1], "nothing is cut"
