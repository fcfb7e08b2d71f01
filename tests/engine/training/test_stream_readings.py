"""Expensive readings on a card: one slice at a time beside training, within the budget.

Without a card the thread and its orders are the same; only the stream is missing.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.errors import DoesNotFitError
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.training.probes import Probe, ProbeContext, ProbeResult, Refinement
from dgn_engine.training.readings import reading_sizes
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.reading_jobs import JobOver, JobSlice, RefinedJob
from dgn_engine.training.readings.stream_readings import StreamReadings
from dgn_engine.training.readings.watch_budget import SURE, WatchBudget
from dgn_engine.training.run import Run

Make = Callable[..., Run]
CONTEXT: Any = SimpleNamespace(x=torch.zeros(64), network=torch.nn.Identity())
PATIENCE = 300.0  # seconds: a hang, not a slow machine


class Budget:
    """Keeps what is charged."""

    def __init__(self, in_credit: bool) -> None:
        self.in_credit = in_credit
        self.charged: list[float] = []

    def may_refine(self, seconds: float, since: float) -> bool:
        return self.in_credit

    def charge(self, expense: str, seconds: float) -> None:
        assert expense == "refinements"
        self.charged.append(seconds)


class Bench:
    """Probes 'a' and 'b' of four slices, each of which waits until the test lets it pass."""

    def __init__(self) -> None:
        self.worked: list[str] = []
        self.passes = threading.Semaphore(0)
        self.threads: set[str] = set()
        probes = {
            name: Probe(name, lambda *_: ProbeResult(), refine=self.refine(name)) for name in "ab"
        }
        self.card = StreamReadings(torch.device("cpu"), probes=probes)
        self.answers: list[JobSlice | JobOver] = []
        self.jobs: dict[int, RefinedJob] = {}

    def refine(self, name: str) -> Any:
        def slices(*_: object) -> Iterator[Refinement]:
            for done in range(1, 5):
                assert self.passes.acquire(timeout=PATIENCE)
                self.worked.append(name)
                self.threads.add(threading.current_thread().name)
                yield Refinement(ProbeResult({"labels": np.zeros(64)}), done / 4)

        return slices

    def begin(
        self, ticket: int, probe: str, key: int = 1, first: bool = True, network: Any = CONTEXT
    ) -> None:
        job = RefinedJob(probe, {}, self.answers.append, first, ticket)
        self.jobs[ticket] = job
        copied = SimpleNamespace(whole=network)
        contexts: Any = SimpleNamespace(key=key, step=0, copy_network=lambda: copied)
        self.card.submit([job], contexts)

    def take(self) -> list[JobSlice | JobOver]:
        """What was made since the last time."""
        self.card._deliver_slices()
        found = list(self.answers)
        self.answers.clear()
        return found

    def end_slice(self) -> None:
        self.passes.release()
        self.wait()

    def wait(self) -> None:
        assert self.card._work is not None
        self.card._work.result(PATIENCE)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.passes.release(100)  # a slice that has begun is waited for
    made.card.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("dgn-card-readings")]


def advance(bench: Bench, budget: Budget | None) -> None:
    bench.card.deliver_answers(budget)  # type: ignore[arg-type]


def test_beside_training_each_slice_is_begun_by_the_loop_and_charged(bench: Bench) -> None:
    budget = Budget(in_credit=True)
    bench.begin(1, "a")
    for done in range(1, 4):
        advance(bench, budget)
        bench.end_slice()
        assert len(bench.worked) == done
    advance(bench, budget)
    assert len(budget.charged) == 3
    assert all(seconds >= 0.0 for seconds in budget.charged)
    assert bench.threads == {"dgn-card-readings_0"}
    slices = [answer for answer in bench.take() if isinstance(answer, JobSlice)]
    assert [made.done for made in slices] == [0.25, 0.5, 0.75]


def test_in_debt_only_first_pictures_are_made(bench: Bench) -> None:
    debt = Budget(in_credit=False)
    bench.begin(1, "a", first=True)
    bench.begin(2, "b", first=False)
    advance(bench, debt)
    bench.end_slice()
    bench.take()
    advance(bench, debt)
    assert bench.card._work is None
    assert bench.worked in (["a"], ["b"])  # of one snapshot the order is that of the server
    advance(bench, Budget(in_credit=True))
    bench.end_slice()
    assert len(bench.worked) == 2


def test_a_first_picture_that_was_awaited_before_it_was_closed_gives_no_credit(
    bench: Bench,
) -> None:
    bench.begin(1, "a", first=True)
    bench.card.close()
    bench.begin(2, "b", first=False)
    bench.passes.release(4)
    advance(bench, Budget(in_credit=False))
    bench.wait()
    assert bench.worked == []


def test_what_was_wanted_last_comes_first(bench: Bench) -> None:
    budget = Budget(in_credit=True)
    bench.begin(1, "a", key=1)
    bench.begin(2, "b", key=2)
    for _ in range(2):
        advance(bench, budget)
        bench.end_slice()
    assert bench.worked == ["b", "a"]


def test_while_nothing_trains_slices_follow_each_other_to_the_end(bench: Bench) -> None:
    bench.begin(1, "a")
    bench.passes.release(4)
    advance(bench, None)
    bench.wait()
    assert bench.worked == ["a"] * 4
    assert bench.take()[-1] == JobOver(1)


def test_training_that_goes_on_takes_the_card_back_after_a_slice(bench: Bench) -> None:
    budget = Budget(in_credit=True)
    bench.begin(1, "a")
    advance(bench, None)
    advance(bench, budget)
    bench.end_slice()
    assert bench.worked == ["a"]


def test_a_light_reading_waits_for_one_slice_only(bench: Bench) -> None:
    bench.begin(1, "a")
    advance(bench, None)
    light = bench.card._side.submit(lambda: list(bench.worked))
    bench.passes.release(1)
    assert light.result(PATIENCE) == ["a"]


def test_a_job_is_over_as_soon_as_it_is_stopped_and_its_slice_is_not_told(bench: Bench) -> None:
    bench.begin(1, "a")
    advance(bench, Budget(in_credit=True))
    bench.card.cancel(bench.jobs[1])
    bench.end_slice()
    assert bench.take() == []
    advance(bench, None)
    bench.wait()
    assert bench.worked == ["a"]


def test_a_fault_beside_the_probes_ends_the_jobs_and_the_next_one_is_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CUDA error")

    bench.begin(1, "a")
    with monkeypatch.context() as patch:
        patch.setattr(bench.card._server, "begin_job", fail)
        advance(bench, None)
        wait([bench.card._work])  # type: ignore[list-item]
        advance(bench, None)
    (over,) = bench.take()
    assert isinstance(over, JobOver)
    assert "CUDA error" in over.trouble
    assert "RuntimeError" in over.details
    bench.begin(2, "b")
    bench.passes.release(4)
    advance(bench, None)
    bench.wait()
    assert bench.worked == ["b"] * 4


def test_networks_that_nobody_reads_any_more_are_freed_in_debt_too(bench: Bench) -> None:
    debt = Budget(in_credit=False)
    contexts = [SimpleNamespace(x=torch.zeros(64)) for _ in range(3)]
    alive = [weakref.ref(context.x) for context in contexts]
    for ticket, context in enumerate(contexts):
        bench.begin(ticket, "a", first=False, network=context)
        bench.card.cancel(bench.jobs[ticket])
    contexts.clear()
    del context
    bench.jobs.clear()
    advance(bench, debt)
    bench.wait()
    gc.collect()
    assert [one() for one in alive] == [None] * 3
    assert bench.worked == []


def test_refinements_have_a_sure_part_of_the_budget_beside_light_readings() -> None:
    now, busy = [0.0], [0.0]
    budget = WatchBudget(clock=lambda: now[0], busy=lambda: busy[0])
    slices, ended, light_at = 0, 0.0, 0.0
    budget.update_account(running=True)
    budget.charge("refinements", 1.0)  # a first picture on credit
    while now[0] < 600.0:
        now[0] += 0.01
        busy[0] += 0.01
        if now[0] >= light_at:  # light readings spend whatever is left
            budget.record_reading("gates", "readings", 0.1)
            light_at = now[0] + budget.reading_interval("gates")
        if budget.may_refine(0.25, now[0] - ended):
            budget.charge("refinements", 0.25)
            slices, ended = slices + 1, now[0]
        budget.update_account(running=True)
    assert slices >= 600.0 / budget.minimum_spacing(0.25, SURE) / 2


# In a run


def test_a_step_without_memory_ends_the_readings_beside_it_and_is_taken_again(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_sizes, "UNSURE", 0.0)
    run, twin = make_run("DL"), make_run("DL")
    card = StreamReadings(torch.device("cpu"))
    schedule, take = run.probe_schedule, run.trainer.network_step.take_step
    schedule.use_executor(card)
    schedule.watch((ProbeRequest("npk"),))
    schedule.read_probes(schedule.due_probes(0), run.probed.probe_context(), 0)

    def full(rows: torch.Tensor) -> None:
        if schedule.is_refining:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        take(rows)

    monkeypatch.setattr(run.trainer.network_step, "take_step", full)
    run.step()
    twin.step()
    assert newest(run).cancelled
    assert not schedule.is_refining
    for name, tensor in twin.trainer.tensors().items():
        assert torch.equal(run.trainer.tensors()[name], tensor), name
    monkeypatch.setattr(run.trainer.network_step, "take_step", lambda _: full_for_good())
    with pytest.raises(DoesNotFitError):
        run.step()
    schedule.release()
    card.close()


def full_for_good() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.")


def newest(run: Run) -> Reading:
    return run.probe_schedule.readings["npk"]


class Door:
    """A probe waits behind it in its thread."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.threads: list[str] = []


