"""Data that take long to read can be given up: the session lives on, and so does its run."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, Report, load_examples
from dgn_engine.protocol.messages import EngineReady, Event, Failed, Refused, Working
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import ContinueRun
from dgn_engine.protocol.training import CancelLoading, Pause, Paused, RunStarted, StartRun
from dgn_engine.session.engine import Engine
from dgn_engine.session.thread_session import ThreadSession
from dgn_engine.training import run as run_module
from tests.engine.session.conftest import Desk, small_config


class EndlessData:
    """Reads on and on, unless the data have only ten examples to train with."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def __call__(self, config: DataConfig, report: Report) -> Examples:
        if config.train_limit == 10:
            return load_examples(config, report)
        while True:
            report("reading for ever", 0.5)
            self.begun.set()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> EndlessData:
    found = EndlessData()
    monkeypatch.setattr(run_module, "load_examples", found)
    return found


def until(session: ThreadSession, kind: type[Event]) -> list[Event]:
    """Every event up to the first of this kind, but for what tells progress."""
    heard: list[Event] = []
    tick = threading.Event()
    while not any(isinstance(event, kind) for event in heard):
        heard += [one for one in session.drain_events() if not isinstance(one, Working)]
        tick.wait(0.01)
    return heard


def short() -> StartRun:
    config = small_config()
    return StartRun(
        type(config)(data=DataConfig("digits", train_limit=10), net=config.net, device="cpu")
    )


@pytest.mark.timeout(120)
def test_cancelling_ends_it_at_once_and_the_run_in_progress_goes_on(endless: EndlessData) -> None:
    session = ThreadSession()
    session.start()
    try:
        until(session, EngineReady)
        session.send(short())
        until(session, RunStarted)
        session.send(StartRun(small_config()))
        assert endless.begun.wait(60.0)
        session.send(CancelLoading())
        refusals = [one for one in until(session, Refused) if isinstance(one, Refused)]
        assert [one.kind for one in refusals] == ["cancelled"]
        session.send(Pause())
        until(session, Paused)  # of the first run, which goes on
        session.send(short())
        until(session, RunStarted)  # nothing is cancelled any more
    finally:
        assert session.close(60.0)


@pytest.mark.timeout(120)
def test_closing_does_not_wait_for_data(endless: EndlessData) -> None:
    session = ThreadSession()
    session.start()
    session.send(StartRun(small_config()))
    assert endless.begun.wait(60.0)
    assert session.close(60.0)


def test_cancelling_where_nothing_is_read_changes_nothing() -> None:
    heard: list[Event] = []
    cancelled = threading.Event()
    engine = Engine(heard.append, lambda _frame: None, cancelled=cancelled)
    cancelled.set()
    engine.handle_command(CancelLoading())
    engine.handle_command(short())
    assert isinstance(next(event for event in heard if not isinstance(event, Working)), RunStarted)
    engine.close()


def test_only_what_reads_data_says_that_it_can_be_cancelled(desk: Desk) -> None:
    desk.handle(short())
    working = desk.events_of(Working)
    assert working
    assert all(event.can_cancel for event in working)
    reading = RunState().after(working[0])
    assert (reading.working, reading.can_cancel) == (working[0].sentence, True)
    assert RunState().after(Working("Saving")).can_cancel is False
    assert reading.after(Refused("start this run", "No.")).working == ""
    assert reading.after(Failed("It failed", "")).working == ""


def test_what_is_cancelled_after_the_last_report_takes_no_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    heard: list[Event] = []
    cancelled = threading.Event()
    engine = Engine(heard.append, lambda _: None, runs_root=str(tmp_path), cancelled=cancelled)
    engine.handle_command(short())
    run = engine.run
    assert run is not None
    (folder,) = tmp_path.iterdir()
    engine.handle_command(short())

    def read(config: DataConfig, report: Report) -> Examples:
        examples = load_examples(config, report)
        cancelled.set()
        return examples

    run = engine.run
    monkeypatch.setattr(run_module, "load_examples", read)
    for command in (StartRun(small_config()), ContinueRun(str(folder))):
        engine.handle_command(command)
        refused = heard[-1]
        assert isinstance(refused, Refused)
        assert (engine.run, refused.reason) == (run, "Reading the data was cancelled.")
        engine.handle_command(CancelLoading())
    monkeypatch.undo()
    engine.handle_command(ContinueRun(str(folder)))  # its folder was let go
    assert engine.run is not run
    engine.close()


def test_a_network_that_is_being_made_can_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "LARGE_LAYER", 1)
    cancelled = threading.Event()
    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, Working) and event.what == run_module.MAKING:
            assert event.can_cancel
            cancelled.set()

    engine = Engine(hear, lambda _: None, cancelled=cancelled)
    engine.handle_command(StartRun(small_config()))
    refused = [event for event in heard if isinstance(event, Refused)]
    assert [event.what for event in refused] == ["start this run"]
    assert engine.run is None
    engine.handle_command(CancelLoading())
    monkeypatch.setattr(run_module, "LARGE_LAYER", 1 << 30)
    engine.handle_command(StartRun(small_config()))
    assert engine.run is not None
    engine.close()
