"""The engine's side of the reading process, with a process and a clock of the test."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from dgn_engine.training.probes import ProbeResult
from dgn_engine.training.reading_process import reading_worker
from dgn_engine.training.reading_process.reading_messages import (
    Answer,
    BeginJob,
    DropSnapshot,
    JobOver,
    JobSlice,
    LoadSnapshot,
    Order,
    ProcessReady,
    StopJob,
)
from dgn_engine.training.reading_process.reading_worker import (
    STOP_PATIENCE,
    ReadingProcess,
    ReadingWorker,
)


class Child:
    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.answers: list[Answer] = [ProcessReady()]
        self.dies = self.ended = ""
        self.killed = False

    def put(self, order: Order) -> None:
        self.orders.append(order)

    def take(self) -> list[Answer]:
        found, self.answers = self.answers, []
        self.ended = self.dies
        return found

    def kill(self) -> None:
        self.killed = True

    def begun(self) -> list[int]:
        return [order.ticket for order in self.orders if isinstance(order, BeginJob)]


class Bench:
    def __init__(self) -> None:
        self.now = 10.0
        self.children: list[Child] = []
        self.error: OSError | None = None
        self.worker = ReadingWorker(self.start, lambda: self.now)
        self.heard: list[object] = []

    def start(self) -> Child:
        if self.error is not None:
            raise self.error
        self.children.append(Child())
        return self.children[-1]

    @property
    def child(self) -> Child:
        return self.children[-1]

    def begin(self, key: int = 1) -> int:
        snapshot: Any = SimpleNamespace(key=key, content=b"weights", examples=64)
        return self.worker.begin(snapshot, "npk", {"n": 3}, 7, self.heard.append)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def slice_of(ticket: int) -> JobSlice:
    return JobSlice(ticket, ProbeResult(), 0.5, 0.1, 0, 1.0)


def test_no_process_is_there_before_the_first_job_and_one_serves_all(bench: Bench) -> None:
    assert not bench.worker.poll()
    assert bench.children == []
    first = bench.begin(1)
    second = bench.begin(1)
    assert len(bench.children) == 1
    assert bench.child.orders == [
        LoadSnapshot(1, b"weights"),
        BeginJob(first, 1, "npk", {"n": 3}, 7),
        BeginJob(second, 1, "npk", {"n": 3}, 7),
    ]


def test_a_process_that_was_warmed_up_is_the_one_that_reads(bench: Bench) -> None:
    assert bench.worker.warm()
    assert bench.worker.warm()
    bench.begin()
    assert len(bench.children) == 1


def test_slices_are_heard_when_polled_and_a_snapshot_goes_with_its_last_job(bench: Bench) -> None:
    first, second = bench.begin(1), bench.begin(1)
    bench.child.answers += [slice_of(first), JobOver(first)]
    assert bench.worker.poll()
    assert bench.heard == [slice_of(first), JobOver(first)]
    assert DropSnapshot(1) not in bench.child.orders
    bench.child.answers.append(JobOver(second))
    bench.worker.poll()
    assert bench.child.orders[-1] == DropSnapshot(1)
    assert not bench.worker.poll()
    bench.begin(1)
    assert LoadSnapshot(1, b"weights") in bench.child.orders[-2:]


def test_nothing_is_heard_of_a_job_that_was_stopped(bench: Bench) -> None:
    ticket = bench.begin()
    bench.worker.stop(ticket)
    bench.worker.stop(ticket)
    assert bench.child.orders.count(StopJob(ticket)) == 1
    bench.child.answers += [slice_of(ticket), JobOver(ticket)]
    bench.worker.poll()
    assert bench.heard == []
    bench.now += 2 * STOP_PATIENCE
    bench.worker.poll()
    assert not bench.child.killed
    bench.worker.stop(ticket)
    assert len(bench.child.orders) == 4, "it is over: load, begin, stop, drop"


def test_a_slice_that_does_not_end_after_the_stop_is_killed_and_the_others_go_on(
    bench: Bench,
) -> None:
    stuck, other = bench.begin(1), bench.begin(2)
    bench.worker.poll()
    bench.worker.stop(stuck)
    bench.now += STOP_PATIENCE
    bench.worker.poll()
    assert not bench.child.killed, "it has so long"
    bench.now += 0.1
    bench.worker.poll()
    first, second = bench.children
    assert first.killed
    assert (second.begun(), second.orders[0]) == ([other], LoadSnapshot(2, b"weights"))
    second.answers.append(slice_of(other))
    bench.worker.poll()
    assert bench.heard == [slice_of(other)]


def test_where_only_stuck_jobs_were_no_other_process_is_started(bench: Bench) -> None:
    bench.worker.stop(bench.begin())
    bench.now += 2 * STOP_PATIENCE
    bench.worker.poll()
    assert bench.children[0].killed
    assert len(bench.children) == 1
    bench.begin()
    assert len(bench.children) == 2


def test_a_process_that_dies_ends_its_jobs_in_words_and_the_next_job_has_another(
    bench: Bench,
) -> None:
    ticket, stopped = bench.begin(), bench.begin()
    bench.worker.stop(stopped)
    bench.child.dies = "signal 11"
    assert bench.worker.poll()
    assert bench.heard == [JobOver(ticket, "the process for it ended (signal 11)")]
    assert bench.worker.trouble == ""
    bench.begin()
    assert len(bench.children) == 2
    assert isinstance(bench.child.orders[0], LoadSnapshot)


def test_a_process_that_never_became_ready_is_not_tried_again(bench: Bench) -> None:
    ticket = bench.begin()
    bench.child.answers, bench.child.dies = [], "exit code 1"
    bench.worker.poll()
    trouble = "the process for it did not start (exit code 1)"
    assert (bench.worker.trouble, bench.heard) == (trouble, [JobOver(ticket, trouble)])
    assert not bench.worker.warm()
    assert len(bench.children) == 1


def test_where_no_process_can_be_started_that_is_said_of_each_job(bench: Bench) -> None:
    bench.error = OSError(12, "Cannot allocate memory")
    ticket = bench.begin()
    assert bench.heard == [], "not before it is polled"
    assert bench.worker.poll()
    trouble = "no process could be started for it (Cannot allocate memory)"
    assert (bench.worker.trouble, bench.heard) == (trouble, [JobOver(ticket, trouble)])
    assert not bench.worker.poll()


def test_a_process_that_has_nothing_to_do_is_ended_where_nobody_will_need_it(
    bench: Bench,
) -> None:
    ticket = bench.begin()
    bench.worker.rest()
    assert not bench.child.killed
    bench.child.answers.append(JobOver(ticket))
    bench.worker.poll()
    bench.worker.rest()
    assert bench.child.killed
    bench.begin()
    assert len(bench.children) == 2
    assert isinstance(bench.child.orders[0], LoadSnapshot)


def test_a_worker_that_is_closed_has_no_process(bench: Bench) -> None:
    bench.begin()
    bench.worker.close()
    bench.worker.close()
    assert bench.child.killed
    assert not bench.worker.poll()
    assert bench.heard == []


NO_MESSAGE = """
import sys, time
sys.stdout.buffer.write(b"no message" * 99)
sys.stdout.flush()
time.sleep(3600)
"""


def test_a_process_that_sends_what_is_no_message_is_ended_and_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = subprocess.Popen

    def started(command: list[str], **given: Any) -> subprocess.Popen[bytes]:
        return start([sys.executable, "-c", NO_MESSAGE], **given)

    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(reading_worker, "LEAVE", 0.05)
    child = ReadingProcess()
    until = time.monotonic() + 60.0
    while not child.ended:
        assert child.take() == []
        assert time.monotonic() < until
        time.sleep(0.01)
    assert "killed" in child.ended
    child.kill()