def hold(schedule: ProbeSchedule, name: str) -> Door:
    door, known = Door(), schedule._probes[name]

    def read(context: ProbeContext, options: object, memory: object) -> ProbeResult:
        door.threads.append(threading.current_thread().name)
        assert door.open.wait(30.0)
        return known.read(context, options, memory)  # type: ignore[arg-type]

    schedule._probes[name] = replace(known, read=read)
    return door


@pytest.fixture
def stream() -> Iterator[StreamReadings]:
    made = StreamReadings(torch.device("cpu"))
    yield made
    made.close()


@pytest.fixture
def run(make_run: Make, stream: StreamReadings) -> Iterator[Run]:
    found = make_run("DL")
    found.probe_schedule.use_executor(stream)
    found.probe_schedule.watch((ProbeRequest("npk"),))
    yield found
    found.probe_schedule.release()
    stream.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("dgn-card-readings")]


def read_due(run: Run, standing: bool = False) -> None:
    schedule = run.probe_schedule
    schedule.refined.executor.deliver_answers()
    due = schedule.due_probes(run.step_count, catch_up=standing)
    if due:
        schedule.read_probes(due, run.probed.probe_context(), run.step_count, standing)


def wait_until_read(run: Run) -> None:
    stream = run.probe_schedule.refined.executor
    assert isinstance(stream, StreamReadings)
    for _, future in stream._exact:
        future.result(30.0)


