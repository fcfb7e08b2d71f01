"""Probes that are read beside a run which trains on: of a copy, told as of their step.

Without a card the thread is the same; only the stream is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.training.probes import ProbeContext, ProbeResult
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.stream_readings import StreamReadings
from dgn_engine.training.run import Run

Make = Callable[..., Run]


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
    schedule.refined.executor.latest()
    due = schedule.due(run.step_count, catch_up=standing)
    if due:
        schedule.read(due, run.probed.context(), run.step_count, standing)


def wait_until_read(run: Run) -> None:
    stream = run.probe_schedule.refined.executor
    assert isinstance(stream, StreamReadings)
    for _, future in stream._exact:
        future.result(30.0)


def newest(run: Run) -> Reading:
    return run.probe_schedule.readings["npk"]


def test_what_was_being_read_of_another_network_is_not_told(run: Run) -> None:
    door = hold(run.probe_schedule, "npk")
    read_due(run)
    run.step()
    run.control.swap("FR-II", restart_value=False)
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
        run.probe_schedule.invalidate()
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
