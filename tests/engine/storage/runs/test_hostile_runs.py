"""One run's trouble is one line of the list, whatever it is; `make faults` tries every kind."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from dgn_engine.cli import main
from dgn_engine.storage.runs import index, index_database, index_entry
from tests.engine.storage.places import not_root
from tests.faults import hostile_runs

HONEST = ("a", "b")
SAMPLE = 120


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for seed, name in enumerate(HONEST):
        hostile_runs.make_honest(tmp_path / "runs" / name, seed)
    return tmp_path / "runs"


def sample() -> dict[str, hostile_runs.Make]:
    kinds = hostile_runs.kinds()
    chosen = random.Random(20260101).sample(sorted(kinds), SAMPLE)
    return {kind: kinds[kind] for kind in (*chosen, "config.seed is 2^63")}


def rows(root: Path) -> dict[str, str]:
    return {run.name: repr(run) for run in index.list_runs(str(root)).runs}


def test_hostile_runs_are_a_line_each_and_hide_no_other(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = rows(root)
    made = hostile_runs.make_all(root, sample())
    for _ in range(2):  # read, and from the cache
        found = rows(root)
        assert set(found) == {*HONEST, *made}
        assert {name: found[name] for name in HONEST} == honest
    assert main(["runs", "list", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(found)
    assert all(len(line) < 500 for line in lines)
    assert main(["runs", "list", str(root), "--json"]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert len(told) == len(found)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "kind", ["config.seed is 2^63", "threads is -1", "state.json without step"]
)
def test_a_damaged_run_says_why(kind: str, root: Path) -> None:
    (name,) = hostile_runs.make_all(root, {kind: hostile_runs.kinds()[kind]})
    (run,) = (run for run in index.list_runs(str(root)).runs if run.name == name)
    if kind == "state.json without step":
        assert (run.status, run.step, run.trouble) == ("finished", 4, ""), "its log is sound"
        return
    assert run.status == "damaged"
    assert ("9223372036854775808" if "seed" in kind else "(threads)") in run.trouble


# Folders


@pytest.mark.parametrize("name", [*hostile_runs.NAMES, *map(os.fsdecode, hostile_runs.BYTE_NAMES)])
def test_a_folder_of_any_name_is_listed(name: str, root: Path) -> None:
    (root / "a").rename(root / name)
    for _ in range(2):
        found = {run.name: run.status for run in index.list_runs(str(root)).runs}
        assert found == {name: "finished", "b": "finished"}
    assert index_database.recall_entries(root).keys() == {name, "b"}


def test_a_link_to_a_run_is_listed_as_the_run_it_leads_to(root: Path, tmp_path: Path) -> None:
    hostile_runs.make_honest(tmp_path / "elsewhere", 5)
    (root / "link").symlink_to(tmp_path / "elsewhere")
    found = {run.name: run for run in index.list_runs(str(root)).runs}
    assert (found["link"].seed, found["link"].status) == (5, "finished")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    assert main(["runs", "delete", str(root / "link"), "--yes"]) == 2
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


def test_links_that_lead_nowhere_or_back_are_no_runs(root: Path) -> None:
    (root / "nothing").symlink_to(root / "gone")
    (root / "itself").symlink_to(root / "itself")
    (root / "back").symlink_to(root)
    (root / "up").symlink_to("..")
    (root / "device").symlink_to("/dev/zero")
    (root / "file").write_text("x")
    os.mkfifo(root / "fifo")
    assert sorted(rows(root)) == list(HONEST)


def test_another_run_behind_a_link_is_read_anew(root: Path, tmp_path: Path) -> None:
    for seed in (5, 6):
        hostile_runs.make_honest(tmp_path / f"seed{seed}", seed)
    for seed in (5, 6):
        (root / "link").unlink(missing_ok=True)
        (root / "link").symlink_to(tmp_path / f"seed{seed}")
        found = {run.name: run.seed for run in index.list_runs(str(root)).runs}
        assert found["link"] == seed


@pytest.mark.wide
@pytest.mark.parametrize("place", ["", "run.json", "log.jsonl", "checkpoints", "frames", "lock"])
@pytest.mark.parametrize("mode", [0, 0o200, 0o400])
def test_a_run_that_may_not_be_read_is_one_line(place: str, mode: int, root: Path) -> None:
    (root / "a" / place).chmod(mode)
    with not_root(root.parent):
        found = {run.name: run for run in index.list_runs(str(root)).runs}
    (root / "a" / place).chmod(0o700)
    assert set(found) == {"a", "b"}
    assert found["b"].status == "finished"
    assert found["a"].status in ("damaged", "finished")
    if place in ("", "run.json", "log.jsonl") and mode != 0o400:
        assert found["a"].status == "damaged"
        assert "Permission denied" in found["a"].trouble


def test_runs_may_come_and_go_while_they_are_listed(root: Path) -> None:
    for seed in range(3):
        hostile_runs.make_honest(root / f"c{seed}", seed)

    def meanwhile(folder: Path, stamp: str) -> index_entry.IndexEntry | None:
        if folder.name == "a":
            shutil.rmtree(root / "b")
            (root / "c0" / "run.json").unlink()
            shutil.rmtree(root / "c1" / "checkpoints")
            hostile_runs.make_honest(root / "new", 9)
        return index_entry.read_entry(folder, stamp)

    found = {entry.name: entry.status for entry in index.read_index(root, meanwhile)}
    assert found == {"a": "finished", "c0": "damaged", "c1": "finished", "c2": "finished"}
    assert set(rows(root)) == {"a", "c0", "c1", "c2", "new"}
