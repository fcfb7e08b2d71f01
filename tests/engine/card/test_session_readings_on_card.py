"""A session on a card: expensive readings are made there, on the side stream, and in no process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import Event, Failed, Refused
from dgn_engine.protocol.training import Resume, StartRun
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.session.engine import Engine
from dgn_engine.training.probes import all_probes
from dgn_engine.training.readings import reading_sizes
from dgn_engine.training.readings.process_readings import ProcessReadings, ReadingProcess
from dgn_engine.training.readings.stream_readings import StreamReadings
from tests.engine.card.card_runs import Device, small_config
from tests.simulated_card import SimulatedCard, simulated_card

HEAVY = ("npk", "overlap", "ntk", "layer_kernels")
PATIENCE = 300.0  # seconds: a hang, not a slow machine


class Session:
    """An engine without its thread, and what it said."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.frames: list[Frame] = []
        self.engine = Engine(self.events.append, self.frames.append)

    def begin(self, device: Device, net: str = "cnn4", probes: tuple[str, ...] = HEAVY) -> None:
        self.engine.handle_command(Watch(tuple(map(ProbeRequest, probes))))
        config = replace(small_config("DL", net), device=device)
        self.engine.handle_command(StartRun(config, paused=True))

    def read_all(self) -> dict[str, Reading]:
        """Advance until every reading is as good as it gets; return them."""
        until = time.monotonic() + PATIENCE
        self.engine.advance()
        run = self.engine.run
        assert run is not None
        while run.probe_schedule.is_refining:
            assert time.monotonic() < until
            self.engine.advance()
            time.sleep(0.001)
        self.engine.advance()
        return dict(run.probe_schedule.readings)

    @property
    def troubles(self) -> list[Event]:
        return [event for event in self.events if isinstance(event, (Failed, Refused))]


@pytest.fixture(autouse=True)
def everything_is_expensive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_sizes, "UNSURE", 0.0)
    monkeypatch.setattr(reading_sizes, "FIRST_LOOK", 0.0)


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: ReadingProcess) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(ReadingProcess, "__init__", start)


@pytest.fixture
def session(card: SimulatedCard) -> Iterator[Session]:
    made = Session()
    yield made
    made.engine.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("dgn-card-readings")]


def test_readings_of_a_paused_run_are_those_of_the_cpu(session: Session) -> None:
    session.begin("cuda")
    on_card = session.read_all()
    assert isinstance(session.engine.state.executors.executor, StreamReadings)
    assert session.troubles == []
    assert {name: reading.step for name, reading in on_card.items()} == dict.fromkeys(HEAVY, 0)
    for name, reading in on_card.items():
        context = session.engine.run.probed.probe_context()  # type: ignore[union-attr]
        expected = all_probes()[name].read(context, {}, None)
        assert not reading.absent, name
        for key, array in expected.arrays.items():
            np.testing.assert_allclose(reading.arrays[key], array, rtol=1e-4, atol=1e-5)


def test_a_run_that_trains_is_read_of_its_copy_and_no_process_is_started(
    session: Session, no_process: None
) -> None:
    session.begin("cuda")
    engine = session.engine
    engine.handle_command(Resume())
    until = time.monotonic() + PATIENCE
    run = engine.run
    assert run is not None
    while len(run.probe_schedule.readings) < len(HEAVY) or any(
        reading.absent for reading in run.probe_schedule.readings.values()
    ):
        assert time.monotonic() < until
        engine.advance()
    assert session.troubles == []
    assert run.step_count > 0
    assert all(0 <= r.step <= run.step_count for r in run.probe_schedule.readings.values())


def test_a_run_on_the_cpu_after_one_on_a_card_has_the_process_again(session: Session) -> None:
    session.begin("cuda")
    session.read_all()
    session.begin("cpu", "fc", ("npk",))
    assert isinstance(session.engine.state.executors.executor, ProcessReadings)
    readings = session.read_all()
    assert readings["npk"].absent == ""
    assert session.troubles == []


def test_a_session_that_is_closed_in_the_middle_of_a_slice_leaves_no_thread() -> None:
    with simulated_card():
        session = Session()
        session.begin("cuda")
        session.engine.advance()
        session.engine.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("dgn-card-readings")]
