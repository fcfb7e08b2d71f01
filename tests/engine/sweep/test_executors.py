"""Serial and processes: the same bits, whatever happens on the way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dgn_engine.config import Device, NetConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.storage import lock
from dgn_engine.storage.runs.folder_layout import LOCK, LOG
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep import scheduler
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.unit import (
    Training,
    Unit,
    UnitTask,
    UnitUpdate,
    unit_folder,
)
from dgn_engine.sweep.workers import find_executor
from dgn_engine.sweep.workers.batched_workers import BatchedExecutor, find_stacks
from dgn_engine.sweep.workers.processes import ProcessExecutor
from dgn_engine.sweep.workers.serial import SerialExecutor
from tests.engine.sweep.small import (
    LONG,
    ProgressLog,
    read_results,
    relu_and_fl_units,
    run_units,
    small_training,
)
from tests.refusals import refused


def test_what_is_done_is_skipped_and_its_score_is_reported(
    tmp_path: Path, progress_log: ProgressLog
) -> None:
    units: list[Unit] = relu_and_fl_units(0)
    assert run_units(SerialExecutor(), units, tmp_path) == {"ReLU-s0": "done", "FL-s0": "done"}
    before = read_results(units, tmp_path)
    assert set(run_units(SerialExecutor(), units, tmp_path, progress_log).values()) == {"skipped"}
    assert read_results(units, tmp_path) == before
    assert all(progress.score is not None for progress in progress_log.all)


def test_the_worker_of_this_process_does_a_unit_once(tmp_path: Path) -> None:
    """Also where nothing else is ready, since a run is held by another process."""
    updates: list[UnitUpdate] = []
    worker = SerialExecutor().workers_in(tmp_path)
    with worker.start([], updates.append, lambda: False):
        worker.submit([UnitTask(small_training(0), tmp_path)])
        worker.poll(0.0)
        told = len(updates)
        assert updates[-1].state == "done"
        worker.poll(0.0)
    assert len(updates) == told


def test_another_sweep_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    run_units(SerialExecutor(), [small_training(0)], tmp_path)
    with refused("other-run", value=str(unit_folder(tmp_path, "FR-II-s0"))):
        run_units(SerialExecutor(), [small_training(0, epochs=4)], tmp_path)
    held = lock.Lock(tmp_path / LOCK)
    held.acquire()
    try:
        with pytest.raises(UserError, match="is being written by process"):
            run_units(SerialExecutor(), [small_training(0)], tmp_path)
    finally:
        held.release()


def test_a_run_that_somebody_else_writes_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "AGAIN", 0.0)
    unit = small_training(0)
    other = RunFolder.create(unit_folder(tmp_path, unit.id), unit.config)
    waits: list[UnitProgress] = []

    def on_progress(progress: UnitProgress) -> None:
        if progress.trouble:
            waits.append(progress)
            if len(waits) == 5:
                other.close()

    assert run_units(SerialExecutor(), [unit], tmp_path, on_progress) == {unit.id: "done"}
    assert [progress.state for progress in waits] == ["queued"] * 5


@pytest.mark.slow
@pytest.mark.timeout(600)  # two processes import torch: seconds, minutes on a crowded machine
def test_stopped_continued_and_killed_processes_give_the_bits_of_a_serial_sweep(
    tmp_path: Path,
) -> None:
    """Two processes, as each loads torch for seconds: the first is killed, the second stopped."""
    units: list[Unit] = [LONG, *relu_and_fl_units(0)]
    root = tmp_path / "sweep"
    run_units(SerialExecutor(), units, tmp_path / "serial")
    far: dict[str, float] = {}
    killed: list[int] = []

    def watch(progress: UnitProgress) -> None:
        if progress.state == "running":
            far[progress.unit] = progress.fraction

    def kill(progress: UnitProgress) -> None:
        watch(progress)
        if progress.unit == LONG.id and progress.fraction > 0.3 and not killed:
            killed.extend(child.pid or 0 for child in multiprocessing.active_children())
            far.clear()
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    stopped = {LONG.id: "interrupted", **dict.fromkeys([unit.id for unit in units[1:]], "queued")}
    few = run_units(SerialExecutor(), units, root, watch, lambda: far.get(LONG.id, 0.0) > 0.1)
    assert few == stopped
    far.clear()
    more = run_units(
        ProcessExecutor(1), units, root, kill, lambda: bool(killed) and far.get(LONG.id, 0.0) > 0.5
    )
    assert len(killed) == 1
    assert more == stopped
    assert not multiprocessing.active_children()
    states = run_units(SerialExecutor(), units, root)
    assert set(states.values()) == {"done"}
    assert read_results(units, root) == read_results(units, tmp_path / "serial")
    went_on = [
        event
        for event in RunReader(unit_folder(root, LONG.id)).events
        if isinstance(event, RunContinued)
    ]
    assert len(went_on) >= 2, "what the killed one wrote after its last checkpoint is gone"
    assert all(event.step > 0 for event in went_on)  # from its checkpoints


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_killed_pack_comes_to_the_bits_of_one_that_was_not(
    tmp_path: Path, progress_log: ProgressLog
) -> None:
    units: list[Unit] = [small_training(2, epochs=100), small_training(3, epochs=100)]
    log = unit_folder(tmp_path / "killed", "FR-II-s3") / LOG
    killed: list[int] = []

    def kill(progress: UnitProgress) -> None:
        progress_log(progress)
        if progress.state == "running" and not killed:
            killed.extend(child.pid or 0 for child in multiprocessing.active_children())
            until = time.monotonic() + 300
            while time.monotonic() < until and not (log.exists() and log.stat().st_size > 500):
                time.sleep(0.01)
            os.kill(killed[0], signal.SIGKILL)

    states = run_units(BatchedExecutor(1), units, tmp_path / "killed", kill)
    assert set(states.values()) == {"done"}
    lost = {progress.unit for progress in progress_log.all if "exit code -9" in progress.trouble}
    assert lost == {"FR-II-s2", "FR-II-s3"}  # a stack is lost together
    run_units(BatchedExecutor(1), units, tmp_path / "whole")
    assert read_results(units, tmp_path / "killed") == read_results(units, tmp_path / "whole")


def test_stacks_hold_networks_of_one_kind_and_one_wave_and_share_the_places(
    tmp_path: Path,
) -> None:
    units: list[Unit] = [u for seed in range(4) for u in relu_and_fl_units(seed)] + [
        small_training(9, "DL")
    ]
    stacks = find_stacks(units, tmp_path, 1)
    assert sorted(map(sorted, stacks)) == [
        [f"FL-s{seed}" for seed in range(4)],
        [f"ReLU-s{seed}" for seed in range(4)],
    ]
    assert {len(stack) for stack in find_stacks(units[:-1], tmp_path, 2)} == {2}


def test_dense_networks_on_a_cpu_are_packed_and_others_are_not() -> None:
    many: list[Unit] = [small_training(seed) for seed in range(8)]
    assert isinstance(find_executor("auto", many), BatchedExecutor)
    assert isinstance(find_executor("auto", many[:1]), ProcessExecutor)


def of_width(unit: Training, width: int, device: Device = "cpu") -> Training:
    net = NetConfig(name="fc", options=(("width", width), ("depth", 3)))
    config = replace(unit.config, net=net, device=device)
    return replace(unit, id=f"{unit.id}-w{width}", config=config)


@pytest.mark.parametrize(
    ("regime", "width", "networks", "gains"),
    [
        ("ReLU", 16, 8, True),
        ("DL", 16, 7, False),
        ("ReLU", 32, 24, True),
        ("DL", 32, 23, False),
        ("DL", 33, 24, False),
        ("FR-II", 32, 8, True),
        ("FR-II", 32, 7, False),
        ("FR-II", 64, 16, True),
        ("FR-II", 64, 15, False),
        ("FR-II", 65, 24, False),
    ],
)
def test_by_itself_a_cpu_packs_only_what_was_measured_to_be_quicker_so(
    regime: str,
    width: int,
    networks: int,
    gains: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    units: list[Unit] = [of_width(small_training(seed, regime), width) for seed in range(networks)]
    found = find_executor("auto", units)
    assert found == (BatchedExecutor(gaining=True) if gains else ProcessExecutor())
    assert find_executor("packed", units) == BatchedExecutor(), "who asks for stacks has them"
    narrow: list[Unit] = [of_width(small_training(seed, regime), 8) for seed in range(9)]
    stacks = find_stacks(units + narrow, tmp_path, 1, gaining=True)
    assert {len(stack) for stack in stacks} == ({networks, 9} if gains else {9})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    either = [of_width(small_training(seed, regime), width, "auto") for seed in range(networks)]
    assert find_executor("auto", either) == BatchedExecutor(gaining=True), "on a card as before"
    assert isinstance(find_executor("auto", either, devices="cpu"), BatchedExecutor) == gains


def test_without_dask_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with refused("not-installed", value="dask"):
        run_units(find_executor("dask"), [small_training(0)], tmp_path)
