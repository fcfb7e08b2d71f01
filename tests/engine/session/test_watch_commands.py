"""The budget of watching in a session: who is charged, and that training does not notice."""

from __future__ import annotations

import os

import pytest
import torch

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.training import Measured, Running, SetBeta, SetPace, StartRun
from dgn_engine.protocol.watching import ReportWindow, SetWatchShare, Watch
from dgn_engine.session.engine import Engine
from dgn_engine.session.mailbox import Mailbox
from dgn_engine.training.readings.overhead_meter import PACED, TOO_FEW, Overhead, OverheadMeter
from dgn_engine.training.readings.watch_budget import DRAWING, SHARED
from tests.engine.session.conftest import PROBES, Desk, small_config, train_alone

FRAME = Frame(1, 2, 0.0, 0.0, None)


class Charges:
    """Notes what a run's budget is charged."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.noted: dict[str, float] = {}
        monkeypatch.setattr(desk.run.budget, "charge", self.charge)

    def charge(self, expense: str, seconds: float, own: bool = True, delay: float = SHARED) -> None:
        if not own and seconds:
            self.noted[expense] = self.noted.get(expense, 0.0) + delay * seconds


def test_a_watched_and_recorded_run_has_the_weights_of_a_headless_one_bit_for_bit(
    recording_desk: Desk,
) -> None:
    recording_desk.handle(Watch(PROBES), StartRun(small_config(), paused=True), SetWatchShare(0.9))
    for _ in range(20):
        recording_desk.handle(ReportWindow(0.1, 0.1, os.getpid()))
        recording_desk.train(1)
    assert all(
        map(
            torch.equal,
            recording_desk.copy_value_weights(),
            train_alone(small_config(), 20).trainer.network.value.weights,
        )
    )


def test_a_frozen_window_does_not_slow_training() -> None:
    """It takes nothing for a hundred steps: nothing waits for it, and it is told once."""
    mailbox, told = Mailbox(), []
    mailbox.set_wakeup(lambda: told.append(1))
    engine = Engine(mailbox.emit, mailbox.publish)
    try:
        engine.handle_command(Watch(PROBES))
        engine.handle_command(StartRun(small_config()))
        steps = 0
        while steps < 100:
            engine.advance()
            assert engine.run is not None
            assert engine.run.step_count - steps <= 1  # without a caller who says it is idle
            steps = engine.run.step_count
    finally:
        engine.close()
    assert len(told) == 1
    assert mailbox.take_latest_frame() is not None
    assert mailbox.take_latest_frame() is None, "of frames one is kept"


@pytest.mark.parametrize(
    ("another", "name", "delay"),
    [
        (0, "window", SHARED),  # it shares the interpreter with the thread that trains
        (1, "window's process", 1.0),
    ],
)
def test_a_window_is_charged_and_more_where_it_holds_the_interpreter(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, another: int, name: str, delay: float
) -> None:
    process = os.getpid() + another
    desk.handle(ReportWindow(1.0, 1.0, process))  # there is no run yet
    desk.handle(StartRun(small_config(), paused=True))
    charges = Charges(desk, monkeypatch)
    desk.handle(ReportWindow(0.25, 0.5, process))
    assert charges.noted == {DRAWING: delay * 0.25, name: delay * 0.5}
    desk.handle(ReportWindow(0.0, 0.0, process, relay=2.0))
    assert charges.noted["relay"] == 2.0 * SHARED


def test_a_share_holds_for_the_runs_that_follow(desk: Desk) -> None:
    desk.handle(SetWatchShare(0.2), StartRun(small_config(), paused=True))
    assert desk.run.budget.share == 0.2
    desk.handle(SetWatchShare(0.0))
    assert desk.run.budget.share == 0.2


# Quiet stretches: nothing is done but steps


@pytest.fixture
def trains(desk: Desk) -> Desk:
    desk.handle(StartRun(small_config()), Watch(PROBES[:1]))
    desk.advance(1)
    return desk


def test_in_a_quiet_stretch_steps_are_taken_and_nothing_is_read_or_published(
    trains: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OverheadMeter, "is_quiet", lambda _meter: True)
    trains.frames.clear()
    trains.run.probe_schedule.invalidate_all()  # it is due
    before = trains.run.step_count
    while trains.run.step_count < before + 5:
        trains.advance(1)
    assert trains.run.budget.overhead.steps == trains.run.step_count
    assert not trains.frames
    monkeypatch.undo()
    trains.handle(ReportWindow(0.0, 0.0, 0))  # looks at what is due
    trains.advance(1)
    assert trains.frames


def test_what_was_measured_is_forgotten_when_the_user_changes_something(trains: Desk) -> None:
    overhead = trains.run.budget.overhead
    for command, kept in ((ReportWindow(0.0, 0.0, 0), True), (SetBeta(3.0), False)):
        overhead.measured, overhead.reason = Overhead(0.04, 0.01), ""
        trains.handle(command)
        assert (overhead.measured is not None) == kept
    assert overhead.reason == TOO_FEW
    trains.handle(SetPace(1000.0))
    trains.advance(1)
    assert overhead.reason == PACED


# What wakes the window up


def test_scores_wait_for_the_next_frame_and_other_events_are_told_at_once() -> None:
    mailbox, told = Mailbox(), []
    mailbox.set_wakeup(lambda: told.append(1))
    mailbox.emit(Measured(1, 0.1, 1.0, 0.5))
    assert told == []
    mailbox.emit(Running(1))
    mailbox.emit(Running(2))
    mailbox.publish(FRAME)
    assert told == [1], "once until the frame is asked for"
    assert mailbox.take_latest_frame() == FRAME
    mailbox.publish(FRAME)
    assert told == [1, 1]


def test_who_comes_later_is_told_of_what_has_arrived_before() -> None:
    mailbox, told = Mailbox(), []
    mailbox.emit(Running(1))
    mailbox.set_wakeup(lambda: told.append("first"))
    mailbox.set_wakeup(lambda: told.append("second"))
    assert told == ["first", "second"]
    mailbox.take_latest_frame()
    mailbox.drain_events()
    mailbox.emit(Running(2))
    assert told == ["first", "second", "second"]
