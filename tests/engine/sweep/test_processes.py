"""Which unit goes to which process, and what becomes of it when that is gone; none is started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dgn_engine.config import NetConfig
from dgn_engine.protocol.training import Finished
from dgn_engine.sweep.unit import Calculation, Training, Unit, UnitFile, UnitTask, UnitUpdate
from dgn_engine.sweep.workers import processes
from dgn_engine.sweep.workers.batched_workers import (
    BatchedExecutor,
    BatchedWorkers,
    dependency_levels,
)
from dgn_engine.sweep.workers.processes import ProcessExecutor
from dgn_engine.sweep.workers.unit_child import STOP
from tests.engine.sweep.made_up_processes import Bench
from tests.engine.sweep.small import relu_and_fl_units, small_training, write_run_log


def convolution(seed: int) -> Training:
    unit = small_training(seed)
    net = NetConfig("cnn4", (("channels", 2),))
    return replace(unit, id=f"cnn-s{seed}", config=replace(unit.config, net=net))


def test_as_many_processes_are_started_as_the_cores_carry_and_each_is_used_again(
    bench: Bench,
) -> None:
    bench.begin(ProcessExecutor())
    assert bench.workers.place_count == 3
    assert not bench.workers.is_busy
    assert bench.submit(*map(small_training, range(5))) == ["FR-II-s0", "FR-II-s1", "FR-II-s2"]
    assert bench.workers.is_busy
    assert [[task.unit.id for task in child.hear()] for child in bench.children] == [
        ["FR-II-s0"],
        ["FR-II-s1"],
        ["FR-II-s2"],
    ]
    assert [child.environment for child in bench.children] == [
        {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    ] * 3
    assert bench.submit(small_training(3)) == []
    running, done = UnitUpdate("FR-II-s1", "running", 0.5), UnitUpdate("FR-II-s1", "done", 1.0)
    bench.children[1].say(running)
    assert bench.poll() == [running]
    assert bench.submit(small_training(3)) == []
    bench.children[1].say(running)
    bench.children[1].say(done)
    assert bench.poll() == [running, done]
    assert bench.submit(small_training(3), small_training(4)) == ["FR-II-s3"]
    assert [task.unit.id for task in bench.children[1].hear()] == ["FR-II-s3"]
    assert len(bench.children) == 3


def test_a_limit_is_kept_whatever_the_units_are(bench: Bench) -> None:
    bench.begin(ProcessExecutor(2))
    assert bench.submit(convolution(0), convolution(1), small_training(2)) == ["cnn-s0", "cnn-s1"]


def test_what_convolves_takes_all_cores_but_one_and_nothing_overtakes_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(processes, "usable_cores", lambda: 4)
    bench.begin(ProcessExecutor())
    assert bench.submit(small_training(0), convolution(1), convolution(2), small_training(3)) == [
        "FR-II-s0",
        "cnn-s1",
    ]
    bench.children[1].say(UnitUpdate("cnn-s1", "done"))
    bench.poll()
    assert bench.submit(small_training(3), convolution(2), small_training(4)) == ["FR-II-s3"]
    assert bench.submit(small_training(4)) == ["FR-II-s4"]


def test_a_unit_that_is_larger_than_the_machine_is_begun_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    bench.begin(ProcessExecutor())
    assert bench.submit(convolution(0), small_training(1)) == ["cnn-s0"]


def test_each_gpu_has_one_process_or_its_share_of_the_limit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "usable_gpus", lambda _units: ("4", "7"))
    bench.begin(ProcessExecutor())
    units = [convolution(seed) for seed in range(4)]
    assert len(bench.submit(*units)) == 2
    seen = [child.environment["CUDA_VISIBLE_DEVICES"] for child in bench.children]
    assert seen == ["4", "7"]
    bench.stack.close()
    bench.children.clear()
    bench.begin(ProcessExecutor(3))
    assert len(bench.submit(*units)) == 3
    seen = [child.environment["CUDA_VISIBLE_DEVICES"] for child in bench.children]
    assert seen == ["4", "7", "4"]
    bench.children[1].die(1, "")
    bench.poll()
    bench.submit(units[3])
    assert bench.children[3].environment["CUDA_VISIBLE_DEVICES"] == "7"
    bench.stack.close()
    bench.children.clear()
    bench.begin(ProcessExecutor(4))
    bench.submit(*units[:2])  # no GPU is shared while another has nothing to do
    seen = [child.environment["CUDA_VISIBLE_DEVICES"] for child in bench.children]
    assert seen == ["4", "7"]


def test_units_of_a_process_that_died_are_lost_with_what_it_printed(bench: Bench) -> None:
    bench.begin(ProcessExecutor())
    bench.submit(small_training(0), small_training(1))
    log = bench.children[0].log
    assert log == bench.root / "logs" / "worker-1.txt"
    bench.children[0].die(-11, "\n".join(f"line {n}" for n in range(30)))
    words = "\n".join(
        ["Its process ended with exit code -11.", *(f"line {n}" for n in range(10, 30))]
    )
    assert bench.poll() == [UnitUpdate("FR-II-s0", "lost", trouble=words)]
    assert not log.exists()
    said = (bench.root / "logs" / "FR-II-s0.txt").read_text("utf-8")
    assert said.endswith(f"{words}\n\n")
    assert bench.submit(small_training(0)) == ["FR-II-s0"]
    assert bench.children[2].log.name == "worker-3.txt"


def test_a_process_that_died_in_silence_is_told_by_its_exit_code(bench: Bench) -> None:
    bench.begin(ProcessExecutor())
    bench.submit(small_training(0))
    bench.children[0].die(3, "")
    (lost,) = bench.poll()
    assert lost.trouble == "Its process ended with exit code 3."


def test_processes_are_told_to_stop_and_killed_where_they_do_not(bench: Bench) -> None:
    bench.begin(ProcessExecutor())
    bench.submit(small_training(0), small_training(1), small_training(2))
    for child in bench.children:
        child.hear()
    bench.workers.interrupt()
    good, slow, dead = bench.children
    assert [child.hear() for child in bench.children] == [STOP] * 3
    slow.closes = False
    dead.log.write_text("something was printed")
    bench.stack.close()
    assert good.calls == [20.0, None]
    assert slow.calls == [20.0, "kill", None]
    assert not bench.workers.is_busy
    assert [path.name for path in (bench.root / "logs").iterdir()] == ["worker-3.txt"]


def test_a_sweep_that_printed_nothing_leaves_no_logs(bench: Bench) -> None:
    bench.begin(ProcessExecutor())
    bench.submit(small_training(0))
    bench.children[0].hear()
    bench.children[0].told = STOP
    bench.stack.close()
    assert not (bench.root / "logs").exists()


def test_without_a_process_polling_waits(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(processes.time, "sleep", waited.append)
    bench.begin(ProcessExecutor())
    bench.workers.poll(0.25)
    assert waited == [0.25]


# what a machine carries


def test_gpus_are_those_that_may_be_seen_and_only_where_a_unit_wants_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    cpu = small_training(0)
    wants: list[Unit] = [
        cpu,
        Calculation("x", "dgn_engine.x:f"),
        replace(cpu, config=replace(cpu.config, device="auto")),
    ]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert processes.usable_gpus(wants) == ("0", "1")
    assert processes.usable_gpus([replace(cpu, config=replace(cpu.config, device="cuda"))]) == (
        "0",
        "1",
    )
    assert processes.usable_gpus(wants[:2]) == ()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5,7")
    assert processes.usable_gpus(wants) == ("3", "5")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert processes.usable_gpus(wants) == ()


def test_a_unit_has_one_thread_unless_it_convolves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    nonsense = replace(
        small_training(0), config=replace(small_training(0).config, net=NetConfig("nonsense"))
    )
    units = [small_training(0), convolution(0), Calculation("x", "dgn_engine.x:f"), nonsense]
    assert [processes.unit_threads(unit) for unit in units] == [1, 7, 1, 1]
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert processes.unit_threads(convolution(0)) == 1


# stacks


@pytest.fixture
def packs(bench: Bench) -> BatchedWorkers:
    units: list[Unit] = [*map(small_training, range(6)), small_training(9, "DL")]
    bench.begin(BatchedExecutor(2), *units)
    assert isinstance(bench.workers, BatchedWorkers)
    return bench.workers


def ids(batches: Iterator[tuple[UnitTask, ...]]) -> list[list[str]]:
    return [[task.unit.id for task in batch] for batch in batches]


def ready(root: Path, *names: int | str) -> list[UnitTask]:
    units = {unit.id: unit for unit in [*map(small_training, range(6)), small_training(9, "DL")]}
    return [UnitTask(units[f"FR-II-s{n}" if isinstance(n, int) else n], root) for n in names]


def test_a_stack_is_given_to_one_process_and_the_rest_one_by_one(
    packs: BatchedWorkers, tmp_path: Path
) -> None:
    everything = ready(tmp_path, *range(6), "DL-s9")
    assert ids(packs.batches(everything)) == [
        ["FR-II-s0", "FR-II-s1", "FR-II-s2", "FR-II-s3"],
        ["FR-II-s4", "FR-II-s5"],
        ["DL-s9"],
    ]


def test_a_stack_waits_for_its_members_as_long_as_anything_runs(
    bench: Bench, packs: BatchedWorkers
) -> None:
    some = ready(bench.root, 0, 1, "DL-s9", 4, 5)
    assert ids(packs.batches(some)) == [
        ["DL-s9"],
        ["FR-II-s4", "FR-II-s5"],
        ["FR-II-s0", "FR-II-s1"],
    ]
    bench.submit(small_training(9, "DL"))
    bench.children[0].hear()
    assert ids(packs.batches(ready(bench.root, 0, 1, 5))) == []
    bench.children[0].say(UnitUpdate("FR-II-s2", "running"))
    bench.children[0].say(UnitUpdate("FR-II-s3", "done"))
    bench.children[0].say(UnitUpdate("FR-II-s4", "diverged"))
    bench.poll()
    assert ids(packs.batches(ready(bench.root, 0, 1, 5))) == [["FR-II-s5"]]
    bench.children[0].say(UnitUpdate("FR-II-s2", "done"))
    bench.poll()
    assert ids(packs.batches(ready(bench.root, 0, 1))) == [["FR-II-s0", "FR-II-s1"]]


def test_a_stack_of_which_some_are_done_waits_for_nothing(bench: Bench) -> None:
    """As when a sweep goes on: the second process would have nothing to do."""
    units: list[Unit] = [*map(small_training, range(6)), small_training(9, "DL")]
    for seed in (0, 1):
        write_run_log(bench.root, (1.0, Finished(30)), unit=small_training(seed))
    bench.begin(BatchedExecutor(2), *units)
    ready = units[2:6]
    assert bench.submit(*ready) == ["FR-II-s2", "FR-II-s3", "FR-II-s4", "FR-II-s5"]
    assert len(bench.children) == 2


@pytest.mark.parametrize("state", ["failed", "refused"])
def test_members_of_a_stack_that_failed_are_tried_one_by_one(
    bench: Bench, packs: BatchedWorkers, state: Any
) -> None:
    bench.submit(*map(small_training, range(4)))
    (child,) = bench.children
    assert [task.unit.id for task in child.hear()] == [f"FR-II-s{n}" for n in range(4)]
    updates = [UnitUpdate(f"FR-II-s{n}", state, trouble="no memory") for n in (0, 1)]
    for update in updates:
        child.say(update)
    assert bench.poll() == updates
    assert bench.submit(small_training(0)) == ["FR-II-s0"]  # another process, while the others run
    assert ids(packs.batches(ready(bench.root, 1, 2, 3))) == [
        ["FR-II-s1"],
        ["FR-II-s2", "FR-II-s3"],
    ]


def test_a_batch_that_is_lost_is_lost_as_a_whole(bench: Bench, packs: BatchedWorkers) -> None:
    assert packs.place_count == 2
    bench.submit(*map(small_training, range(4)))
    bench.children[0].say(UnitUpdate("FR-II-s1", "done"))
    bench.poll()
    bench.children[0].die(-9, "")
    assert [(one.unit, one.state) for one in bench.poll()] == [
        (f"FR-II-s{n}", "lost") for n in (0, 2, 3)
    ]


def test_what_needs_others_is_in_a_later_wave() -> None:
    relu, fixed = relu_and_fl_units(0)
    assert isinstance(fixed, Training)
    table = Calculation("table", "dgn_engine.x:f", needs=(fixed.id,))
    last = replace(small_training(7, "FL"), gates_from=UnitFile("table", "x"))
    found = dependency_levels([relu, small_training(1), fixed, table, last])
    assert [[unit.id for unit in wave] for wave in found] == [
        ["ReLU-s0", "FR-II-s1"],
        ["FL-s0"],
        ["FL-s7"],
    ]
