"""A real scheduler and two worker processes on the loopback, one of them killed."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.errors import UserError
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.workers import find_executor
from dgn_engine.sweep.workers.dask_workers import DaskExecutor
from dgn_engine.sweep.workers.serial import SerialExecutor
from tests.engine.sweep.small import LONG, Seen, content, mixed, run

distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed (it comes with the extra 'cluster')"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes; one that is killed is replaced by its nanny under another address."""
    before = set(threading.enumerate())
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
        memory_limit=0,
        preload=["dgn_engine.sweep.workers.dask_task"],
    ) as cluster:
        yield cluster
    gc.collect()
    until = time.monotonic() + 120.0  # the loop's thread ends a moment after its cluster
    while (left := _left(before)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left
    assert not multiprocessing.active_children()


def _left(before: set[threading.Thread]) -> set[str]:
    """Threads that are new, but for those that Dask keeps as long as the process lives."""
    names = {thread.name for thread in set(threading.enumerate()) - before}
    return {name for name in names if not name.startswith(("Profile", "Dask-Offload"))}


@pytest.mark.slow
@pytest.mark.timeout(600)  # three processes import torch: seconds, minutes on a crowded machine
def test_a_killed_worker_changes_no_bit_and_a_stopped_sweep_goes_on(
    cluster: Any, tmp_path: Path, seen: Seen
) -> None:
    units, root = mixed(), tmp_path / "sweep"
    run(SerialExecutor(), units, tmp_path / "serial")
    executor = find_executor("dask", units, cluster.scheduler_address)
    far: dict[str, float] = {}

    def watch(progress: UnitProgress) -> None:
        far[progress.unit] = progress.fraction

    states = run(executor, units, root, watch, lambda: far.get(LONG.id, 0.0) > 0.1)
    assert states[LONG.id] == "interrupted"

    killed: list[int] = []

    def kill(progress: UnitProgress) -> None:
        seen(progress)
        if progress.unit == LONG.id and progress.fraction > 0.3 and not killed:
            holder = (root / "units" / LONG.id / "lock").read_text()
            killed.append(int(holder.split('"pid": ')[1].split(",")[0]))
            os.kill(killed[0], signal.SIGKILL)

    states = run(executor, units, root, kill)
    assert killed
    assert any("is gone" in progress.trouble for progress in seen.of(LONG.id))
    assert set(states.values()) <= {"done", "skipped"}
    assert content(units, root) == content(units, tmp_path / "serial")


def test_a_cluster_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dgn_engine.sweep.slurm.CONNECT", 0.5)
    with pytest.raises(UserError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        run(DaskExecutor("tcp://127.0.0.1:9"), [LONG], tmp_path)


def test_slurm_that_is_not_there_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    with pytest.raises(UserError, match="no 'sbatch' here"):
        run(DaskExecutor("slurm:jobs=1"), [LONG], tmp_path)
