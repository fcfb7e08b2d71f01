"""The scale of a result is what was run: 'full' only with the paper's epochs, seeds and data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.experiments import Experiment, Findings, Plan, Request, Row, find_experiment
from dgn_engine.experiments._claims import above, judge
from dgn_engine.experiments.report import document, formatting
from dgn_engine.experiments.report.cost import cost_in_words
from dgn_engine.experiments.report.html import render_html
from dgn_engine.experiments.report.markdown import render_markdown
from dgn_engine.experiments.report.reproduce import epochs_in_words, plan_of
from dgn_engine.experiments.report.run_scale import describe_substitution, scale_of
from dgn_engine.experiments.report.write_report import ReproductionTask, task_notices, write_report
from dgn_engine.sweep.unit import Calculation, Training
from tests.engine.experiments.documents import CLAIM, EXACT, MISSED, OPEN, result

STEPS = (0.1, 0.01)


def _plan(request: Request) -> Plan:
    """60 epochs, 5 seeds, two steps of SGD on identical inputs; at quick 4 epochs on the digits."""
    data = DataConfig(
        request.data or ("digits" if request.quick else "identical"),
        train_limit=request.train_limit,
        test_limit=request.test_limit,
    )
    return Plan(
        tuple(
            Training(
                f"sgd-{step:g}-s{seed}",
                RunConfig(
                    data=data,
                    net=NetConfig(options=(("width", 16), ("depth", 3))),
                    training=TrainingConfig(
                        optimiser="sgd", learning_rate=step, epochs=request.epochs_or(4, 60)
                    ),
                    seed=seed,
                ),
            )
            for step in request.steps or STEPS
            for seed in request.seed_range(3, 5)
        ),
        scaled_down=("smaller",),
    )


def _findings(*_: Any) -> Findings:
    found = judge(("below", "FR below"), "best", above((3.0, 3.1, 3.2)))
    open_ = judge(("near", "FL near"), "best", above((-3.0, 3.1, 3.2)))
    return Findings((Row("ReLU", (90.0, 91.0)),), (found, open_))


PAPER = Experiment("T", "P", "A", _plan, _findings, 1.0, 30.0)


def scale(**asked: Any) -> tuple[str, tuple[str, ...]]:
    found = scale_of(PAPER, Request(scale="full", **asked))
    return found.word, found.departures


def task(folder: Path, **asked: Any) -> ReproductionTask:
    return ReproductionTask("tiny", PAPER, Request(**asked), folder)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"epochs": 60},
        {"seeds": 5},
        {"seeds": 7},
        {"seed_start": 9},
        {"steps": (0.01, 0.1)},
        {"steps": (0.3, 0.1, 0.01)},
        {"data": "identical"},
        {"train_limit": 10**6},
        {"device": "cpu"},
        {"protocol": "as-in-code"},
    ],
)
def test_what_is_asked_for_anyway_leaves_the_scale_full(asked: dict[str, Any]) -> None:
    assert scale(**asked) == ("full", ())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"epochs": 3}, "3 of 60 epochs"),
        ({"seeds": 1}, "1 of 5 seeds"),
        ({"steps": (0.1,)}, "SGD's step 0.1 of 0.1, 0.01"),
        ({"train_limit": 5}, "5 of 200 training examples"),
        ({"test_limit": 4}, "4 of 200 test examples"),
    ],
)
def test_what_is_less_than_the_papers_is_a_reduced_scale(asked: dict[str, Any], words: str) -> None:
    assert scale(**asked) == ("reduced", (words,))


def test_what_is_other_and_not_less_is_a_changed_scale() -> None:
    assert scale(epochs=80) == ("changed", ("80 instead of 60 epochs",))
    assert scale(steps=(0.5, 0.2)) == ("changed", ("SGD's steps 0.5, 0.2 instead of 0.1, 0.01",))
    said = "digits instead of identical (1,437 training examples instead of 200)"
    assert scale(data="digits") == ("changed", (said,))
    assert scale(epochs=80, seeds=2)[0] == "reduced"


def test_all_that_is_less_is_said_together() -> None:
    (said,) = scale_of(PAPER, Request(scale="full", epochs=3, seeds=1)).sentences
    assert said.endswith(": 3 of 60 epochs, 1 of 5 seeds.")
    assert scale_of(PAPER, Request(epochs=3)).sentences == (), "quick is scaled down anyway"


def test_epochs_that_differ_from_run_to_run_are_all_named() -> None:
    table = find_experiment("npf-table2")
    request = Request(scale="full", epochs=3, only="FC")
    full = {
        unit.config.training.epochs
        for unit in table.plan(replace(request, epochs=0)).units
        if isinstance(unit, Training)
    }
    (said,) = scale_of(table, request).departures
    assert said == f"3 of {' or '.join(str(one) for one in sorted(full))} epochs"


def test_a_run_that_may_end_early_by_its_own_rule_is_not_reduced() -> None:
    models = find_experiment("duality-48")
    assert scale_of(models, Request(scale="full", only="FC")).word == "full"
    assert scale_of(models, Request(scale="full", only="FC", epochs=9)).word == "reduced"


def test_calculations_alone_have_seeds_and_nothing_else_that_can_be_less() -> None:
    def plan(request: Request) -> Plan:
        return Plan(tuple(Calculation(f"c-s{s}", "a.b:c") for s in request.seed_range(3, 5)))

    made = replace(PAPER, plan=plan)
    assert scale_of(made, Request(scale="full")).word == "full"
    assert scale_of(made, Request(scale="full", seeds=2)).departures == ("2 of 5 seeds",)
    assert describe_substitution(made, Request()) == ()


def test_data_that_stand_for_the_papers_are_said_first() -> None:
    table, stages = find_experiment("npf-table2"), find_experiment("npf-stages")
    for experiment, asked, names in (
        (table, Request(only="MNIST"), ("digits", "MNIST")),
        (table, Request(scale="full", only="MNIST", data="digits"), ("digits", "MNIST")),
        (table, Request("full", only="GCONV", data="folder:/there"), ("folder:/there", "CIFAR-10")),
        (stages, Request(), ("digits", "CIFAR-10")),
    ):
        (said,) = describe_substitution(experiment, asked)
        assert all(name in said for name in names)
    assert describe_substitution(table, Request(only="MNIST", data="mnist")) == ()
    assert describe_substitution(table, Request(scale="full")) == ()


def test_the_cost_is_that_of_the_scale_that_is_run(tmp_path: Path) -> None:
    assert cost_in_words(task(tmp_path, scale="full")).startswith("tiny, full: 10 runs")
    reduced = cost_in_words(task(tmp_path, scale="full", epochs=2))
    assert reduced.startswith("tiny, reduced: 10 runs")


def test_it_is_said_where_the_epochs_are_from(tmp_path: Path) -> None:
    def said(name: str, **asked: Any) -> str:
        found = ReproductionTask(name, find_experiment(name), Request(**asked), tmp_path)
        (words,) = epochs_in_words(found, found.experiment.plan(found.request))
        assert words in plan_of(found).choices
        return words

    table = said("npf-table2", scale="full", only="Adam/MNIST")
    quick, here = said("npf-table2"), said("duality-tiling", scale="full")
    assert len({one.partition(" (")[2] for one in (table, quick, here)}) == 3
    assert said("npf-table2", scale="full", only="FC", epochs=7).startswith("epochs: 7 (")
    assert "; epochs: 60 (" in cost_in_words(task(tmp_path, scale="full"))
    assert "; epochs: 4 (" in cost_in_words(task(tmp_path))


def test_a_report_of_a_reduced_scale_says_so_everywhere(tmp_path: Path) -> None:
    asked = task(tmp_path, scale="full", epochs=2, seeds=3)
    made = write_report(asked, plan_of(asked))
    assert made.scale == "reduced"
    assert made.notices == task_notices(asked)
    (said,) = made.notices
    assert said.endswith("2 of 60 epochs, 3 of 5 seeds.")
    for text in (render_markdown(made), render_html(made)):
        assert said in text
        assert "held at reduced scale" in text
        assert "not decided at" in text
    assert formatting.row_cells(made, made.rows[0])[7] == "reduced"
    assert dict(formatting.report_facts(made))["scale"] == "reduced"
    assert "reduced (2 of 60 epochs, 3 of 5 seeds)" in formatting.made_at(made)
    whole = write_report(task(tmp_path, scale="full"), _plan(Request()))
    assert (whole.scale, whole.notices) == ("full", ())


def test_a_verdict_says_at_which_scale_it_was_reached() -> None:
    claims = (CLAIM, EXACT, OPEN, MISSED)
    said = {
        scale: [formatting.format_verdict(claim, scale) for claim in claims]
        for scale in ("", "quick", "full", "reduced", "changed")
    }
    assert said[""] == said["full"] == ["held", "held", "not decided", "not held"]
    for scale in ("quick", "reduced", "changed"):
        at = f" at {scale} scale"
        assert said[scale] == ["held" + at, "held", "not decided" + at, "not held" + at]
    old = replace(OPEN, verdict="not decided at this scale")
    assert formatting.format_verdict(old, "quick") == "not decided at quick scale"
    assert formatting.count_verdicts(result(scale="reduced")) == {
        "held at reduced scale": 1,
        "held": 1,
        "not decided at reduced scale": 1,
        "not held at reduced scale": 1,
    }
    assert 'class="verdict held">held at reduced scale<' in render_html(result(scale="reduced"))


def test_a_result_written_before_there_were_notices_opens(tmp_path: Path) -> None:
    tree = json.loads(document.to_bytes(result(scale="full")))
    del tree["notices"]
    (tmp_path / "results.json").write_text(json.dumps(tree), encoding="utf-8")
    found = document.read_document(tmp_path)
    assert (found.scale, found.notices) == ("full", ())
