"""Thousands of runs are read by several processes, as one process reads them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dgn_engine.storage.runs import index, index_shares, list_cache
from tests.faults.hostile_runs import make_honest

COUNT = 7


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Seven runs, one of them damaged; three processes are worth their start."""
    monkeypatch.setattr(list_cache, "user_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(index_shares, "SHARE", 2)
    make_honest(tmp_path / "runs" / "run-0", 0)
    for number in range(1, COUNT):
        shutil.copytree(tmp_path / "runs" / "run-0", tmp_path / "runs" / f"run-{number}")
    (tmp_path / "runs" / "run-5" / "run.json").write_text("{")
    return tmp_path / "runs"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """All children."""
    found: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *given: object, **named: object) -> None:
            super().__init__(*given, **named)  # type: ignore[call-overload] # as it came
            found.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    return found


def by_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as alone:
        alone.setattr(index_shares, "usable_cores", lambda: 1)
        listed = repr(index.read_index(root))
    index.forget_index(root)
    return listed


def test_three_processes_list_what_one_lists(
    root: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = by_one(root, monkeypatch)
    assert started == []
    monkeypatch.setattr(index_shares, "usable_cores", lambda: 3)
    assert repr(index.read_index(root)) == alone
    assert alone.count("name='run-") == COUNT
    assert alone.count("status='damaged'") == 1
    assert [one.returncode is not None for one in started] == [True, True]
    assert repr(index.read_index(root)) == alone
    assert len(started) == 2, "the second time all of it is in the cache"


def test_what_a_child_did_not_read_is_read_here(
    root: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = by_one(root, monkeypatch)
    monkeypatch.setattr(index_shares, "usable_cores", lambda: 8)
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert repr(index.read_index(root)) == alone
    assert len(started) == 2


def test_where_no_process_can_be_started_all_is_read_here(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = by_one(root, monkeypatch)
    monkeypatch.setattr(index_shares, "usable_cores", lambda: 8)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert repr(index.read_index(root)) == alone


def test_few_runs_are_read_here(
    root: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_shares, "SHARE", COUNT)
    monkeypatch.setattr(index_shares, "usable_cores", lambda: 8)
    assert len(index.read_index(root)) == COUNT
    assert started == []
