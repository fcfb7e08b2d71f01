"""The table of a sweep: rows of made-up runs, groups over their seeds, results.json and .csv."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.sweep.schedule import UnitProgress, UnitState
from dgn_engine.sweep.summary import SummaryRow, groups_of, rows_of, write_results
from dgn_engine.sweep.sweep_file import Sweep, SweepRun
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import TrainedRun
from tests.engine.experiments.made_up import MadeUpResults
from tests.refusals import refused
from tests.snapshots import Recorded

FIELDS = ("gating.regime", "gating.wiring", "seed")
NAN = math.nan


def run(unit_id: str, settings: Mapping[str, Any]) -> SweepRun:
    return SweepRun(Training(unit_id, RunConfig()), settings)


def trained(best: float, **given: Any) -> TrainedRun:
    numbers: dict[str, Any] = {
        "path": Path(),
        "best": best,
        "last": best / 2,
        "epochs": (1.0, 10 * best),
        "train": (0.1, best / 3),
        "train_loss": (0.5,),
        "test": (best,),
        "seconds": 100 * best,
        "diverged_at": None,
    }
    return TrainedRun(**{**numbers, **given})


@pytest.fixture
def rows(tmp_path: Path) -> list[SummaryRow]:
    """Six runs: done, skipped, diverged, never scored, failed, not begun."""
    results = {
        "a": trained(0.1009),
        "b": trained(0.1013),
        "c": trained(0.1019, diverged_at=1234),
        "d": trained(NAN, last=NAN, epochs=(), train=(), seconds=3.0),
    }

    states: dict[str, UnitState] = {
        "a": "done",
        "b": "skipped",
        "c": "diverged",
        "d": "done",
        "e": "failed",
        "f": "interrupted",
    }
    last = {"e": UnitProgress("e", "failed", trouble='Trace\nno memory, "sorry"')}
    return rows_of(sweep(), states, last, tmp_path, MadeUpResults(results))


def sweep() -> Sweep:
    settings = [("DL", 0), ("DL", 1), ("FR-II", 0), ("DL", 2), ("DL", 3), ("FR-II", 1), ("FL", 0)]
    runs = [
        run(name, {"gating.regime": regime, "gating.wiring": [1, 0], "seed": seed})
        for name, (regime, seed) in zip("abcdefg", settings, strict=True)
    ]
    return Sweep(tuple(runs), FIELDS)


def near(*values: float) -> Any:
    return pytest.approx(values, nan_ok=True)


def test_groups_are_the_settings_over_the_seeds_of_what_is_over(rows: list[SummaryRow]) -> None:
    """t(0.975) of one degree of freedom is 12.706; two values lie half their gap off the mean."""
    one, other = groups_of(rows)
    assert one.settings == {"gating.regime": "DL", "gating.wiring": [1, 0]}
    assert one.n == 3
    half = 12.706204736174694 * 0.0002
    assert one.best == near(0.1011, half)
    assert one.last == near(0.05055, half / 2)
    assert one.train == near(0.0337, half / 3)
    assert one.seconds == pytest.approx(10.09 + 10.13 + 3.0)
    assert (other.settings["gating.regime"], other.n) == ("FR-II", 1)
    assert other.best == near(0.1019, NAN)
    assert groups_of([]) == []


def test_both_files_hold_every_run(
    rows: list[SummaryRow], tmp_path: Path, recorded: Recorded
) -> None:
    write_results(tmp_path, sweep(), rows, "failed")
    tree = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    table = (tmp_path / "results.csv").read_text(encoding="utf-8")
    assert [one["best"] for one in tree["runs"]][:4] == [0.1009, 0.1013, 0.1019, None]
    recorded({"json": tree, "csv": table.splitlines()})


def test_a_setting_that_a_run_does_not_have_is_an_empty_cell(tmp_path: Path) -> None:
    made = Sweep((run("a", {"seed": 3}),), ("net.bias", "seed"))
    write_results(tmp_path, made, [SummaryRow("a", {"seed": 3}, "queued")], "interrupted")
    assert (tmp_path / "results.csv").read_bytes() == (
        b"run,net.bias,seed,state,best,last,train,epochs,seconds,trouble\na,,3,queued,,,,,,\n"
    )
    assert (tmp_path / "results.json").read_bytes().endswith(b"}\n")


def test_words_are_written_as_they_are(tmp_path: Path) -> None:
    made = Sweep((run("a", {"data.root": "/größe"}),), ("data.root",))
    row = SummaryRow("a", {"data.root": "/größe"}, "failed", trouble="kein Platz für β")
    write_results(tmp_path, made, [row], "failed")
    for name in ("results.json", "results.csv"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "/größe" in text
        assert "kein Platz für β" in text


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refused("not-writable"):
        write_results(tmp_path / "file", sweep(), [], "done")
