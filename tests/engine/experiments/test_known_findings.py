"""An interrupted or failed report holds what is done, and no number that could still change."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.errors import UserError
from dgn_engine.experiments import (
    Experiment,
    Figure,
    Findings,
    Plan,
    PlottedLine,
    Request,
    Row,
    all_experiments,
)
from dgn_engine.experiments._claims import above, judge
from dgn_engine.experiments._grid import Grid, learning_curves
from dgn_engine.experiments.report import document, reproduction_progress
from dgn_engine.experiments.report.known_findings import (
    KnownFindings,
    guess_accuracies,
    known_findings,
)
from dgn_engine.sweep.unit import Calculation, Training
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from tests.engine.experiments.made_up import MadeUpResults, make_runs_of
from tests.plugins import each

EXPERIMENTS = all_experiments()
TRAINED = [
    name
    for name, one in EXPERIMENTS.items()
    if all(isinstance(unit, Training) for unit in one.plan(Request()).units)
]


class Made(UnitResults):
    """A run for each id with scores of its own; what is missing must not be asked for."""

    def __init__(self, missing: Collection[str] = ()) -> None:
        super().__init__(Path())
        self.missing = missing

    def trained_run(self, unit_id: str) -> TrainedRun:
        assert unit_id not in self.missing
        draw = random.Random(unit_id)
        test = tuple(0.5 + 0.4 * draw.random() for _ in range(3))
        curve = (0.9, 0.95, 0.8 + 0.1 * draw.random())
        best, last = max(test), test[-1]
        return TrainedRun(Path(), best, last, (1.0, 2.0, 3.0), curve, curve, test, 1.0, None)


@pytest.mark.wide
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("name", each(TRAINED))
def test_what_is_known_is_what_the_whole_will_say(name: str, share: float) -> None:
    experiment, request = EXPERIMENTS[name], Request()
    plan = experiment.plan(request)
    draw = random.Random(f"{name} {share}")
    missing = {unit.id for unit in plan.units if draw.random() < share}
    whole = experiment.findings(request, Made())
    known = known_findings(experiment, request, plan, Made(missing), missing)
    by_label = {row.label: row for row in whole.rows}
    for row in known.found.rows:
        assert set(row.values) <= set(by_label[row.label].values)
    for claim in known.found.claims:
        assert repr(claim) in map(repr, whole.claims)
    lines = {repr(line) for figure in whole.figures for line in figure.lines}
    assert {repr(line) for figure in known.found.figures for line in figure.lines} <= lines
    said = {row.label for row in known.found.rows} | set(known.missing)
    assert said == set(by_label), "every row is there, or is said to be missing"
    assert len(known.found.claims) + known.claims == len(whole.claims)


@pytest.mark.parametrize("name", each(TRAINED))
def test_where_nothing_is_missing_all_is_known(name: str) -> None:
    experiment, request = EXPERIMENTS[name], Request()
    known = known_findings(experiment, request, experiment.plan(request), Made(), ())
    whole = experiment.findings(request, Made())
    assert [repr(row) for row in known.found.rows] == [repr(row) for row in whole.rows]
    assert (known.missing, known.partial, known.claims) == ((), (), 0)


def _read(cells: Collection[str], missing: Collection[str], findings: Any) -> KnownFindings:
    runs = {k: v for k, v in make_runs_of(cells, 3).items() if k not in missing}
    experiment = Experiment("T", "P", "A", lambda _: Plan(()), findings, 0.0, 0.0)
    return known_findings(experiment, Request(), Plan(()), MadeUpResults(runs), missing)


def test_a_row_has_the_seeds_that_are_done_and_says_of_how_many() -> None:
    def findings(request: Request, results: UnitResults) -> Findings:
        cells = {name: Grid(results, range(3)).read_trained(name) for name in ("a", "b", "c")}
        rows = tuple(cell.row(name, remark="as is") for name, cell in cells.items())
        claim = judge(("a", "a above"), "a", above(cells["a"].best))
        other = judge(("b", "b above"), "b", above(cells["b"].best))
        return Findings(rows, (claim, other), (learning_curves("T", cells),))

    known = _read(("a", "b", "c"), ("b-s1", "c-s0", "c-s1", "c-s2"), findings)
    runs = make_runs_of(("a", "b", "c"), 3)
    whole, part = known.found.rows
    assert whole.values == tuple(100 * runs[f"a-s{seed}"].best for seed in range(3))
    assert part.values == tuple(100 * runs[f"b-s{seed}"].best for seed in (0, 2))
    assert (whole.remark, part.remark) == ("as is", "as is; 2 of 3 seeds are done")
    assert (known.missing, known.partial, known.claims) == (("c",), ("b",), 1)
    assert [claim.statement for claim in known.found.claims] == ["a above"]
    (figure,) = known.found.figures
    assert [line.label for line in figure.lines] == ["a"]


@pytest.mark.parametrize("missing_step", ["0.01", "0.1"])
def test_the_best_of_several_steps_is_open_until_all_of_them_are_done(missing_step: str) -> None:
    """Neither is the number of a step that is done shown before the other is known."""

    def findings(request: Request, results: UnitResults) -> Findings:
        cells = Grid(results, range(3)).best_step("sgd", (0.1, 0.01), ("ReLU",))[1]
        return Findings((cells["ReLU"].row("ReLU"),))

    cells = ("sgd-0.1-ReLU", "sgd-0.01-ReLU")
    for seeds in ((0, 1, 2), (2,)):
        missing = [f"sgd-{missing_step}-ReLU-s{seed}" for seed in seeds]
        known = _read(cells, missing, findings)
        assert (known.found.rows, known.missing) == ((), ("ReLU",))
    both = [f"{cell}-s2" for cell in cells]
    assert _read(cells, both, findings).found.rows == (), "either may come out ahead"


def test_a_step_is_open_while_other_cells_of_its_row_could_still_change_the_choice() -> None:
    regimes = ("DL", "FL", "FR-II", "ReLU")

    def findings(request: Request, results: UnitResults) -> Findings:
        cells = Grid(results, range(3)).best_step("sgd", (0.1, 1e-05), regimes)[1]
        return Findings((cells["DL"].row("DL"),))

    cells = [f"sgd-{step:g}-{regime}" for step in (0.1, 1e-05) for regime in regimes]
    for cut in (1, 2, 3):
        some = [f"{cell}-s{s}" for cell in cells[cut:4] + cells[5:] for s in range(3)]
        assert _read(cells, some, findings).found.rows == ()


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 64])
def test_of_any_two_missing_cells_each_is_guessed_above_the_other(cells: int) -> None:
    missing = [f"cell{number}-s{seed}" for number in range(cells) for seed in range(2)]
    found = list(guess_accuracies(missing))
    assert len(found) < 32
    for one in missing:
        assert {0.0, 1.0} <= {guess[one] for guess in found}
        for other in missing:
            if one.partition("-")[0] != other.partition("-")[0]:
                assert any(guess[one] == 1.0 and guess[other] == 0.0 for guess in found)


def test_what_rests_on_a_missing_calculation_is_left_out() -> None:
    def findings(request: Request, results: UnitResults) -> Findings:
        grid = Grid(results, range(2))
        rows = [
            Row(name, tuple(one["value"] for one in grid.read_calculated(name).results), unit="")
            for name in ("w8", "w16")
        ]
        image = Figure("i", "I", "", "", (), image=((float(rows[0].values[0]),),))
        lines = (PlottedLine("across", (), (2.0,)), PlottedLine("w16", (), rows[1].values[:1]))
        return Findings(tuple(rows), (), (image, Figure("f", "F", "x", "y", lines)))

    def value(number: float) -> tuple[Any, float]:
        return {"value": number, "steps": [1, 2], "ok": True, "name": "x", "none": None}, 1.0

    units = tuple(Calculation(f"w{w}-s{s}", "a.b:c") for w in (8, 16) for s in range(2))
    done = {"w8-s0": value(0.25), "w8-s1": value(0.5), "w16-s0": value(0.75)}
    made = Experiment("T", "P", "A", lambda _: Plan(units), findings, 0.0, 0.0)
    known = known_findings(made, Request(), Plan(units), MadeUpResults({}, done), ["w16-s1"])
    assert [row.values for row in known.found.rows] == [(0.25, 0.5), (0.75,)]
    assert [figure.name for figure in known.found.figures] == ["i", "f"]
    known = known_findings(
        made, Request(), Plan(units), MadeUpResults({}, done), ["w16-s0", "w16-s1"]
    )
    assert [row.label for row in known.found.rows] == ["w8"]
    assert [line.label for line in known.found.figures[1].lines] == ["across"]
    nothing = known_findings(
        made, Request(), Plan(units), MadeUpResults({}, {}), [unit.id for unit in units]
    )
    assert nothing == KnownFindings(Findings(), why="No calculation like 'w8-s0' has finished.")


def test_a_missing_calculation_is_guessed_to_have_the_shape_of_its_own_cell() -> None:
    def findings(request: Request, results: UnitResults) -> Findings:
        cells = {n: Grid(results, range(2)).read_calculated(f"w{n}")["steps"] for n in (2, 3)}
        assert all(len(one) == n for n, cell in cells.items() for one in cell)
        return Findings((Row("first", tuple(one[0] for one in cells[2]), unit=""),))

    units = tuple(Calculation(f"w{n}-s{s}", "a.b:c") for n in (2, 3) for s in range(2))
    done = {u.id: ({"steps": [0.5] * int(u.id[1])}, 1.0) for u in units if u.id != "w3-s1"}
    made = Experiment("T", "P", "A", lambda _: Plan(units), findings, 0.0, 0.0)
    known = known_findings(made, Request(), Plan(units), MadeUpResults({}, done), ["w3-s1"])
    assert [row.values for row in known.found.rows] == [(0.5, 0.5)]


def test_rows_that_can_be_chosen_are_read_alone_where_nothing_like_the_rest_is_done() -> None:
    def plan(request: Request) -> Plan:
        rows = [row for row in ("first", "second") if request.only in row]
        return Plan(tuple(Calculation(f"{row}-s0", f"a.b:{row}") for row in rows))

    def findings(request: Request, results: UnitResults) -> Findings:
        names = [unit.id for unit in plan(request).units]
        values = [results.calculation_result(name) for name in names]
        claims = [judge(("order", name), "s", above((1.0, 1.1, 1.2))) for name in names]
        rows = [Row(name, (value,)) for name, value in zip(names, values, strict=True)]
        return Findings(tuple(rows), tuple(claims), remarks=("r",))

    made = Experiment("T", "P", "A", plan, findings, 0.0, 0.0, rows=("first", "second"))
    results = MadeUpResults({}, {"first-s0": (0.5, 1.0)})
    known = known_findings(made, Request(), plan(Request()), results, ["second-s0"])
    assert [row.label for row in known.found.rows] == ["first-s0"]
    assert [claim.statement for claim in known.found.claims] == ["first-s0"]
    assert (known.found.remarks, known.missing) == (("r",), ("second",))


@pytest.mark.nightly  # the same in this process: test_reproduce.py
@pytest.mark.timeout(600)
@pytest.mark.parametrize("executor", ["serial", pytest.param("packed", marks=pytest.mark.faults)])
def test_ctrl_c_leaves_a_report_of_what_is_done(executor: str, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "dgn_engine.cli", "reproduce", "npf-table2", "--quick",
        "--train-limit", "200", "--epochs", "30", "--executor", executor, "--workers", "1",
        "--device", "cpu",
        "--out", str(tmp_path),
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        while not _some_are_done(tmp_path):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    made = document.read_document(tmp_path)
    assert made.state == "interrupted"
    done = {unit.id for unit in made.units if unit.state == "done"}
    assert done
    assert len(done) < len(made.units) == 30
    assert made.notices[0].startswith(f"Interrupted: {len(done)} of 30 runs and calculations")
    assert made.notices[0] in out
    assert made.rows, "what is done is there"
    assert sum(len(row.values) for row in made.rows) == len(done)


def _some_are_done(folder: Path) -> bool:
    try:
        return reproduction_progress.read_progress(folder).done > 0
    except UserError:
        return False
