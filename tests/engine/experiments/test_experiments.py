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
    effective_request,
    theory_ntk_npk,
)
from dgn_engine.experiments._published import claim_ids
from dgn_engine.experiments.report import document, experiment_list, report_figures
from dgn_engine.experiments.report.experiment_list import (
    experiment_entries,
    full_words,
    quick_words,
)
from dgn_engine.experiments.report.reproduce import plan_of, report_again, reproduce
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.protocol.experiments import Figure
from dgn_engine.sweep.unit import Training, Unit, check_units
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.sweep.workers import find_executor
from tests.plugins import each

EXPERIMENTS = all_experiments()
TINY = Request(epochs=1, seeds=1)


@pytest.fixture
def figures_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As SVG, for the page and the file; that there is a PDF too is tested with the figures."""
    whole = report_figures.figure_bytes
    drawn: dict[Figure, bytes] = {}

    def once(figure: Figure, kind: str) -> bytes:
        if figure not in drawn:
            drawn[figure] = whole(figure, "svg")
        return drawn[figure] if kind == "svg" else b"%PDF"

    monkeypatch.setattr(report_figures, "figure_bytes", once)


@pytest.mark.timeout(900)  # on a busy machine; a minute for all of them on an idle one
@pytest.mark.usefixtures("figures_drawn_once")
@pytest.mark.parametrize("name", each(EXPERIMENTS))
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
    assert {claim.verdict for claim in few} <= {"not decided at this scale"}
    again = document.read(tmp_path)
    assert [row.label for row in again.rows] == [row.label for row in made.rows]
    assert document.to_bytes(again) == document.to_bytes(made)
    assert (tmp_path / "report.html").stat().st_size > 1000


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


@pytest.mark.parametrize("name", each(name for name, one in EXPERIMENTS.items() if one.rows))
def test_the_rows_of_an_experiment_are_its_whole_plan_and_each_can_be_asked_for(name: str) -> None:
    plan, rows = EXPERIMENTS[name].plan, EXPERIMENTS[name].rows
    parts = [plan(Request(scale="full", only=row)).units for row in rows]
    assert all(parts)
    whole = {unit.id for unit in plan(Request(scale="full")).units}
    assert {unit.id for part in parts for unit in part} == whole
    assert sum(map(len, parts)) == len(whole), "no run belongs to two rows"
    assert plan(Request(only="no such row")).units == ()


@pytest.mark.parametrize("name", each(EXPERIMENTS))
def test_what_an_experiment_asks_changes_its_plan_and_nothing_else_does(name: str) -> None:
    experiment = EXPERIMENTS[name]
    before = experiment.plan(Request(scale="full"))
    for setting, value in {"steps": (0.123,), "augmentation": "davidnet"}.items():
        after = experiment.plan(Request(scale="full", **{setting: value}))  # type: ignore[arg-type]
        assert (after != before) == (setting in experiment.asks), setting


def test_what_means_nothing_to_an_experiment_is_left_out_of_its_request_among_others() -> None:
    asked = Request(epochs=7, data="mnist", steps=(0.5,), only="SGD", device="cpu", seeds=2)
    assert effective_request(EXPERIMENTS["npf-table2"], asked) == asked
    adam = replace(asked, only="Adam")
    assert effective_request(EXPERIMENTS["npf-table2"], adam) == replace(adam, steps=())
    hard = effective_request(EXPERIMENTS["dgn-hard-data"], asked)
    assert hard == Request(epochs=7, device="cpu", seeds=2)
    assert effective_request(EXPERIMENTS["theory-depth"], asked) == Request(seeds=2)


def test_davidnet_is_trained_on_augmented_images_only_where_that_is_asked_for() -> None:
    plan = EXPERIMENTS["composite-davidnet"].plan
    for augmentation, word in (("none", "no augmentation"), ("davidnet", "8×8 pixels of 32×32")):
        made = plan(Request(augmentation=augmentation))  # type: ignore[arg-type]
        runs = [unit.config.training for unit in made.units if isinstance(unit, Training)]
        assert {run.augmentation for run in runs} == {augmentation}
        assert word in made.choices[1]


def test_a_limit_keeps_so_many_examples_of_every_run_and_is_said() -> None:
    request = Request(train_limit=96, test_limit=40)
    plan = plan_of(ReproductionTask("npf-table2", EXPERIMENTS["npf-table2"], request, Path()))
    data = [unit.config.data for unit in plan.units if isinstance(unit, Training)]
    assert {(one.train_limit, one.test_limit) for one in data} == {(96, 40)}
    assert "at most 96 training examples, balanced over the classes" in plan.scaled_down


def _planned(name: str, **asked: Any) -> Plan:
    return plan_of(ReproductionTask(name, EXPERIMENTS[name], Request(**asked), Path()))


def test_what_is_said_of_a_plan_follows_from_what_was_asked() -> None:
    usual = _planned("npf-table2")
    assert usual.scaled_down[0].endswith("stand for MNIST")
    assert any("SGD has one step, 0.1," in said for said in usual.scaled_down)
    assert any("SGD, step 0.1, batch 32, 40 epochs" in said for said in usual.choices)
    asked = _planned("npf-table2", epochs=1, only="Adam", data="mnist")
    assert not any("stand" in said or "SGD" in said for said in asked.scaled_down)
    assert any("on mnist: Adam, step 0.0003, batch 32, 1 epoch," in said for said in asked.choices)
    more = _planned("npf-table2", only="SGD", steps=(0.5, 0.1), data="fashion")
    assert more.scaled_down[0] == "'fashion' stands for MNIST"
    assert not any("one step" in said for said in more.scaled_down)


@pytest.mark.parametrize("name", ["npf-table2", "workshop-table4", "npf-kernels"])
def test_the_choices_of_the_authors_code_are_all_said(name: str) -> None:
    made = _planned(name, protocol="as-in-code")
    said = " ".join(made.choices)
    step = "SGD, step 0.01" if name == "npf-kernels" else "Adam, step 0.0001"
    for wanted in ("biases, Glorot's start", "1.1/(1 + exp(−4q))", step):
        assert wanted in said.replace("no biases", "")


WORKERS = {"serial": 0, "packed": 1}  # a process loads torch: one does


@pytest.mark.parametrize("executor", WORKERS)
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
    assert "'fc-sgd-500-FL-s0' (of 'fc-sgd-500-ReLU-s0')" in report
    again = report_again(task)
    assert (again.rows, again.remarks) == (made.rows, made.remarks)
    assert reproduce(task, find_executor("serial"), lambda *_: None).rows == made.rows


def test_rows_and_claims_at_quick_are_labelled_as_trained() -> None:
    for name, label in (("npf-table2", "FC(w=64,d=6)"), ("workshop-table4", "Arch-1 w=64 d=6")):
        found = _made_up(name)
        assert all(row.label.startswith(label) for row in found.rows)
        assert all("digits" in row.label and row.printed is None for row in found.rows)
        assert found.rows[0].remark.startswith("printed of "), "with the name of the paper's row"
        judged = [claim for claim in found.claims if claim.n]  # others wait for --full
        assert judged
        assert all(claim.statistic.startswith(label) for claim in judged)


def test_both_kinds_of_random_gates_are_judged() -> None:
    for name, claim_id in (("npf-table2", "npf-1"), ("workshop-table4", "ws-1")):
        lines = [c.statistic for c in _made_up(name).claims if c.id == claim_id]
        assert any("FR-II" in line for line in lines)
        assert any("FR-DI" in line for line in lines)


def test_gates_learnt_much_better_than_relu_are_not_within_a_point_of_it() -> None:
    found = _made_up("npf-table2", {"-FL-": 0.99}, scale="full", only="GCONV/Adam")
    assert {claim.verdict for claim in found.claims if claim.id == "npf-2"} == {"not held"}


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
        def trained(self, unit_id: str) -> TrainedRun:
            if unit_id.endswith(missing):
                return super().trained(unit_id)
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
        assert entry.quick_cost == quick_words(experiment)
        assert entry.full_cost == full_words(experiment)
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

        monkeypatch.setattr(experiment_list, "_sources", gone)
        assert experiment_list.experiment_entries() == usual
    monkeypatch.setattr(experiment_list, "_sources", tuple)
    assert experiment_list.experiment_entries() == usual
