"""What a process reports is its own: not what an earlier one left in the folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.experiments.report import reproduction_progress
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress
from dgn_viewer.experiments.dgn_process import DgnProcess


def test_the_progress_of_a_process_that_was_killed_is_not_that_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    left = ReproductionProgress("x", "running", 60, 59, 0, 0.98, 100.0)
    reproduction_progress.write(left, tmp_path)
    assert qtbot is not None  # its timer needs an application
    process = DgnProcess()
    seen: list[ReproductionProgress] = []
    process.progressed.connect(seen.append)
    monkeypatch.setattr(process._process, "start", lambda *_: None)
    process.start(["reproduce"], tmp_path)
    process._read_progress()
    assert seen == []
    ours = replace(left, done=0, fraction=0.0, elapsed=0.1)
    reproduction_progress.write(ours, tmp_path)
    process._read_progress()
    assert seen == [ours]
    process.close()
