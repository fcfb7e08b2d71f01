"""`kill -9` of each kind of parent: its children, and theirs, are gone within seconds."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dgn_engine.confinement.parent_watch import LEAVE
from tests.engine.confinement.living import is_running
from tests.engine.sweep.listeners import find_descendants
from tests.faults.reference_runs import describe_damage
from tests.faults.tables import Table
from tests.faults.victims import environment_with_path

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who lives"),
]
SWEEP = """
[base]
data.name = "digits"
net.name = "fc"
net.options = {width = 64, depth = 4}
training.epochs = 2000

[grid]
seed = [0, 1, 2]
"""
ATTACHED = """
import subprocess, sys, time
from dgn_engine.confinement.child_process import module_command, python_environment
child = subprocess.Popen([*module_command("dgn_engine.cli._attached"), *sys.argv[1:]],
                         stdin=subprocess.PIPE, env=python_environment())
time.sleep(3600)
"""
FILM = """
from dgn_engine.confinement.tied_program import tied_command
from dgn_engine.figures.animation import _run_program
command = ["ffmpeg", "-loglevel", "error", "-nostdin", "-re", "-f", "lavfi",
           "-i", "testsrc=duration=600", "-f", "null", "-"]
_run_program(tied_command(command), ".", lambda: None)
"""


def dgn(*words: str) -> list[str]:
    return [sys.executable, "-m", "dgn_engine.cli", *words]


def parents(place: Path) -> dict[str, tuple[list[str], int, float]]:
    """Each by its kind: the command, how many descendants it has, and the seconds they may take."""
    sweep = place / "sweep.toml"
    sweep.write_text(SWEEP)
    out = str(place / "out")
    python = [sys.executable, "-c"]
    train = ("train", "--epochs", "2000", "--quiet", "--out", out)
    found = {
        "dgn sweep, a process each": (
            dgn("sweep", str(sweep), "--out", out, "--workers", "2", "--executor", "processes"),
            *(2, LEAVE),
        ),
        "dgn sweep, packed": (
            dgn("sweep", str(sweep), "--out", out, "--workers", "2", "--executor", "packed"),
            *(1, LEAVE),
        ),
        "dgn sweep --cluster local": (
            dgn("sweep", str(sweep), "--out", out, "--workers", "2", "--cluster", "local"),
            *(2, LEAVE),
        ),
        "the window's dgn train (a branch)": ([*python, ATTACHED, *train], 1, LEAVE),
        "the window's dgn reproduce": (
            [*python, ATTACHED, "reproduce", "npf-table2", "--out", out, "--quiet"],
            *(2, 2 * LEAVE),  # the command, and then its own children
        ),
    }
    if shutil.which("ffmpeg"):
        found["the film's ffmpeg"] = ([*python, FILM], 1, 1.0)
    return found


KINDS = (
    *("dgn sweep, a process each", "dgn sweep, packed", "dgn sweep --cluster local"),
    *("the window's dgn train (a branch)", "the window's dgn reproduce"),
    "the film's ffmpeg",
)
SLACK = 60.0  # seconds of a machine that is busy


@pytest.mark.parametrize("kind", KINDS)
def test_every_descendant_of_a_killed_parent_is_gone(
    kind: str, tmp_path: Path, table: Table
) -> None:
    known = parents(tmp_path)
    if kind not in known:
        pytest.skip("ffmpeg is not installed")
    command, count, seconds = known[kind]
    row = table.row(f"SIGKILL of a parent: {kind}")
    parent = subprocess.Popen(
        command, env=environment_with_path(), stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        children = await_work(parent, count, tmp_path / "out" if "dgn" in kind else None)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    row.injected += 1
    killed = time.monotonic()
    while left := [one for one in children if is_running(one)]:
        assert time.monotonic() - killed < seconds + SLACK, left
        time.sleep(0.05)
    took = time.monotonic() - killed
    for lock in tmp_path.rglob("lock"):
        if (lock.parent / "run.json").exists():
            assert describe_damage(lock.parent) == []
    row.survived += 1
    row.remark = f"{len(children)} processes, the last ended after {took:.1f} s"


def await_work(parent: subprocess.Popen[bytes], count: int, out: Path | None) -> list[int]:
    """Until so many descendants are there, and a run of theirs has a checkpoint."""
    while True:
        assert parent.poll() is None
        found = find_descendants(parent.pid)
        trained = out is None or any(out.rglob("checkpoints/*/state.json"))
        if len(found) >= count and trained:
            time.sleep(1.0)
            return find_descendants(parent.pid)
        time.sleep(0.1)
