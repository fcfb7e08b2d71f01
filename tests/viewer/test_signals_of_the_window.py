"""Signals close the window as its button does, and its children end with it, however that comes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.experiments.report import reproduction_progress
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_viewer.application import Viewer
from tests.viewer.conftest import small_run
from tests.viewer.gestures import start_python

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

PATIENCE = 150.0  # seconds, on a busy machine
CHILD = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from dgn_viewer.experiments.dgn_process import DgnProcess
application = QCoreApplication([])
process = DgnProcess()
process.start(sys.argv[2:], Path(sys.argv[1]))
print(process.pid, flush=True)
application.exec()
"""


def wait_until(fact: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not fact():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def recorded(root: Path) -> Path | None:
    """The folder of the run, once it has trained for a while."""
    for log in root.glob("[!.]*/log.jsonl"):
        if log.read_bytes().count(b"\n") > 20:
            return log.parent
    return None


@pytest.mark.faults  # SIGTERM: test_the_window_opens_as_it_is_typed_and_records_its_run
@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT"])
def test_a_signal_saves_the_run_and_closes_the_window(name: str, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(small_run().to_toml(), "utf-8")
    process = start_python("-m", "dgn_viewer", "--config", str(config), folder=tmp_path)
    number = getattr(signal, name)
    try:
        wait_until(lambda: recorded(tmp_path / "runs") is not None, process)
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, errors) == (128 + number, "")
    folder = recorded(tmp_path / "runs")
    assert folder is not None
    reader = RunReader(folder)
    assert reader.outcome == "stopped"
    assert reader.checkpoints[-1].step == reader.log.summary.step > 0


def test_the_end_of_the_desktops_session_saves_the_run_before_it_is_answered(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = make_viewer(small_run(), home="home")
    runs = tmp_path / "home" / "runs"
    qtbot.waitUntil(lambda: recorded(runs) is not None)
    viewer.on_logout()
    folder = recorded(runs)
    assert folder is not None
    assert RunReader(folder).outcome == "stopped"
    assert viewer.close()


@pytest.mark.timeout(600)
def test_an_experiment_saves_its_work_and_ends_where_its_window_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "result"
    few = ["--train-limit", "200", "--epochs", "30", "--workers", "1", "--device", "cpu"]
    command = ("reproduce", "npf-table2", "--quick", *few, "--out", str(out))
    window = start_python("-c", CHILD, str(out), *command, folder=tmp_path)
    try:
        assert window.stdout is not None
        child = int(window.stdout.readline())
        wait_until(lambda: bool([*out.glob("units/*/log.jsonl")]), window)
    finally:
        window.kill()
        window.communicate()
    deadline = time.monotonic() + PATIENCE
    while lives(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert reproduction_progress.read_progress(out).state == "interrupted"


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] not in "ZX"
