"""`dgn sweep`: what its file may say, what it leaves, how it is stopped and gone on with."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dgn_engine import cli
from dgn_engine.session import stop_signals
from dgn_engine.sweep.sweep_file import read_sweep
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


def file(folder: Path, text: str) -> Path:
    path = folder / "sweep.toml"
    path.write_text(text, encoding="utf-8")
    return path


def sweep(path: Path, out: Path, *more: str) -> int:
    """In this process, as others load torch for seconds; test_commands_as_typed.py takes the
    default executor, and comes to the numbers of this one."""
    return cli.main(["sweep", str(path), "--out", str(out), "--executor", "serial", *more])


def test_grid_and_list_make_every_combination_in_the_order_of_the_file(tmp_path: Path) -> None:
    listed = """
[[list]]
training.optimiser = "sgd"
net.options.width = 16
[[list]]
net.bias = true
"""
    found = read_sweep(file(tmp_path, BASE + GRID + listed))
    assert [run.unit.id for run in found.runs[:3]] == [
        "optimiser=sgd+width=16+regime=FR-II+seed=0",
        "optimiser=sgd+width=16+regime=FR-II+seed=1",
        "optimiser=sgd+width=16+regime=DL+seed=0",
    ]
    assert len(found.runs) == 8
    first, last = found.runs[0].unit.config, found.runs[-1].unit.config
    assert (first.training.optimiser, dict(first.net.options)["width"]) == ("sgd", 16)
    assert (last.training.optimiser, dict(last.net.options)["width"]) == ("adam", 8)
    assert (last.net.bias, last.gating.regime, last.seed) == (True, "DL", 1)


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


def test_a_sweep_leaves_a_table_json_and_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert sweep(file(tmp_path, BASE + GRID), out) == 0
    said = capsys.readouterr()
    assert "FR-II" in said.out
    assert "±" in said.out
    assert "4/4 done" in said.err
    tree = json.loads((out / "results.json").read_text("utf-8"))
    assert tree["state"] == "done"
    assert [run["state"] for run in tree["runs"]] == ["done"] * 4
    assert [group["n"] for group in tree["groups"]] == [2, 2]
    best = [run["best"] for run in tree["runs"]]
    assert tree["groups"][0]["best"][0] == pytest.approx((best[0] + best[1]) / 2)
    with (out / "results.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [float(row["best"]) for row in rows] == best
    assert [row["gating.regime"] for row in rows] == ["FR-II", "FR-II", "DL", "DL"]


def test_a_stopped_sweep_goes_on_with_the_same_command_to_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = file(tmp_path, BASE + GRID), tmp_path / "out"

    def after(times: int) -> Callable[[object], bool]:
        asked = iter(range(10**9))
        return lambda _: next(asked) > times

    with monkeypatch.context() as patch:
        patch.setattr(stop_signals.StopSignals, "requested", after(45))
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


def test_another_sweep_in_its_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = BASE + "[grid]\nseed = [0]\n"
    assert sweep(file(tmp_path, one), tmp_path / "out", "--quiet") == 0
    other = one.replace("epochs = 2", "epochs = 3")
    assert sweep(file(tmp_path, other), tmp_path / "out", "--quiet") == 2
    assert "seed=0" in capsys.readouterr().err


def test_fields_that_change_nothing_in_some_runs_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    varied = """
[grid]
"gating.regime" = ["FR-II", "DL"]
"gating.beta" = [4.0, 8.0]
"training.batch" = [20, 500]
"""
    path = file(tmp_path, BASE.replace("epochs = 2", "epochs = 1") + varied)
    assert sweep(path, tmp_path / "out", "--quiet") == 0
    said = capsys.readouterr().err.splitlines()
    for field, runs in (("gating.beta", "beta=4+batch=20"), ("training.batch", "beta=4+batch=500")):
        (line,) = [line for line in said if f") {field}" in line]
        assert line.startswith(f"dgn sweep: In 4 of 8 runs (regime=FR-II+{runs}, …) ")
