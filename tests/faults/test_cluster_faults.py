"""Jobs of Slurm whose time is up: runs are saved, nobody is left."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dgn_engine.storage.runs.folder_layout import LOCK
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.unit import unit_folder
from dgn_engine.sweep.workers.dask_workers import DaskExecutor
from dgn_engine.sweep.workers.serial import SerialExecutor
from tests.engine.sweep.listeners import Listener, find_listeners, read_reply
from tests.engine.sweep.small import read_results, run_units, small_training
from tests.faults.reference_runs import assert_sound
from tests.faults.tables import Table

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]
GET = b"GET / HTTP/1.0\r\n\r\n"
LONG = small_training(1, epochs=600)  # some seconds

# In the place of Slurm's: a job is a process of this machine, whose number is its own.
SBATCH = """#!/bin/bash
cp "$1" "$0.$$.sh"
SLURM_JOB_ID=$$ setsid bash "$0.$$.sh" >"$0.$$.log" 2>&1 </dev/null &
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/bash
kill -TERM "$1" 2>/dev/null
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Slurm's commands, as far as they are used."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    yield commands
    assert wait_until(lambda: not jobs(commands)), "jobs are left"


def jobs(commands: Path) -> list[int]:
    """Processes of jobs that live: their environment names the folder of the commands."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"SLURM_JOB_ID=" in environment and str(commands).encode() in environment and line:
            found.append(int(process.name))
    return found


def wait_until(happened: Callable[[], object], seconds: float = 600.0) -> bool:
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_job_of_slurm_whose_time_is_up_saves_its_run_which_goes_on_in_another(
    tmp_path: Path, slurm: Path, table: Table
) -> None:
    row = table.row("SIGUSR1 to a job of Slurm before its time is up")
    run_units(SerialExecutor(), [LONG], tmp_path / "serial")
    root = tmp_path / "sweep"
    told: list[int] = []
    served: list[Listener] = []  # who answers without a certificate
    saved: list[int] = []

    def watch(progress: UnitProgress) -> None:
        if progress.state == "running" and progress.fraction > 0.1 and not told:
            script = next(iter(slurm.glob("sbatch.*.sh"))).read_text()
            assert "#SBATCH --signal=B:USR1@120" in script
            assert "tls://" in script
            owner = (unit_folder(root, LONG.id) / LOCK).read_text()
            worker = int(owner.split('"pid": ')[1].split(",")[0])
            served.extend(one for one in find_listeners(jobs(slurm)) if read_reply(one, GET))
            told.append(first_of(worker, jobs(slurm)))
            os.kill(told[0], signal.SIGUSR1)
        elif told and progress.state == "queued":
            saved.append(RunReader(unit_folder(root, LONG.id)).checkpoints[-1].step)

    states = run_units(
        DaskExecutor("slurm:jobs=2,memory=1GB,walltime=00:10:00"), [LONG], root, watch
    )
    row.injected += 1
    assert states == {LONG.id: "done"}
    assert told
    assert served == []
    assert saved
    assert saved[0] > 0.1 * RunReader(unit_folder(root, LONG.id)).checkpoints[-1].step
    assert_sound(unit_folder(root, LONG.id))
    assert read_results([LONG], root) == read_results([LONG], tmp_path / "serial")
    row.survived += 1
    row.remark = "it saves and leaves; another job goes on, bit for bit"


def first_of(worker: int, alive: list[int]) -> int:
    """The process of a job's script, which gave way to the worker's nanny."""
    while (parent := parent_of(worker)) in alive:
        worker = parent
    return worker


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
