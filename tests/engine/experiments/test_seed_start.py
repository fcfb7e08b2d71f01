"""`--seed-start`: other seeds in another sitting, which add up in one folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.cli import main
from dgn_engine.cli.run.reproduce_papers import options_of
from dgn_engine.config import MOST_SEED, DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.experiments import Experiment, Findings, Plan, Request, Row, all_experiments
from dgn_engine.experiments._grid import Grid, training_unit
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.reproduce import reproduce
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.sweep.workers.serial import SerialExecutor
from tests.plugins import each
from tests.refusals import refused

EXPERIMENTS = all_experiments()
CONFIG = RunConfig(
    data=DataConfig(train_limit=96, test_limit=50),
    net=NetConfig(options=(("width", 16), ("depth", 3))),
    training=TrainingConfig(epochs=1),
    probe_examples=20,
    device="cpu",
)


def test_seeds_are_counted_from_the_first_one() -> None:
    assert Request(seed_start=3).seed_range(3, 5) == range(3, 6)
    assert Request(seeds=2, seed_start=3).seed_range(3, 5) == range(3, 5)
    assert Request(seeds=1, seed_start=MOST_SEED).seed_range(3, 5) == range(
        MOST_SEED, MOST_SEED + 1
    )


@pytest.mark.parametrize("request_", [Request(seed_start=-1), Request(seed_start=MOST_SEED - 1)])
def test_seeds_that_cannot_be_are_refused(request_: Request) -> None:
    with refused("out-of-bounds"):
        request_.seed_range(3, 5)


@pytest.mark.parametrize("scale", ["quick", "full"])
@pytest.mark.parametrize("name", each(EXPERIMENTS))
def test_a_unit_bears_its_own_seed(name: str, scale: Any) -> None:
    """The units of other first seeds are those of the usual ones, with other seeds in them."""
    plan = EXPERIMENTS[name].plan
    usual = {unit.id: unit for unit in plan(Request(scale=scale, seeds=4)).units}
    later = {unit.id: unit for unit in plan(Request(scale=scale, seeds=2, seed_start=2)).units}
    for unit_id, unit in later.items():
        assert usual.get(unit_id, unit) == unit, "a picture is of the first seed alone"
        found = re.search(r"-s(\d+)$", unit_id)
        assert found is None or int(found[1]) in (2, 3)
        if isinstance(unit, Training):
            assert found is not None
            assert unit.config.seed == int(found[1])
    seeded = {unit_id for unit_id in usual if re.search(r"-s[23]$", unit_id)}
    assert seeded <= set(later)


@pytest.mark.parametrize(
    "name",
    each(
        name
        for name, one in EXPERIMENTS.items()
        if all(isinstance(unit, Training) for unit in one.plan(Request()).units)
    ),
)
def test_findings_are_about_the_seeds_that_were_asked_for(name: str) -> None:
    def run(seed: int, cell: int) -> TrainedRun:
        best = 0.5 + 0.01 * seed + 1e-4 * cell
        return TrainedRun(Path(), best, best, (1.0,), (best,), (0.1,), (best,), 1.0, None)

    class Shifted(UnitResults):
        def __init__(self, by: int) -> None:
            super().__init__(Path())
            self.by = by

        def trained_run(self, unit_id: str) -> TrainedRun:
            cell, _, seed = unit_id.rpartition("-s")
            return run(int(seed) - self.by, sum(map(ord, cell)) % 97)

    usual = EXPERIMENTS[name].findings(Request(seeds=3), Shifted(0))
    later = EXPERIMENTS[name].findings(Request(seeds=3, seed_start=40), Shifted(40))
    assert [row.values for row in later.rows] == [row.values for row in usual.rows]
    assert [claim.verdict for claim in later.claims] == [claim.verdict for claim in usual.claims]


def _plan(request: Request) -> Plan:
    seeds = request.seed_range(3, 3)
    return Plan(tuple(training_unit(CONFIG, "ReLU", seed, "relu") for seed in seeds))


def _findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(3, 3))
    return Findings((Row("ReLU", tuple(grid.read_trained("relu").best)),))


TINY = Experiment("A tiny table", "[NPF] Table 0", "For the tests.", _plan, _findings, 0.0, 0.0)


def _reproduced(folder: Path, **asked: int) -> tuple[document.Document, Mapping[str, str]]:
    states: dict[str, str] = {}

    def look(_: ReproductionProgress, update: UnitProgress | None) -> None:
        if update is not None:
            states[update.unit] = update.state

    task = ReproductionTask("tiny", TINY, Request(**asked), folder)  # type: ignore[arg-type]
    return reproduce(task, SerialExecutor(), look), states


def test_sittings_with_other_seeds_add_up_in_one_folder(tmp_path: Path) -> None:
    first, _ = _reproduced(tmp_path, seeds=1)
    other, states = _reproduced(tmp_path, seeds=2, seed_start=2)
    assert states == {"relu-s2": "done", "relu-s3": "done"}, "the other seed is left alone"
    assert [unit.id for unit in other.units] == ["relu-s2", "relu-s3"]
    assert len(other.rows[0].values) == 2
    whole, states = _reproduced(tmp_path, seeds=4)
    assert states == {
        "relu-s0": "skipped",
        "relu-s1": "done",
        "relu-s2": "skipped",
        "relu-s3": "skipped",
    }
    values = whole.rows[0].values
    assert (values[0], values[2:]) == (first.rows[0].values[0], other.rows[0].values)


def test_the_first_seed_is_in_the_command_that_goes_on() -> None:
    said = " ".join(options_of(Request(seeds=2, seed_start=3)))
    assert "--seeds 2 --seed-start 3" in said
    assert "--seed-start" not in " ".join(options_of(replace(Request(), seeds=2)))


@pytest.mark.parametrize("said", ["-1", str(2**31), str(10**30)])
def test_a_first_seed_out_of_bounds_is_one_sentence(
    said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "npf-nu", f"--seed-start={said}"]) == 2
    assert capsys.readouterr().err.strip() == (
        f"dgn reproduce: --seed-start is {said}; it must be between 0 and {MOST_SEED}."
    )
