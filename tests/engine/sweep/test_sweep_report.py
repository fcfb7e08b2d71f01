"""The report of a sweep: rows over seeds, and a figure for each varied field."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.html import render_html
from dgn_engine.experiments.report.sweep_report import FEW, sweep_document
from dgn_engine.sweep.statistics import mean_and_half_width
from dgn_engine.sweep.summary import SummaryRow
from dgn_engine.sweep.sweep_file import Sweep, SweepRun
from dgn_engine.sweep.unit import Training


def made(
    folder: Path, grid: dict[str, list[Any]], states: dict[int, str] | None = None
) -> Document:
    """A sweep over a grid; the best accuracy of a run is a hundredth of its number, plus one."""
    runs, lines = [], []
    for number, values in enumerate(product(*grid.values())):
        settings = dict(zip(grid, values, strict=True))
        state = (states or {}).get(number, "done")
        best = (number + 1) / 100 if state in ("done", "diverged") else math.nan
        runs.append(SweepRun(Training(f"r{number}", RunConfig()), settings))
        lines.append(
            SummaryRow(
                f"r{number}", settings, state, best, best, best, number + 1.0, 2.0, f"t{number}"
            )
        )
    sweep = Sweep(tuple(runs), tuple(grid))
    return sweep_document("lr", sweep, lines, "done", folder)


def test_a_row_is_the_mean_over_the_seeds_of_a_setting(tmp_path: Path) -> None:
    found = made(tmp_path, {"gating.regime": ["DL", "FL"], "seed": [0, 1, 2]})
    assert [row.label for row in found.rows] == ["regime DL", "regime FL"]
    first, second = found.rows
    assert first.values == pytest.approx((1.0, 2.0, 3.0))
    assert (second.mean, second.half_width) == pytest.approx(mean_and_half_width((4.0, 5.0, 6.0)))
    assert (first.of, first.epochs, first.seconds) == ("seeds", 3.0, 6.0)
    assert first.remark == "last 2.00 %; train 2.00 %"
    assert (found.scale, found.notices, found.seconds) == ("", (), 12.0)
    assert "<h1>Sweep lr</h1>" in render_html(found)


def test_seeds_are_replicates_and_no_field(tmp_path: Path) -> None:
    found = made(tmp_path, {"gating.regime": ["DL", "FL"], "seed": [0, 1, 2]})
    (figure,) = found.figures
    assert (figure.name, figure.x, figure.categories) == (
        "by-gating_regime",
        "gating.regime",
        ("DL", "FL"),
    )
    (line,) = figure.lines
    mean, half = mean_and_half_width((1.0, 2.0, 3.0))
    assert (line.style, line.x) == ("points", (0.0, 1.0))
    assert line.y == pytest.approx((mean, mean + 3.0))
    assert line.spread == pytest.approx((half, half))
    only = made(tmp_path, {"seed": [0, 1]})
    assert [row.label for row in only.rows] == ["all"]
    assert only.figures == ()


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ([1e-4, 1e-3, 1e-2], True),
        ([1, 10, 100], True),
        ([1, 10, 99], False),
        ([0, 1, 1000], False),
        ([-1.0, 1000.0], False),
    ],
)
def test_positive_numbers_over_two_decades_have_a_logarithmic_axis(
    values: list[float], log: bool, tmp_path: Path
) -> None:
    (figure,) = made(tmp_path, {"training.learning_rate": values}).figures
    assert figure.log_x is log
    (line,) = figure.lines
    assert (line.x, line.style, line.spread) == (tuple(map(float, values)), "line", ())


def test_numbers_are_in_their_order_and_other_fields_have_a_line_each(tmp_path: Path) -> None:
    found = made(tmp_path, {"net.options.width": [64, 32], "gating.regime": ["DL", "FL"]})
    by_width, by_regime = found.figures
    assert [(line.label, line.x, line.y) for line in by_width.lines] == [
        ("regime DL", (32.0, 64.0), pytest.approx((3.0, 1.0))),
        ("regime FL", (32.0, 64.0), pytest.approx((4.0, 2.0))),
    ]
    assert [line.label for line in by_regime.lines] == ["width 64", "width 32"]
    assert {row.of for row in found.rows} == {"runs"}


def test_many_settings_of_the_other_fields_are_averaged_seed_by_seed_and_it_is_said(
    tmp_path: Path,
) -> None:
    many = list(range(1, FEW + 2))
    found = made(tmp_path, {"a.width": many, "b.regime": ["DL", "FL"], "seed": [0, 1]})
    by_width, by_regime = found.figures
    assert len(by_width.lines) == 2, "few enough"
    (line,) = by_regime.lines
    assert by_regime.note.endswith("Values are means over all settings of a.width.")
    seeds = [[1.0 + 4 * place + seed for place in range(len(many))] for seed in (0, 1)]
    means = tuple(sum(some) / len(some) for some in seeds)
    assert (line.label, line.y[0]) == ("mean", pytest.approx(sum(means) / 2))
    assert line.spread[0] == pytest.approx(mean_and_half_width(means)[1])


def test_what_is_not_done_is_said_and_in_no_row(tmp_path: Path) -> None:
    grid = {"gating.regime": ["DL", "FL"], "seed": [0, 1]}
    found = made(tmp_path, grid, {1: "diverged", 2: "failed", 3: "interrupted"})
    (row,) = found.rows
    assert row.remark == "last 1.50 %; train 1.50 %; 1 diverged"
    assert found.notices == ("2 of 4 runs are done. No runs yet for: regime FL.",)
    assert found.figures == ()
    assert [unit.trouble for unit in found.units] == ["", "", "t2", ""], "of what failed"
    part = made(tmp_path, grid, {0: "failed"})
    assert part.rows[0].values == pytest.approx((2.0,))
    assert part.rows[0].remark.endswith("1 of 2 seeds are done")


def test_values_that_are_lists_or_of_several_kinds_are_categories(tmp_path: Path) -> None:
    found = made(tmp_path, {"data.binary": [[4, 7], [1, 2]], "net.bias": [True, False]})
    assert [figure.categories for figure in found.figures] == [("4 7", "1 2"), ("True", "False")]