def test_what_was_being_read_of_another_network_is_not_told(run: Run) -> None:
    door = hold(run.probe_schedule, "npk")
    read_due(run)
    run.step()
    run.control.swap_regime("FR-II", restart_value=False)
    read_due(run)  # it waits for the thread, not with it
    door.open.set()
    wait_until_read(run)
    read_due(run)
    wait_until_read(run)
    read_due(run)
    assert newest(run).step == 1


def test_a_probe_that_fails_aside_is_told_once_and_training_goes_on(
    run: Run, events: list[Event]
) -> None:
    def read(*_: object) -> ProbeResult:
        raise RuntimeError("no spectrum")

    known = run.probe_schedule._probes["npk"]
    run.probe_schedule._probes["npk"] = replace(known, read=read)
    for _ in range(3):
        run.probe_schedule.invalidate_all()
        read_due(run)
        wait_until_read(run)
        read_due(run)
        run.step()
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.what == f"The probe '{known.title}' failed: no spectrum."
    assert "RuntimeError: no spectrum" in failed.traceback
    assert newest(run).facts == {"fault": "RuntimeError"}


def test_a_probe_without_memory_on_the_card_reads_half_of_its_examples(run: Run) -> None:
    known = run.probe_schedule._probes["npk"]

    def read(context: ProbeContext, options: object, memory: object) -> ProbeResult:
        if len(context.x) > 12:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return known.read(context, options, memory)  # type: ignore[arg-type]

    run.probe_schedule._probes["npk"] = replace(known, read=read)
    read_due(run)
    wait_until_read(run)
    read_due(run)
    assert newest(run).examples == 10
    assert "out of memory" in newest(run).remark


def test_what_compares_two_networks_is_read_between_two_steps(run: Run) -> None:
    run.probe_schedule.watch((ProbeRequest("npk"), ProbeRequest("agreement")))
    door = hold(run.probe_schedule, "npk")
    read_due(run)
    assert set(run.probe_schedule.readings) == {"agreement"}
    door.open.set()
