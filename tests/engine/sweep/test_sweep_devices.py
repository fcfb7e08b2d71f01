"""Devices of a sweep: which process computes where, what happens when one fails or is too small.

Processes are made up (`Bench`), but for the last tests, which train on two processors as devices.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dgn_engine.errors import DoesNotFitError, breaks_cuda
from dgn_engine.sweep.schedule import Schedule
from dgn_engine.sweep.unit import Training, Unit, UnitTask, UnitUpdate, UpdateState
from dgn_engine.sweep.workers import attempt, find_executor, places, unit_child
from dgn_engine.sweep.workers.batched_workers import BatchedExecutor, BatchedWorkers
from dgn_engine.sweep.workers.places import (
    Place,
    check_devices,
    parse_devices,
    places_on,
    usable_gpus,
)
from dgn_engine.sweep.workers.processes import ProcessExecutor
from dgn_engine.sweep.workers.serial import SerialExecutor
from dgn_engine.sweep.workers.unit_child import DEVICE_FAULT
from tests.engine.sweep.made_up_processes import Bench
from tests.engine.sweep.small import read_results, run_units, small_training
from tests.refusals import refused

FAULT = "CUDA error: device-side assert triggered"


def anywhere(seed: int) -> Training:
    unit = small_training(seed)
    return replace(unit, config=replace(unit.config, device="auto"))


UNITS: list[Unit] = [anywhere(seed) for seed in range(6)]


@pytest.fixture
def cards() -> tuple[str, ...]:
    """Two, which CUDA_VISIBLE_DEVICES calls so."""
    return ("4", "7")


def seen(bench: Bench) -> list[str]:
    return [child.environment["CUDA_VISIBLE_DEVICES"] for child in bench.children]


# names


def test_devices_are_named_with_commas_between_them() -> None:
    assert parse_devices("cuda:1, cuda:0,") == ("cuda:1", "cuda:0")
    assert parse_devices("cpu,cpu") == ("cpu", "cpu")
    assert parse_devices("") == ()
    cards = ("4", "7")
    assert places_on(("cuda",), cards, UNITS) == [Place("cuda:0", "4"), Place("cuda:1", "7")]
    assert places_on(("cuda:1",) * 2, cards, UNITS) == [Place("cuda:1", "7")] * 2
    assert places_on(("cpu",), cards, UNITS) == [Place("cpu", "")]  # which hides the cards


@pytest.mark.parametrize(
    ("text", "device", "kind", "value"),
    [
        ("gpu", "auto", "unknown-name", "gpu"),
        ("cuda:x", "auto", "unknown-name", "cuda:x"),
        ("cuda:0,cpu", "auto", "contradiction", ("cuda:0", "cpu")),
        ("cuda:2", "auto", "no-device", "cuda:2"),
        ("cpu", "cuda", "contradiction", "cpu"),
        ("cuda:0", "cpu", "contradiction", "cuda:0"),
    ],
)
def test_devices_that_cannot_be_used_are_refused(
    text: str, device: str, kind: str, value: object
) -> None:
    units = [replace(small_training(0), config=replace(small_training(0).config, device=device))]  # type: ignore[arg-type]
    with refused(kind, value=value):
        places_on(parse_devices(text), ("4", "7"), units)


def test_a_card_is_refused_at_once_where_torch_is_for_the_cpu_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = {"torch": "2.9.0+cpu"}
    monkeypatch.setattr(places, "version", built.__getitem__)
    with refused("no-device", value="cuda:0"):
        check_devices("cuda:0,cuda:1")
    with refused("unknown-name", value="gpu"):
        check_devices("gpu")
    for text in ("", "cpu,cpu"):
        check_devices(text)
    built["torch"] = "2.9.0+cu128"
    check_devices("cuda:0")  # torch itself is asked later


def test_executors_that_have_no_devices_refuse_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, cluster in (("serial", ""), ("dask", ""), ("auto", "local")):
        with refused("contradiction", value="cpu"):
            find_executor(name, UNITS, cluster, devices="cpu")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with refused("no-device", value="cuda:0"):
        find_executor("processes", UNITS, devices="cuda:0")
    found = find_executor("processes", UNITS, devices="cpu,cpu")
    assert found == ProcessExecutor(0, ("cpu", "cpu"))
    assert find_executor("packed", UNITS, devices="cpu") == BatchedExecutor(0, ("cpu",))


def test_cards_that_cuda_does_not_show_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5e2a,9")
    assert places_on(("cuda",), usable_gpus(UNITS), UNITS) == [Place("cuda:0", "GPU-5e2a")]


# who computes where


def test_named_devices_have_a_process_each(bench: Bench) -> None:
    bench.begin(ProcessExecutor(devices=("cuda:1", "cuda:0", "cuda:1")), *UNITS)
    assert len(bench.submit(*UNITS)) == 3
    assert seen(bench) == ["7", "4", "7"]


def test_on_the_cpu_no_card_is_seen(bench: Bench) -> None:
    bench.begin(ProcessExecutor(devices=("cpu", "cpu")), *UNITS)
    assert len(bench.submit(*UNITS)) == 2
    assert seen(bench) == ["", ""]


def test_what_does_not_fit_on_one_card_is_tried_on_the_other_and_then_refused(
    bench: Bench,
) -> None:
    bench.begin(ProcessExecutor(), *UNITS)
    bench.submit(UNITS[0])
    small_card, large_card = bench.children[0], 1
    small_card.say(UnitUpdate("FR-II-s0", "refused", trouble="No room.", no_memory=True))
    assert [update.state for update in bench.poll()] == ["crowded"]
    assert bench.submit(UNITS[1]) == ["FR-II-s1"]  # the card is used for what fits
    assert bench.submit(UNITS[0]) == ["FR-II-s0"]
    assert seen(bench) == ["4", "7"]
    bench.children[large_card].say(UnitUpdate("FR-II-s0", "refused", no_memory=True))
    assert [update.state for update in bench.poll()] == ["refused"]


def test_what_waits_for_the_larger_card_does_not_go_to_the_other(bench: Bench) -> None:
    bench.begin(ProcessExecutor(), *UNITS)
    bench.submit(*UNITS[:2])
    bench.children[0].say(UnitUpdate("FR-II-s0", "refused", no_memory=True))
    bench.poll()
    assert bench.submit(UNITS[0]) == []  # it has somebody else's
    bench.children[1].say(UnitUpdate("FR-II-s1", "done", 1.0))
    bench.poll()
    assert bench.submit(UNITS[0]) == ["FR-II-s0"]
    bench.children[1].hear()
    assert [task.unit.id for task in bench.children[1].hear()] == ["FR-II-s0"]


def test_beside_a_run_that_waits_for_the_larger_card_others_use_the_smaller(bench: Bench) -> None:
    bench.begin(ProcessExecutor(), *UNITS)
    bench.submit(*UNITS[:2])
    bench.children[0].say(UnitUpdate("FR-II-s0", "refused", no_memory=True))
    bench.poll()
    assert bench.submit(UNITS[0], *UNITS[2:4]) == ["FR-II-s2"]
    bench.children[1].say(UnitUpdate("FR-II-s1", "done"))
    bench.children[0].say(UnitUpdate("FR-II-s2", "done"))
    bench.poll()
    assert bench.submit(UNITS[0], UNITS[3]) == ["FR-II-s0", "FR-II-s3"]


def test_what_does_not_fit_on_the_last_card_that_is_left_is_refused(bench: Bench) -> None:
    bench.begin(ProcessExecutor(), *UNITS)
    bench.submit(UNITS[0])
    bench.children[0].say(UnitUpdate("FR-II-s0", "refused", no_memory=True))
    assert [update.state for update in bench.poll()] == ["crowded"]
    for place in (1, 2):
        assert bench.submit(UNITS[0]) == ["FR-II-s0"]
        bench.children[place].die(DEVICE_FAULT, FAULT)
        assert [update.state for update in bench.poll()] == ["lost"]
    assert bench.submit(UNITS[0]) == ["FR-II-s0"], "it would wait for ever"
    bench.children[0].say(UnitUpdate("FR-II-s0", "refused", no_memory=True))
    assert [update.state for update in bench.poll()] == ["refused"]


def test_a_card_that_fails_twice_in_a_row_is_left_out_and_its_units_go_elsewhere(
    bench: Bench,
) -> None:
    bench.begin(ProcessExecutor(), *UNITS)
    bench.submit(*UNITS[:2])
    bench.children[1].die(DEVICE_FAULT, FAULT)
    (lost,) = bench.poll()
    assert (lost.state, lost.notice) == ("lost", "")
    assert FAULT in lost.trouble
    assert bench.submit(UNITS[1]) == ["FR-II-s1"]
    assert seen(bench) == ["4", "7", "7"]  # another process may have more luck
    bench.children[2].die(DEVICE_FAULT, FAULT)
    (lost,) = bench.poll()
    assert lost.notice.startswith("cuda:1 failed 2 times")
    assert lost.notice.endswith("on cuda:0.")
    assert bench.workers.place_count == 1
    assert bench.submit(UNITS[1]) == []
    bench.children[0].say(UnitUpdate("FR-II-s0", "done", 1.0))
    bench.poll()
    assert bench.submit(UNITS[1]) == ["FR-II-s1"]
    assert len(bench.children) == 3


def test_that_a_card_is_left_out_is_told_once_for_a_stack(bench: Bench) -> None:
    bench.begin(BatchedExecutor(devices=("cuda:0", "cuda:1")), *UNITS)
    for place in (0, 2):
        bench.submit(*UNITS)
        bench.children[place].die(DEVICE_FAULT, FAULT)
        lost = bench.poll()
    assert [bool(update.notice) for update in lost] == [True, False, False]


@pytest.mark.parametrize("state", ["done", "diverged"])
def test_a_card_whose_faults_are_not_in_a_row_is_used_on(bench: Bench, state: UpdateState) -> None:
    bench.begin(ProcessExecutor(devices=("cuda:0", "cuda:1")), *UNITS)
    for place in (0, 2):
        bench.submit(*UNITS[:2])
        bench.children[place].die(DEVICE_FAULT, FAULT)
        assert [update.notice for update in bench.poll()] == [""]
        bench.submit(UNITS[0])
        for child in bench.children[1:]:
            for name in ("FR-II-s0", "FR-II-s1"):
                if child.exitcode is None:
                    child.say(UnitUpdate(name, state))
        bench.poll()
    assert bench.workers.place_count == 2


def test_work_that_ends_well_in_between_clears_a_card_and_the_last_one_stays(
    bench: Bench,
) -> None:
    bench.begin(ProcessExecutor(devices=("cuda:0",)), *UNITS)
    bench.submit(UNITS[0])
    bench.children[0].die(DEVICE_FAULT, FAULT)
    bench.poll()
    bench.submit(UNITS[0])
    bench.children[1].say(UnitUpdate("FR-II-s0", "done", 1.0))
    bench.poll()
    for place in (1, 2, 3):
        bench.submit(UNITS[1])
        bench.children[place].die(DEVICE_FAULT, FAULT)
        (lost,) = bench.poll()
        assert lost.notice == ""
    assert bench.workers.place_count == 1


def test_a_stack_that_does_not_fit_is_halved_until_it_does(bench: Bench) -> None:
    bench.begin(BatchedExecutor(devices=("cuda:0",)), *UNITS)
    workers = bench.workers
    assert isinstance(workers, BatchedWorkers)

    def stacks() -> list[list[str]]:
        tasks = [UnitTask(unit, bench.root) for unit in UNITS]
        return [[task.unit.id[-1] for task in batch] for batch in workers.batches(tasks)]

    def no_room(*places: int) -> set[str]:
        for place in places:
            name = UNITS[place].id
            bench.children[0].say(UnitUpdate(name, "failed", no_memory=True))
        return {update.state for update in bench.poll()}

    assert stacks() == [["0", "1", "2", "3", "4", "5"]]
    bench.submit(*UNITS)
    assert no_room(*range(6)) == {"crowded"}
    assert stacks() == [["0", "1", "2"], ["3", "4", "5"]]
    bench.submit(*UNITS[:3])
    assert no_room(0, 1, 2) == {"crowded"}
    assert stacks() == [["0"], ["1", "2"], ["3", "4", "5"]]
    bench.submit(UNITS[0])
    bench.children[0].say(UnitUpdate("FR-II-s0", "refused", no_memory=True))
    assert [update.state for update in bench.poll()] == ["refused"]  # by itself neither


def test_the_schedule_puts_back_what_is_crowded_and_passes_a_notice_on() -> None:
    schedule = Schedule(UNITS[:1])
    name = UNITS[0].id
    for _ in range(9):
        schedule.begin(name)
        (progress,) = schedule.apply_update(UnitUpdate(name, "crowded", notice="Said."), False)
        assert (progress.state, progress.notice) == ("queued", "Said.")


# what a process makes of it


@pytest.mark.parametrize(
    ("error", "state", "no_memory"),
    [
        (RuntimeError(FAULT), "lost", False),
        (torch.OutOfMemoryError("CUDA out of memory."), "failed", True),
        (RuntimeError("CUDA error: out of memory"), "failed", True),
        (ValueError("ours"), "failed", False),
    ],
)
def test_a_fault_of_a_stack_is_told_for_what_it_is(
    error: Exception, state: str, no_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("dgn_engine.training.batched.train_pack", broken)
    tasks = [UnitTask(unit, tmp_path) for unit in UNITS[:2]]
    found = attempt.attempt_pack(tasks, lambda _: None, lambda: False)
    assert {(one.state, one.no_memory) for one in found} == {(state, no_memory)}


def test_one_run_that_has_no_room_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise DoesNotFitError("No room.")

    monkeypatch.setattr(attempt, "_train_unit", broken)
    task = UnitTask(UNITS[0], tmp_path)
    found = attempt.attempt_unit(task, lambda _: None, lambda: False)
    assert (found.state, found.no_memory) == ("refused", True)


def test_a_sweep_in_this_process_ends_where_its_card_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(FAULT)

    monkeypatch.setattr(attempt, "_train_unit", broken)
    with refused("no-device"):
        run_units(SerialExecutor(), UNITS[:2], tmp_path)


def test_a_process_whose_card_does_not_answer_ends_and_trains_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left: list[int] = []
    monkeypatch.setattr(unit_child.os, "_exit", left.append)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: (_ for _ in ()).throw(RuntimeError(FAULT)))
    unit_child._check_card({"CUDA_VISIBLE_DEVICES": ""})
    unit_child._check_card({})
    assert left == []
    unit_child._check_card({"CUDA_VISIBLE_DEVICES": "7"})
    assert left == [DEVICE_FAULT]
    assert capsys.readouterr().err == f"The GPU does not respond: {FAULT}\n"


def test_words_of_cuda_that_leave_it_broken() -> None:
    assert breaks_cuda(FAULT)
    assert not breaks_cuda("CUDA out of memory. Tried to allocate 2 GiB")


@pytest.mark.nightly
@pytest.mark.timeout(600)  # two processes import torch: seconds, minutes on a crowded machine
def test_two_devices_give_the_bits_of_one(tmp_path: Path) -> None:
    """Two processors, as two cards would be, with a stack of three and one of two; one of five."""
    units: list[Unit] = UNITS[:5]
    states = run_units(BatchedExecutor(devices=("cpu", "cpu")), units, tmp_path / "two")
    assert set(states.values()) == {"done"}
    tasks = [UnitTask(unit, tmp_path / "one") for unit in units]
    attempt.attempt_pack(tasks, lambda _: None, lambda: False)
    assert read_results(units, tmp_path / "two") == read_results(units, tmp_path / "one")
