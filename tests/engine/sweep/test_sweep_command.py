"""`dgn sweep`: what its file may say, what it leaves, how it is stopped and gone on with."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dgn_engine import cli
from dgn_engine.experiments.report import document
from dgn_engine.session import stop_signals
from tests.refusals import assert_one_sentence

BASE = """
[base]
device = "cpu"
probe_examples = 10
[base.data]
train_limit = 200
test_limit = 100
[base.net.options]
width = 8
depth = 3
[base.training]
epochs = 2
batch = 20
"""
GRID = """
[grid]
"gating.regime" = ["FR-II", "DL"]
seed = [0, 1]
"""


def file(folder: Path, text: str, name: str = "sweep.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def sweep(path: Path, out: Path, *more: str) -> int:
    """In this process, as others load torch for seconds; test_commands_as_typed.py takes the
    default executor, and comes to the numbers of this one."""
    return cli.main(["sweep", str(path), "--out", str(out), "--executor", "serial", *more])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "seeds = 3",
        "[grid\n",
        "base = 'nowhere.toml'\n[grid]\nseed = [1]",
        "[grid]\n'training.epochs' = [0]",
        "[grid]\n'gating.regime' = ['DLL']",
        "[grid]\n'net.options.with' = [3]",
        "[grid]\n'data.root' = ['/nowhere']\n'data.name' = ['mnist']",
        "[grid]\n'gating.gates_from' = ['x.npy']\n'gating.regime' = ['FL']",
        "[grid]\n'gating.wiring' = [[0, 1, 2, 3]]",
    ],
)
def test_a_file_that_cannot_be_carried_out_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Kinds of these refusals: test_sweep_files.py."""
    assert sweep(file(tmp_path, text), tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert_one_sentence(said.removesuffix("\n"))
    assert not (tmp_path / "out").exists()


def test_a_sweep_leaves_a_table_json_csv_and_a_report_and_says_what_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    settled = '"gating.beta" = [8.0]\n"training.batch" = [500]\n'
    path = file(tmp_path, BASE.replace("epochs = 2", "epochs = 1") + GRID + settled, "small ü.toml")
    assert sweep(path, out) == 0
    said = capsys.readouterr()
    for field, part in (("gating.beta", "2 of 4 runs"), ("training.batch", "4 of 4 runs")):
        (line,) = [line for line in said.err.splitlines() if f") {field}" in line]
        assert line.startswith(f"dgn sweep: In {part} (regime=FR-II+seed=0+beta=8+batch=500, …) ")
    assert "FR-II" in said.out
    assert "±" in said.out
    assert "4/4 done" in said.err
    tree = json.loads((out / "results.json").read_text("utf-8"))
    assert (tree["format"], tree["state"]) == ("dgn-viewer sweep 1", "done")
    assert [run["state"] for run in tree["runs"]] == ["done"] * 4
    assert [group["n"] for group in tree["groups"]] == [2, 2]
    best = [run["best"] for run in tree["runs"]]
    assert tree["groups"][0]["best"][0] == pytest.approx((best[0] + best[1]) / 2)
    with (out / "results.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [float(row["best"]) for row in rows] == best
    assert [row["gating.regime"] for row in rows] == ["FR-II", "FR-II", "DL", "DL"]
    found = document.read_document(out)
    assert (found.name, found.state, len(found.rows)) == ("sweep-small ü", "done", 2)
    assert {path.name for path in (out / "figures").iterdir()} == {
        f"by-gating_regime.{kind}" for kind in ("pdf", "svg")
    }
    assert "regime FR-II" in (out / "report.md").read_text(encoding="utf-8")
    assert (out / "report.html").is_file()
    assert (out / "tables" / "sweep-small ü-rows.csv").is_file()


def test_a_stopped_sweep_goes_on_with_the_same_command_to_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = file(tmp_path, BASE + "[grid]\nseed = [0, 1, 2]\n"), tmp_path / "out"

    def after(times: int) -> Callable[[object], bool]:
        asked = iter(range(10**9))
        return lambda _: next(asked) > times

    with monkeypatch.context() as patch:
        patch.setattr(stop_signals.StopSignals, "stop_requested", after(30))
        assert sweep(path, out, "--quiet") == 130
    capsys.readouterr()
    states = {run["state"] for run in json.loads((out / "results.json").read_text())["runs"]}
    assert {"done", "queued"} <= states
    assert sweep(path, out, "--quiet") == 0
    assert sweep(path, tmp_path / "whole", "--quiet") == 0
    assert numbers(out) == numbers(tmp_path / "whole")


def numbers(out: Path) -> list[tuple[object, ...]]:
    runs = json.loads((out / "results.json").read_text())["runs"]
    return [(run["id"], run["best"], run["last"], run["train"]) for run in runs]


def test_failed_runs_are_told_with_the_end_of_their_log_and_exit_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    units = tmp_path / "out" / "units"
    units.mkdir(parents=True)
    (units / "seed=1").write_text("in the way of a run")
    assert sweep(file(tmp_path, BASE + "[grid]\nseed = [0, 1]\n"), tmp_path / "out", "--quiet") == 3
    said = capsys.readouterr().err
    assert "seed=1.txt" in said
    assert "seed=1" in said.splitlines()[1]
