"""Readings in a process, with a process and a clock of the test."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from dgn_engine.training.probes import ProbeResult
from dgn_engine.training.readings import process_readings
from dgn_engine.training.readings.process_readings import (
    STOP_PATIENCE,
    ProcessReadings,
    ReadingProcess,
)
from dgn_engine.training.readings.reading_jobs import (
    Answer,
    BeginJob,
    BeginJobs,
    JobOver,
    JobSlice,
    Order,
    ProcessReady,
    RefinedJob,
    StopJob,
)


class Child:
    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.answers: list[Answer] = [ProcessReady()]
        self.dies = self.ended = ""
        self.killed = False

    def send_order(self, order: Order) -> None:
        self.orders.append(order)

    def take_answers(self) -> list[Answer]:
        found, self.answers = self.answers, []
        self.ended = self.dies
        return found

    def kill(self) -> None:
        self.killed = True

    def begun(self) -> list[int]:
        begun = [order.jobs for order in self.orders if isinstance(order, BeginJobs)]
        return [job.ticket for jobs in begun for job in jobs]


class Bench:
    def __init__(self) -> None:
        self.now = 10.0
        self.children: list[Child] = []
        self.error: OSError | None = None
        self.worker = ProcessReadings(self.start, lambda: self.now)  # type: ignore[arg-type]
        self.heard: list[object] = []
        self.jobs: dict[int, RefinedJob] = {}

    def start(self) -> Child:
        if self.error is not None:
            raise self.error
        self.children.append(Child())
        return self.children[-1]

    @property
    def child(self) -> Child:
        return self.children[-1]

    def begin(self, key: int = 1) -> int:
        (ticket,) = self.begin_all(1, key)
        return ticket

    def begin_all(self, count: int, key: int = 1) -> list[int]:
        contexts: Any = SimpleNamespace(key=key, whole=b"weights", step=7)
        jobs = [RefinedJob("npk", {"n": 3}, self.heard.append) for _ in range(count)]
        self.worker.submit(jobs, contexts)
        self.jobs |= {job.ticket: job for job in jobs}
        return [job.ticket for job in jobs]

    def stop(self, ticket: int) -> None:
        self.worker.cancel(self.jobs[ticket])


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(process_readings, "pack_context", lambda context: context)
    return Bench()


def slice_of(ticket: int) -> JobSlice:
    return JobSlice(ticket, ProbeResult(), 0.5, 0.1, 0, 1.0)


def test_no_process_is_there_before_the_first_job_and_one_serves_all(bench: Bench) -> None:
    assert not bench.worker.deliver_answers()
    assert bench.children == []
    first, second = bench.begin_all(2)
    third = bench.begin(2)
    assert len(bench.children) == 1
    assert bench.child.orders == [
        BeginJobs(b"weights", tuple(BeginJob(t, 1, "npk", {"n": 3}, 7) for t in (first, second))),
        BeginJobs(b"weights", (BeginJob(third, 2, "npk", {"n": 3}, 7),)),
    ]


def test_a_process_that_was_warmed_up_is_the_one_that_reads(bench: Bench) -> None:
    assert bench.worker.start()
    assert bench.worker.start()
    bench.begin()
    assert len(bench.children) == 1


def test_slices_are_delivered_when_asked_for(bench: Bench) -> None:
    first, second = bench.begin(1), bench.begin(1)
    bench.child.answers += [slice_of(first), JobOver(first)]
    assert bench.worker.deliver_answers()
    assert bench.heard == [slice_of(first), JobOver(first)]
    assert not bench.worker.deliver_answers()
    bench.child.answers.append(JobOver(second))
    assert bench.worker.deliver_answers()
    bench.stop(second)
    assert not [order for order in bench.child.orders if isinstance(order, StopJob)]


def test_nothing_is_heard_of_a_job_that_was_stopped(bench: Bench) -> None:
    ticket = bench.begin()
    bench.stop(ticket)
    bench.stop(ticket)
    assert bench.child.orders.count(StopJob(ticket)) == 1
    bench.child.answers += [slice_of(ticket), JobOver(ticket)]
    bench.worker.deliver_answers()
    assert bench.heard == []
    bench.now += 2 * STOP_PATIENCE
    bench.worker.deliver_answers()
    assert not bench.child.killed
    bench.stop(ticket)
    assert len(bench.child.orders) == 2, "it is over: begin, stop"


def test_a_slice_that_does_not_end_after_the_stop_is_killed_and_the_others_go_on(
    bench: Bench,
) -> None:
    stuck, other = bench.begin(1), bench.begin(2)
    bench.worker.deliver_answers()
    bench.stop(stuck)
    bench.now += STOP_PATIENCE
    bench.worker.deliver_answers()
    assert not bench.child.killed, "it has so long"
    bench.now += 0.1
    bench.worker.deliver_answers()
    first, second = bench.children
    assert first.killed
    assert second.begun() == [other]
    second.answers.append(slice_of(other))
    bench.worker.deliver_answers()
    assert bench.heard == [slice_of(other)]


def test_where_only_stuck_jobs_were_no_other_process_is_started(bench: Bench) -> None:
    bench.stop(bench.begin())
    bench.now += 2 * STOP_PATIENCE
    bench.worker.deliver_answers()
    assert bench.children[0].killed
    assert len(bench.children) == 1
    bench.begin()
    assert len(bench.children) == 2


def test_a_process_that_dies_ends_its_jobs_in_words_and_the_next_job_has_another(
    bench: Bench,
) -> None:
    ticket, stopped = bench.begin(), bench.begin()
    bench.stop(stopped)
    bench.child.dies = "signal 11"
    assert bench.worker.deliver_answers()
    assert [(one.ticket, "(signal 11)" in one.trouble) for one in bench.heard] == [(ticket, True)]
    assert bench.worker.trouble == ""
    bench.begin()
    assert len(bench.children) == 2
    assert isinstance(bench.child.orders[0], BeginJobs)


def test_a_process_that_never_became_ready_is_not_tried_again(bench: Bench) -> None:
    ticket = bench.begin()
    bench.child.answers, bench.child.dies = [], "exit code 1"
    bench.worker.deliver_answers()
    assert "(exit code 1)" in bench.worker.trouble
    assert bench.heard == [JobOver(ticket, bench.worker.trouble)]
    assert not bench.worker.start()
    assert len(bench.children) == 1


def test_where_no_process_can_be_started_that_is_said_of_each_job(bench: Bench) -> None:
    bench.error = OSError(12, "Cannot allocate memory")
    ticket = bench.begin()
    assert bench.heard == [], "not before it is polled"
    assert bench.worker.deliver_answers()
    assert "(Cannot allocate memory)" in bench.worker.trouble
    assert bench.heard == [JobOver(ticket, bench.worker.trouble)]
    assert not bench.worker.deliver_answers()


def test_where_there_is_no_room_for_a_thread_the_child_is_ended_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin, children = threading.Thread.start, list[subprocess.Popen[bytes]]()
    popen = subprocess.Popen

    def start(thread: threading.Thread) -> None:
        if thread.name == "dgn-reading":
            raise RuntimeError("no room")
        begin(thread)

    def started(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        children.append(popen(*given, **named))
        return children[-1]

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(subprocess, "Popen", started)
    worker = ProcessReadings()
    assert not worker.start()
    assert "no room" in worker.trouble
    assert [child.poll() is not None for child in children] == [True]


def test_a_process_that_has_nothing_to_do_is_ended_where_nobody_will_need_it(
    bench: Bench,
) -> None:
    ticket = bench.begin()
    bench.worker.end_unless_used()
    assert not bench.child.killed
    bench.child.answers.append(JobOver(ticket))
    bench.worker.deliver_answers()
    bench.worker.end_unless_used()
    assert bench.child.killed
    bench.begin()
    assert len(bench.children) == 2
    assert isinstance(bench.child.orders[0], BeginJobs)


def test_a_process_whose_jobs_were_all_cancelled_is_ended_where_nobody_will_need_it(
    bench: Bench,
) -> None:
    for _ in range(2):
        bench.begin()
    jobs = [ordered.job for ordered in bench.worker._jobs.values()]
    bench.worker.cancel(jobs[0])
    bench.worker.end_unless_used()
    assert not bench.child.killed
    bench.worker.cancel(jobs[1])
    bench.worker.end_unless_used()
    assert bench.child.killed


def test_a_worker_that_is_closed_has_no_process(bench: Bench) -> None:
    bench.begin()
    bench.worker.close()
    bench.worker.close()
    assert bench.child.killed
    assert not bench.worker.deliver_answers()
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
    monkeypatch.setattr(process_readings, "LEAVE", 0.05)
    child = ReadingProcess()
    until = time.monotonic() + 60.0
    while not child.ended:
        assert child.take_answers() == []
        assert time.monotonic() < until
        time.sleep(0.01)
    assert "killed" in child.ended
    child.kill()
