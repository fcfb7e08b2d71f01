"""Every experiment of the papers: planned, carried out for three steps a run, and reported."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from dgn_engine.errors import UserError
from dgn_engine.experiments import (
    Findings,
    Plan,
    Request,
    all_experiments,
    duality_48,
    duality_noise,
    theory_ntk_npk,
)
from dgn_engine.experiments._published import claim_ids
from dgn_engine.experiments.report import document, experiment_list
from dgn_engine.experiments.report.experiment_list import (
    experiment_entries,
    format_cost,
)
from dgn_engine.experiments.report.reproduce import plan_of, report_again, reproduce
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.sweep.unit import Training, Unit, check_units
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.sweep.workers import find_executor
from tests.daily import nightly
from tests.plugins import each

EXPERIMENTS = all_experiments()
TINY = Request(epochs=1, seeds=1)
# One of each kind: trained, trained from others' gates, from kept weights, calculated.
AT_EVERY_PUSH = {"dgn-gates-only", "composite-hidden-outputs", "npf-nu", "theory-depth"}


@pytest.mark.timeout(900)  # on a busy machine; a minute for all of them on an idle one
@pytest.mark.usefixtures("figures_drawn_once")
@pytest.mark.parametrize(
    "name", [*each(sorted(AT_EVERY_PUSH)), *nightly(*sorted(EXPERIMENTS.keys() - AT_EVERY_PUSH))]
)
def test_an_experiment_runs_three_steps_and_makes_its_report(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = EXPERIMENTS[name]
    monkeypatch.setattr(duality_48, "EIGHT", duality_48.EIGHT[:2])  # of 8: the rest is alike
    monkeypatch.setattr(theory_ntk_npk, "WIDTHS", dict.fromkeys(theory_ntk_npk.WIDTHS, (4, 8, 16)))
    monkeypatch.setattr(theory_ntk_npk, "SPREAD_WIDTHS", (8, 16))
    monkeypatch.setattr(theory_ntk_npk, "SPREAD_DEPTHS", (3, 4))
    monkeypatch.setattr(theory_ntk_npk, "WIDE", 16)
    monkeypatch.setattr(duality_noise, "LEVELS", (0, 75))  # of four levels
    monkeypatch.setattr(duality_noise, "FALLS", {75: duality_noise.FALLS[75]})

    def three_steps(request: Request) -> Plan:
        plan = experiment.plan(request)
        return replace(plan, units=tuple(_short(unit) for unit in plan.units))

    task = ReproductionTask(name, replace(experiment, plan=three_steps), TINY, tmp_path)
    made = reproduce(task, find_executor("serial"), lambda *_: None)
    assert [unit.trouble for unit in made.units if unit.trouble] == []
    assert made.state == "done"
    assert made.rows or made.figures
    assert made.claims or not experiment.claims
    assert {claim.id for claim in made.claims} == set(experiment.claims), "each has a line"
    few = [claim for claim in made.claims if claim.n < 3 and not claim.exact]
    assert {claim.verdict for claim in few} <= {"not decided"}
    again = document.read_document(tmp_path)
    assert [row.label for row in again.rows] == [row.label for row in made.rows]
    assert document.to_bytes(again) == document.to_bytes(made)
    assert (tmp_path / "report.html").stat().st_size > 1000


@pytest.mark.check
@pytest.mark.parametrize("name", each(EXPERIMENTS))
@pytest.mark.parametrize("scale", ["quick", "full"])
def test_a_plan_is_sound_at_both_scales_and_in_every_protocol(name: str, scale: str) -> None:
    experiment = EXPERIMENTS[name]
    for protocol in experiment.protocols:
        plan = experiment.plan(Request(scale=scale, protocol=protocol))  # type: ignore[arg-type]
        check_units(plan.units)
        assert plan.units
        assert plan.scaled_down or scale == "full", "how it was scaled down must be said"


@pytest.mark.parametrize("name", each(EXPERIMENTS))
def test_an_experiment_names_claims_that_the_papers_make(name: str) -> None:
    assert set(EXPERIMENTS[name].claims) <= set(claim_ids())


@pytest.mark.parametrize("name", each(EXPERIMENTS))
def test_what_an_experiment_asks_changes_its_plan_and_nothing_else_does(name: str) -> None:
    experiment = EXPERIMENTS[name]
    before = experiment.plan(Request(scale="full"))
    for setting, value in {"steps": (0.123,), "augmentation": "davidnet"}.items():
        after = experiment.plan(Request(scale="full", **{setting: value}))  # type: ignore[arg-type]
        assert (after != before) == (setting in experiment.asks), setting


WORKERS = {"serial": 0, "packed": 1}  # a process loads torch: one does


@pytest.mark.usefixtures("figures_drawn_once")
@pytest.mark.parametrize("executor", ["serial", *nightly("packed")])
def test_a_step_that_diverges_is_reported_and_the_others_give_the_cell(
    executor: str, tmp_path: Path
) -> None:
    """FL of a ReLU network that diverged before it left any gates counts as diverged."""
    asked = Request(epochs=1, seeds=1, only="SGD", steps=(0.1, 500.0), train_limit=96, device="cpu")
    task = ReproductionTask("npf-table2", EXPERIMENTS["npf-table2"], asked, tmp_path)
    made = reproduce(
        task,
        find_executor(executor, plan_of(task).units, workers=WORKERS[executor]),
        lambda *_: None,
    )
    assert made.state == "done"
    states = {unit.id: unit.state for unit in made.units}
    assert states["fc-sgd-500-ReLU-s0"] == states["fc-sgd-500-FL-s0"] == "diverged"
    assert states["fc-sgd-0.1-FL-s0"] == "done"
    assert [len(row.values) for row in made.rows] == [1] * 5
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Diverged: " in report
    assert "'fc-sgd-500-ReLU-s0' at step" in report
    assert "'fc-sgd-500-FL-s0' (needs 'fc-sgd-500-ReLU-s0')" in report
    again = report_again(task)
    assert (again.rows, again.remarks) == (made.rows, made.remarks)
    assert reproduce(task, find_executor("serial"), lambda *_: None).rows == made.rows


def test_a_networks_noise_gates_are_reported_at_the_step_that_is_reported() -> None:
    """The step of a row is that of its best FL, not of its best gate network."""
    best = {"-0.1-labels-gates": 0.9, "-0.01-labels-s": 0.95}
    found = _made_up(
        "workshop-table4", best, scale="full", only="Arch-1 w=128 d=6 SGD", steps=(0.1, 0.01)
    )
    (said,) = [remark for remark in found.remarks if "random labels" in remark]
    assert "reached 1.0 %, 1.0 %" in said, "a hundredth of each at the step 0.01"


@pytest.mark.parametrize("scale", ["quick", "full"])
@pytest.mark.parametrize("name", each(EXPERIMENTS))
def test_what_was_never_trained_leaves_holes_and_no_trouble(
    name: str, scale: str, tmp_path: Path
) -> None:
    experiment, request = EXPERIMENTS[name], Request(scale=scale)  # type: ignore[arg-type]
    trainings = [u.id for u in experiment.plan(request).units if isinstance(u, Training)]
    try:
        found = experiment.findings(request, UnitResults(tmp_path, trainings))
    except UserError:
        return  # there are calculations, and none is done
    assert found.rows
    assert not any(value == value for row in found.rows for value in row.values)
    assert all(claim.verdict.startswith("not decided") for claim in found.claims)
    some = _made_up(name, scale=scale, missing="-s0")
    assert any(value == value for row in some.rows for value in row.values)


def _made_up(
    name: str, scores: dict[str, float] | None = None, missing: str = "none", **asked: Any
) -> Findings:
    """What an experiment reads out of runs with a test accuracy of 0.9, and a bit for each seed;
    `scores` of those whose id holds a text. The train accuracy is the step of its id, or 0."""

    request = Request(**asked)
    units = EXPERIMENTS[name].plan(request).units
    missing_ids = [unit.id for unit in units if unit.id.endswith(missing)]

    class MadeUp(UnitResults):
        def trained_run(self, unit_id: str) -> TrainedRun:
            if unit_id.endswith(missing):
                return super().trained_run(unit_id)
            best = next((v for part, v in (scores or {}).items() if part in unit_id), 0.9)
            best += 1e-4 * int(unit_id[-1]) + 1e-6 * (crc32(unit_id.encode()) % 97)
            at = re.search(r"-sgd-([\d.]+)-", unit_id)
            step = float(at[1]) if at else 0.0
            return TrainedRun(Path(), best, best, (1.0,), (step,), (0.1,), (best,), 1.0, None)

    return EXPERIMENTS[name].findings(request, MadeUp(Path(), missing_ids))


def _short(unit: Unit) -> Unit:
    """Three batches of 32 an epoch; a calculation takes three steps where it takes any."""
    if not isinstance(unit, Training):
        fewer = {"steps": 3, "draws": 2}
        known = {name: number for name, number in fewer.items() if name in unit.arguments}
        return replace(unit, arguments={**unit.arguments, **known})
    config = unit.config
    return replace(
        unit,
        config=replace(
            config,
            data=replace(config.data, train_limit=96, test_limit=40),
            training=replace(config.training, batch=32),
            probe_examples=20,
            device="cpu",
        ),
    )


@pytest.mark.discovery
def test_the_menu_is_read_from_the_sources_as_the_experiments_say_it() -> None:
    for entry in experiment_entries():
        experiment = EXPERIMENTS[entry.id]
        assert (entry.title, entry.paper, entry.about) == (
            experiment.title,
            experiment.paper,
            experiment.about,
        )
        assert entry.protocols == tuple(experiment.protocols)
        assert entry.quick_cost == format_cost(experiment.quick_minutes)
        assert entry.full_cost == format_cost(60 * experiment.full_hours)
        assert (entry.rows, entry.asks) == (experiment.rows, experiment.asks)
    assert {entry.id for entry in experiment_entries()} == set(EXPERIMENTS)


@pytest.mark.discovery
def test_the_menu_needs_no_experiment_imported_where_the_sources_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = experiment_list.experiment_entries()
    assert [entry.id for entry in usual] == sorted(EXPERIMENTS)

    def nothing() -> Any:
        raise AssertionError("experiments are imported")

    with monkeypatch.context() as patched:
        patched.setattr(experiment_list, "all_experiments", nothing)
        assert experiment_list.experiment_entries() == usual
    for trouble in (OSError("gone"), SyntaxError("compiled"), ValueError("not literal")):

        def gone(trouble: Exception = trouble) -> Any:
            raise trouble

        monkeypatch.setattr(experiment_list, "_experiment_sources", gone)
        assert experiment_list.experiment_entries() == usual
    monkeypatch.setattr(experiment_list, "_experiment_sources", tuple)
    assert experiment_list.experiment_entries() == usual
