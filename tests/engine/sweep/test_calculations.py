"""Calculations of a result: their time, what becomes of damaged ones, and folders that are none."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine.experiments import Experiment, Findings, Plan, Request, Row
from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.formatting import report_facts, row_cells
from dgn_engine.experiments.report.reproduce import report_again, reproduce
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.sweep.unit import Calculation
from dgn_engine.sweep.unit_results import UnitResults
from dgn_engine.sweep.workers.serial import SerialExecutor
from tests.refusals import refused, refused_command

UNIT = Calculation(
    "limit",
    "dgn_engine.experiments.theory_infinite_width:distances",
    {"widths": [4], "seed": 0, "draws": 1},
)


def _findings(request: Request, results: UnitResults) -> Findings:
    values = tuple(results.calculation_result("limit")["limit"])
    start = Row("at the start", values, unit="", epochs=0, seconds=results.seconds_of("limit"))
    return Findings((start, Row("never trained", values, unit="")))


TINY = Experiment(
    "A limit", "[NPF] 0", "For the tests.", lambda _: Plan((UNIT,)), _findings, 0.0, 0.0
)


def _made(folder: Path) -> Document:
    return reproduce(_task(folder), SerialExecutor(), lambda *_: None)


def _task(folder: Path) -> ReproductionTask:
    return ReproductionTask("tiny", TINY, Request(), folder, ("reproduce", "tiny"))


def test_a_calculation_tells_its_time_in_units_rows_and_the_whole(tmp_path: Path) -> None:
    made = _made(tmp_path)
    epochs = [row_cells(made, row)[6] for row in made.rows]
    assert epochs == ["0", "–"], "a network at its start has none, what is not trained no number"
    (unit,) = made.units
    assert unit.seconds > 0
    assert made.rows[0].seconds == made.seconds == unit.seconds
    told = dict(report_facts(made))["runs and calculations"]
    assert told.startswith(f"1, {formatting.format_duration(unit.seconds)} of computing time (")
    assert report_again(_task(tmp_path)).units[0].seconds == unit.seconds


@pytest.mark.parametrize("damage", ["", "[", '{"limit": [9.0], "beta": []}', '{"other": 1}'])
def test_a_damaged_result_of_a_calculation_is_calculated_again(tmp_path: Path, damage: str) -> None:
    before = _made(tmp_path)
    result = tmp_path / "units" / "limit" / "result.json"
    result.write_text(damage)
    with refused("not-done", value=1):
        report_again(_task(tmp_path))
    assert _made(tmp_path).rows[0].values == before.rows[0].values
    (result.parent / "unit.json").write_text("[]")
    assert _made(tmp_path).rows[0].values == before.rows[0].values


def test_a_result_of_an_older_version_is_read_and_what_it_lacks_is_one_sentence(
    tmp_path: Path,
) -> None:
    before = _made(tmp_path)
    note = tmp_path / "units" / "limit" / "unit.json"
    tree = json.loads(note.read_text())
    note.write_text(
        json.dumps({key: tree[key] for key in tree if key not in ("seconds", "sha256")})
    )
    old = _made(tmp_path)
    assert old.rows[0].values == before.rows[0].values
    assert math.isnan(old.units[0].seconds)
    assert row_cells(old, old.rows[0])[9] == "–"
    (note.parent / "result.json").write_text('{"beta": [1.0]}')
    with refused("not-recorded", value="limit"):
        _made(tmp_path)


def test_another_calculation_in_its_place_is_refused(tmp_path: Path) -> None:
    _made(tmp_path)
    other = replace(UNIT, arguments={**UNIT.arguments, "widths": [5]})
    with refused("other-run"):
        SerialExecutor().run([other], tmp_path, lambda _: None, lambda: False)


@pytest.mark.parametrize("plan", ["[]", '"text"', "3", "{"])
def test_a_damaged_plan_is_one_sentence(tmp_path: Path, plan: str) -> None:
    (tmp_path / "plan.json").write_text(plan)
    with refused("damaged"):
        _made(tmp_path)


@pytest.mark.parametrize("more", [(), ("--report-only",)])
def test_a_file_as_the_folder_of_a_result_is_one_sentence(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    refusal = refused_command("reproduce", "npf-nu", "--out", file, *more)
    assert (refusal.kind, refusal.value) == ("wrong-file", str(file))
