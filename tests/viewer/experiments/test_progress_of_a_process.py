"""What a process reports is its own: not what an earlier one left in the folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.confinement.child_process import python_command
from dgn_engine.experiments.report import reproduction_progress
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress
from dgn_viewer.experiments import dgn_process
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
    monkeypatch.setattr(dgn_process, "module_command", lambda _: python_command("-c", "input()"))
    process.start(["reproduce"], tmp_path)
    process._read_progress()
    assert seen == []
    ours = replace(left, done=0, fraction=0.0, elapsed=0.1)
    reproduction_progress.write(ours, tmp_path)
    process._read_progress()
    assert seen == [ours]
    process.close()


def test_the_end_of_a_process_is_its_code_and_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    process = DgnProcess()
    for code, ended in (
        ("import sys; sys.exit('first\\nlast')", [1, "last"]),
        ("import os; os.kill(os.getpid(), 9)", [9, ""]),
        ("input()", [0, ""]),
    ):
        command = python_command("-c", f"try: exec({code!r})\nexcept EOFError: pass")
        monkeypatch.setattr(dgn_process, "module_command", lambda _, command=command: command)
        with qtbot.waitSignal(process.ended, timeout=60_000) as end:
            process.start([], tmp_path)
            assert process.running
            process.stop()
        assert end.args == ended
        assert not process.running
    monkeypatch.setattr(dgn_process, "module_command", lambda _: ["/no/such/program"])
    with qtbot.waitSignal(process.ended) as end:
        process.start([], tmp_path)
    assert end.args == [1, "dgn could not be started: No such file or directory."]
    assert not process.running
