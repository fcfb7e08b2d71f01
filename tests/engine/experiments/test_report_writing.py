"""From findings to the document: means, differences, holes, and what ended early."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.experiments import Claim, Experiment, Findings, Plan, Request, Row
from dgn_engine.experiments.report import write_report as writing
from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.formatting import format_verdict
from dgn_engine.experiments.report.reproduce import plan_of
from dgn_engine.experiments.report.write_report import ReproductionTask, write_report
from dgn_engine.protocol.experiments import Printed
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults, UnstartableUnit, record_unstartable
from tests.engine.experiments.made_up import approximately
from tests.refusals import refused
from tests.snapshots import Recorded

NAN = math.nan
ROWS = (
    Row("three", (10.09, 10.13, 10.19), Printed(10.0, 0.1), "%", 40.0, 83.0, "so"),
    Row("holes", (NAN, 3.0, math.inf), Printed(2.5), remark="so"),
    Row("none", (NAN, NAN)),
)
OPEN = Claim("npf-1", "s", "d", 1.0, -1.0, 3.0, 3, "not decided")
UNITS = tuple(Training(f"u{i}", RunConfig(seed=i)) for i in range(20))


def write(
    folder: Path,
    state: Any = "done",
    last: Mapping[str, UnitProgress] | None = None,
    findings: Findings | Exception | None = None,
    scale: Any = "quick",
    **plan: Any,
) -> Document:
    def read(request: Request, results: UnitResults) -> Findings:
        if isinstance(findings, Exception):
            raise findings
        return findings or Findings(ROWS, (OPEN,))

    made = Plan(UNITS[:4], **plan)
    experiment = Experiment("T", "P", "A", lambda _: made, read, 1.0, 1.0)
    task = ReproductionTask("tiny", experiment, Request(scale), folder, ("reproduce", "tiny"))
    return write_report(task, made, state, last, 61.0)


def test_a_row_has_the_mean_of_the_values_that_are_there(tmp_path: Path) -> None:
    """t(0.975) of two degrees of freedom is 4.302653."""
    three, holes, none = write(tmp_path).rows
    spread = math.sqrt(sum((v - three.mean) ** 2 for v in three.values) / 2 / 3)
    assert three.mean == approximately((10.09 + 10.13 + 10.19) / 3)
    assert three.half_width == pytest.approx(4.302652729911275 * spread)
    assert three.difference == approximately(three.mean - 10.0)
    assert (three.unit, three.epochs, three.seconds, three.remark) == ("%", 40.0, 83.0, "so")
    assert (holes.values, holes.mean, holes.difference) == ((3.0,), 3.0, 0.5)
    assert math.isnan(holes.half_width)
    assert holes.remark == "so; 1 of 3 have a value"
    assert (none.values, none.remark) == ((), "0 of 2 have a value")
    assert math.isnan(none.mean)
    assert math.isnan(none.difference)


def test_a_row_keeps_what_its_values_are_of_and_its_place(tmp_path: Path) -> None:
    row = Row("a", (1.0, 2.0), of="draws", place=("line", "column"))
    made = write(tmp_path, findings=Findings((row,), columns=("column",)))
    assert (made.rows[0].of, made.rows[0].place) == ("draws", ("line", "column"))
    assert made.columns == ("column",)
    assert "tiny.tex" in {path.name for path in (tmp_path / "tables").iterdir()}


def test_a_verdict_is_written_without_its_scale_and_shown_with_it(tmp_path: Path) -> None:
    quick, full = write(tmp_path), write(tmp_path, scale="full")
    assert [c.verdict for c in (*quick.claims, *full.claims)] == ["not decided"] * 2
    assert format_verdict(quick.claims[0], quick.scale) == "not decided at quick scale"
    assert format_verdict(full.claims[0], full.scale) == "not decided"


def test_findings_are_read_once_nothing_runs_any_more(tmp_path: Path) -> None:
    assert write(tmp_path, "running").rows == ()
    for state in ("interrupted", "failed"):
        assert len(write(tmp_path, state).rows) == 3, "these depend on no unit"
    refused = UserError("u1 is not there")
    (said,) = write(tmp_path, "failed", findings=refused).notices
    assert said.startswith("Failed: ")
    assert said.endswith(" runs and calculations are done. u1 is not there.")
    with pytest.raises(UserError, match="u1 is not there"):
        write(tmp_path, findings=refused)


def test_a_unit_has_the_state_that_was_told_of_it(tmp_path: Path) -> None:
    last = {
        "u1": UnitProgress("u1", "failed", trouble="no memory"),
        "u2": UnitProgress("u2", "done"),
    }
    made = write(tmp_path, "failed", last)
    assert [(unit.id, unit.state, unit.trouble) for unit in made.units] == [
        ("u0", "queued", ""),
        ("u1", "failed", "no memory"),
        ("u2", "done", ""),
        ("u3", "queued", ""),
    ]
    assert made.remarks[0].startswith("Failed: 'u1'. ")
    assert made.machine["wall_seconds"] == 61.0
    assert made.machine["device"] == "cpu"


def test_what_could_not_begin_is_told_apart_from_what_diverged(tmp_path: Path) -> None:
    record_unstartable("u1", UnstartableUnit("u0", 1009), tmp_path)
    last = {name: UnitProgress(name, "diverged") for name in ("u0", "u1")}
    made = write(tmp_path, "done", last)
    diverged, left = made.remarks
    assert diverged.startswith("Diverged: 'u0'. ")
    assert "'u1' (needs 'u0')." in left
    others = {name: UnitProgress(name, "diverged") for name in ("u1", "u2", "u3")}
    listed, not_begun = write(tmp_path, "done", others).remarks
    assert listed.startswith("Diverged: 'u2', 'u3'. ")  # also behind one that could not begin
    assert "'u1' (needs 'u0')." in not_begun
    assert {unit.id: unit.state for unit in write(tmp_path).units} == {
        "u0": "queued",
        "u1": "queued",
        "u2": "queued",
        "u3": "queued",
    }


def test_a_result_says_what_made_it_and_on_which_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices: dict[str, dict[str, str]] = {
        "u0": {"device": "cuda:0"},
        "u1": {"device": "cpu"},
        "u2": {"device": "cuda:0"},
    }

    def read_info(folder: Path) -> dict[str, str]:
        if folder.name not in devices:
            raise UserError("no run")
        return devices[folder.name]

    monkeypatch.setattr(writing.run_info, "read_run_info", read_info)
    made = write(tmp_path, scaled_down=("smaller",), choices=("chosen",))
    assert made.machine["device"] == "cpu, cuda:0"
    del devices["u0"], devices["u1"]
    assert write(tmp_path).machine["device"] == "cuda:0"  # of the runs that have begun
    devices["u2"] = {}
    assert write(tmp_path).machine["device"] == "cpu"
    assert (made.name, made.title, made.paper, made.about) == ("tiny", "T", "P", "A")
    assert (made.scale, made.protocol, made.state) == ("quick", "as-published", "done")
    assert made.command == ("reproduce", "tiny")
    assert (made.scaled_down, made.choices) == (("smaller",), ("chosen",))
    assert made.request["seeds"] == 0
    assert made.seconds == 0.0


def test_twelve_names_are_listed_and_more_are_counted() -> None:
    names = [f"u{i}" for i in range(12)]
    assert writing._join_names(names) == ", ".join(names)
    assert writing._join_names([*names, "x", "y"]) == f"{', '.join(names)} and 2 more"


def test_files_for_people_lie_beside_the_result(tmp_path: Path) -> None:
    write(tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"results.json", "report.md", "report.html", "tables"}
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {
        "tiny-rows.md",
        "tiny-rows.csv",
        "tiny-rows.tex",
    }


def notes(*configs: RunConfig) -> tuple[str, ...]:
    units = tuple(Training(f"u{i}", config) for i, config in enumerate(configs))
    experiment = Experiment("T", "P", "A", lambda _: Plan(units), lambda *_: Findings(), 0, 0)
    first, *kinds = plan_of(ReproductionTask("tiny", experiment, Request(), Path())).choices
    assert first.startswith("epochs: ")
    return tuple(kinds)


FC = RunConfig(
    net=NetConfig("fc", (("width", 64), ("depth", 6))),
    gating=GatingConfig("ReLU"),
    training=TrainingConfig(epochs=40),
)


def test_a_plan_says_how_each_kind_of_network_is_trained(recorded: Recorded) -> None:
    slower = replace(FC, training=replace(FC.training, learning_rate=0.01, epochs=1500))
    gates = GatingConfig("DL", beta=4.0, epsilon=0.1)
    soft = replace(FC, gating=gates, net=replace(FC.net, bias=True, init="glorot"))
    pair = replace(
        FC,
        data=DataConfig("mnist", binary=(4, 7)),
        net=NetConfig("fc", (("width", 64), ("depth", 6)), init="bernoulli", sigma=0.25),
        training=TrainingConfig("squared", "rmsprop", 1e-4, batch=64, epochs=1, until=0.999),
    )
    recorded(notes(FC, slower, soft, pair))


def test_an_only_that_leaves_nothing_is_refused() -> None:
    nothing = Experiment("T", "P", "A", lambda _: Plan(()), lambda *_: Findings(), 0, 0)
    for only in ("x", ""):
        with refused("no-rows", value=only):
            plan_of(ReproductionTask("tiny", nothing, Request(only=only), Path()))


def test_limits_are_said_at_both_scales_and_scaling_down_only_at_quick() -> None:
    plan = Plan(UNITS[:1], scaled_down=("smaller",))
    made = Experiment("T", "P", "A", lambda _: plan, lambda *_: Findings(), 0, 0)
    limits = {"train_limit": 1009, "test_limit": 13}
    said = {
        scale: plan_of(
            ReproductionTask("tiny", made, Request(scale, **limits), Path())  # type: ignore[arg-type]
        ).scaled_down
        for scale in ("quick", "full")
    }
    quick, full = said["quick"], said["full"]
    assert quick[0] == "smaller"
    assert [re.findall(r"[\d,]*\d", one) for one in quick[1:]] == [["1,009"], ["13"]]
    assert [re.findall(r"[\d,]*\d", one) for one in full] == [["1,009", "1,437"], ["13", "360"]]
