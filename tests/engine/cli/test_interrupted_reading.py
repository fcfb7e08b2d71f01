"""A signal while data are read ends `dgn train` at once, and leaves no run behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from dgn_engine.cli import main
from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, Report
from dgn_engine.training import run as run_module
from dgn_engine.training.trainer import Trainer

SMALL = ["--width", "8", "--depth", "3", "--epochs", "1", "--train-limit", "100", "--quiet"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_read_is_given_up(
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def endless(_config: DataConfig, report: Report) -> Examples:
        os.kill(os.getpid(), number)
        while True:
            report("reading for ever", None)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "load_examples", endless)
        assert main(["train", *SMALL, "--out", str(tmp_path / "run")]) == 128 + number
    assert capsys.readouterr().err == "dgn train: interrupted before its first step.\n"
    assert list(tmp_path.iterdir()) == []
    assert main(["train", *SMALL, "--out", str(tmp_path / "run")]) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_run_that_would_go_on_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(_config: DataConfig, report: Report) -> Examples:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            report("reading for ever", None)

    take, path = Trainer.step, tmp_path / "run"

    def taken(trainer: Trainer) -> None:
        take(trainer)
        if trainer.step_count == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", taken)
        long = [*SMALL, "--epochs", "200"]  # a stop takes effect within some steps
        assert main(["train", *long, "--out", str(path)]) == 130
    before = {one: one.read_bytes() for one in path.rglob("*") if one.is_file()}
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "load_examples", endless)
        assert main(["train", "--resume", str(path)]) == 130
    assert {one: one.read_bytes() for one in path.rglob("*") if one.is_file()} == before
    assert main(["train", "--resume", str(path), "--quiet"]) == 0
