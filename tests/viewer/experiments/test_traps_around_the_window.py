"""In a folder full of traps the window and what it starts do their work, and no trap is sprung."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_viewer.experiments.dgn_process import DgnProcess
from tests.engine.confinement.trap_folder import BIN, TrapFolder, make_trap_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the traps are shell scripts")


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> TrapFolder:
    return make_trap_folder(tmp_path_factory.mktemp("start"))


def typed(traps: TrapFolder, program: str, *words: str) -> None:
    done = subprocess.run(
        [str(BIN / program), *words],
        cwd=traps.folder,
        env=traps.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert traps.marks == []
    assert done.returncode == 0, done.stderr


def test_a_window_with_its_engine_in_a_process_runs_nothing_of_the_folder(
    traps: TrapFolder,
) -> None:
    picture = traps.safe / "window.png"
    typed(
        traps,
        "dgn-viewer",
        "--process",
        "--offscreen",
        "--steps",
        "1",
        "--screenshot",
        str(picture),
    )
    assert json.loads(picture.with_suffix(".json").read_text())


@pytest.mark.faults
def test_a_run_is_trained_and_drawn_with_no_settings_of_the_folder(traps: TrapFolder) -> None:
    run, out = traps.safe / "run", traps.safe / "figure.pdf"
    typed(
        traps,
        "dgn",
        "train",
        "--data",
        "digits",
        "--width",
        "4",
        "--depth",
        "3",
        "--epochs",
        "1",
        "--quiet",
        "--out",
        str(run),
    )
    typed(traps, "dgn", "figure", str(run), "--panel", "training", "-o", str(out))
    assert out.stat().st_size


def test_an_experiment_of_the_window_is_started_safely(
    traps: TrapFolder, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(traps.folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "."]))
    monkeypatch.setattr(sys, "path", [*sys.path, "", str(traps.folder)])
    process = DgnProcess()
    with qtbot.waitSignal(process.ended, timeout=60_000) as ended:
        process.start(["reproduce", "--list"], Path(traps.safe))
    assert traps.marks == []
    assert ended.args == [0, ""]
