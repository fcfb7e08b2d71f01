"""Serial and processes: the same bits, whatever happens on the way."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dgn_engine.cli._executor_options import add_executor_options
from dgn_engine.cli.run.execution import checked_start
from dgn_engine.config import DataConfig, Device, NetConfig
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
from dgn_engine.sweep.workers import explain_stacks, find_executor
from dgn_engine.sweep.workers.batched_workers import NO_OTHER, BatchedExecutor, find_stacks
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


def of_width(
    unit: Training, width: int, device: Device = "cpu", data: str = "digits", batch: int = 32
) -> Training:
    net = NetConfig(name="fc", options=(("width", width), ("depth", 3)))
    training = replace(unit.config.training, batch=batch)
    config = replace(unit.config, net=net, device=device, data=DataConfig(data), training=training)
    return replace(unit, id=f"{unit.id}-w{width}", config=config)


@pytest.mark.parametrize(
    ("data", "regime", "width", "batch", "networks", "gains"),
    [
        ("mnist", "DL", 128, 32, 48, False),
        ("mnist", "FR-II", 128, 8, 48, False),
        ("mnist", "DL", 16, 32, 8, True),
        ("mnist", "DL", 16, 32, 7, False),
        ("mnist", "ReLU", 16, 32, 8, True),
        ("mnist", "ReLU", 16, 33, 48, False),
        ("mnist", "ReLU", 17, 32, 48, False),
        ("mnist", "FR-II", 32, 32, 8, True),
        ("mnist", "FR-II", 33, 32, 48, False),
        ("digits", "DL", 32, 32, 8, True),
        ("digits", "DL", 33, 32, 48, False),
        ("digits", "FR-II", 64, 32, 8, True),
        ("digits", "FR-II", 65, 32, 48, False),
        ("cifar10", "FR-II", 12, 8, 48, False),  # 3072 inputs
        ("folder:images", "FR-II", 12, 8, 48, False),  # of any number of inputs
    ],
)
def test_by_itself_a_cpu_packs_only_what_was_measured_to_be_quicker_so(
    data: str,
    regime: str,
    width: int,
    batch: int,
    networks: int,
    gains: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def units_on(device: Device) -> list[Unit]:
        return [
            of_width(small_training(seed, regime), width, device, data, batch)
            for seed in range(networks)
        ]

    units = units_on("cpu")
    found = find_executor("auto", units, workers=1)
    assert found == (BatchedExecutor(1, gaining=True) if gains else ProcessExecutor(1))
    assert find_executor("packed", units) == BatchedExecutor(), "who asks for stacks has them"
    narrow: list[Unit] = [of_width(small_training(seed, regime), 8) for seed in range(9)]
    stacks = find_stacks(units + narrow, tmp_path, 1, gaining=True)
    of_units = [len(stack) for stack in stacks if units[0].id in stack]
    assert of_units == ([networks] if gains else [])
    assert 9 in map(len, stacks)
    words = explain_stacks("auto", units, workers=1)
    assert words.startswith(f"{networks} runs in stacks. " if gains else f"{networks} runs one by ")
    requested = explain_stacks("packed", units, workers=1)
    assert requested.startswith(f"{networks} runs in stacks")
    assert (", as requested. " in requested) == (not gains)
    assert ("1.5 times as fast; from width 128 on" in words + requested) == (not gains)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    either = units_on("auto")
    assert find_executor("auto", either) == BatchedExecutor(gaining=True), "on a card as before"
    assert explain_stacks("auto", either).startswith(f"{networks} runs in stacks. ")
    on_cpu = find_executor("auto", either, devices="cpu")
    assert isinstance(on_cpu, BatchedExecutor) == gains


def test_each_run_is_explained_by_the_row_of_the_table_that_applies() -> None:
    conv = replace(small_training(0), id="conv")
    conv = replace(conv, config=replace(conv.config, net=NetConfig(name="cnn4")))
    narrow: list[Unit] = [of_width(small_training(seed), 16) for seed in range(16)]
    words = explain_stacks("auto", [*narrow, conv], workers=2)
    assert words.startswith("16 runs in stacks. ")
    assert " 1 run one by one. Only fc networks can be stacked, not cnn4" in words
    # Stacks share the places, so that there are too few in each here.
    assert explain_stacks("auto", narrow[:8], workers=2).startswith("8 runs one by one. On a CPU")
    for name, cluster in (("serial", ""), ("processes", ""), ("dask", ""), ("auto", "local")):
        assert explain_stacks(name, narrow, cluster) == ""
    assert explain_stacks("auto", []) == ""


def test_a_lone_network_on_a_card_is_told_that_no_other_is_like_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    lone = explain_stacks("packed", [of_width(small_training(0), 16, "auto")])
    assert lone == f"1 run one by one. {NO_OTHER}"


def test_without_dask_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with refused("not-installed", value="dask"):
        run_units(find_executor("dask"), [small_training(0)], tmp_path)


def test_a_start_prints_why_runs_are_stacked_unless_it_is_to_be_quiet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    units: list[Unit] = [of_width(small_training(seed), 16) for seed in range(8)]
    parser = argparse.ArgumentParser()
    add_executor_options(parser, "")
    parser.set_defaults(command="sweep", quiet=False)
    for typed, printed in (
        ("--workers 1", "8 runs in stacks. "),
        ("--executor packed --workers 2", "8 runs in stacks, as requested. On a CPU, "),
        ("--executor serial --workers 1", ""),
    ):
        arguments = parser.parse_args(typed.split())
        checked_start(arguments, units, tmp_path)
        assert capsys.readouterr().err.startswith(f"dgn sweep: {printed}" if printed else "")
        arguments.quiet = True
        checked_start(arguments, units, tmp_path)
        assert capsys.readouterr().err == ""
