"""Frames of a run that goes on: when they go out, the steps a second and the time that is left."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.session import frame_publisher
from dgn_engine.session.frame_publisher import FramePublisher, StepRate
from dgn_engine.training.readings.watch_budget import WatchBudget
from dgn_engine.training.run import Run


class Clock:
    """Begins where float seconds are whole sixteenths, so that sums are exact."""

    now = 1024.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(frame_publisher, "time", made)
    return made


class Schedule:
    """A probe schedule that is made up; `waiting`: what is due next."""

    def __init__(self) -> None:
        self.waiting: tuple[str, ...] = ()
        self.notable: tuple[str, ...] = ()
        self.asked: list[tuple[int, bool]] = []
        self.read_with: list[object] = []
        self.readings: dict[str, Reading] = {}
        self.overflowed = False

    def slow_titles(self, due: tuple[str, ...], context: object) -> tuple[str, ...]:
        return self.notable

    def due_probes(self, step: int, idle: bool) -> tuple[str, ...]:
        self.asked.append((step, idle))
        found, self.waiting = self.waiting, ()
        return found

    def read_probes(
        self,
        due: tuple[str, ...],
        context: object,
        step: int,
        standing: bool = False,
        made: Callable[[], object] | None = None,
    ) -> None:
        self.read_with.append(context)
        for name in due:
            self.readings[name] = Reading(name, step)
            if made is not None and name != due[-1]:
                made()


class MadeUpRun:
    number, step_count, total_steps, diverged = 3, 10, 30, False
    make_frame: Any = Run.make_frame

    def __init__(self) -> None:
        network = SimpleNamespace(wiring=(1, 0))
        regime = SimpleNamespace(name="DLN")
        self.trainer = SimpleNamespace(epoch=1.5, regime=regime, network=network)
        self.probe_schedule = Schedule()
        self.budget = WatchBudget()
        self.control = SimpleNamespace(pace=0.0)
        self.probed = SimpleNamespace(
            probe_set=SimpleNamespace(digest="abc"),
            probe_context=lambda gates, _network: ("context with", gates),
        )


class Bench:
    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.other = {"npk": Reading("npk", 5)}
        self.comparison: Any = SimpleNamespace(
            other_gates="their gates", other_network=None, readings=self.other, number=0
        )
        self.publisher = FramePublisher(self.frames.append, self.comparison)
        self.run: Any = MadeUpRun()

    def step(self, running: bool = True) -> Frame | None:
        return self.publisher.publish_due(self.run, running)


@pytest.fixture
def bench(clock: Clock) -> Bench:
    made = Bench()
    assert made.step() is None
    assert len(made.frames) == 1
    return made


def test_the_position_goes_out_as_often_as_it_can_be_read(clock: Clock, bench: Bench) -> None:
    for after, frames in ((0.4, 1), (0.5, 2), (0.6, 2), (0.3, 3)):
        clock.now += after
        assert bench.step() is None  # it holds nothing new
        assert len(bench.frames) == frames


def test_at_full_speed_the_position_goes_out_less_often(clock: Clock, bench: Bench) -> None:
    for seconds, pace, every in ((0.001, 0.0, 2.0), (0.001, 100.0, 0.8), (0.1, 0.0, 0.8)):
        bench.publisher.rate.record_steps(1, 0.0, seconds)
        bench.run.control.pace = pace
        bench.frames.clear()
        bench.step(running=False)
        clock.now += every - 0.1
        bench.step()
        assert len(bench.frames) == 1
        clock.now += 0.2
        bench.step()
        assert len(bench.frames) == 2


def test_new_readings_go_out_at_once_and_are_told(clock: Clock, bench: Bench) -> None:
    bench.run.probe_schedule.waiting = ("gates",)
    frame = bench.step()
    assert frame is bench.frames[-1]
    assert len(bench.frames) == 2
    assert frame is not None
    assert frame.readings == {"gates": Reading("gates", 10)}
    assert bench.run.probe_schedule.read_with == [("context with", "their gates")]
    clock.now += 0.03
    bench.step()
    assert len(bench.frames) == 2  # counted from the last frame, whatever was in it
    bench.run.probe_schedule.readings["npk"] = Reading("npk", 11)
    assert set(frame.readings) == {"gates"}  # a frame does not change


def test_a_reading_goes_out_while_the_next_is_made(bench: Bench) -> None:
    bench.run.probe_schedule.waiting = ("gates", "npk", "ntk")
    last = bench.step()
    first, second, third = bench.frames[1:]
    assert [set(frame.readings) for frame in (first, second)] == [{"gates"}, {"gates", "npk"}]
    assert third is last, "what is recorded has all of them"


def test_before_a_long_reading_a_frame_says_what_steps_wait_for(bench: Bench) -> None:
    bench.run.probe_schedule.waiting = ("gates", "npk")
    bench.run.probe_schedule.notable = ("Neural path kernel",)
    bench.step()
    _, before, after = bench.frames  # and none between them, which would not say it
    assert (before.doing, before.readings) == ("reading Neural path kernel", {})
    assert (after.doing, set(after.readings)) == ("", {"gates", "npk"})


def test_what_was_read_elsewhere_goes_out_at_once(bench: Bench) -> None:
    frame = bench.publisher.publish_due(bench.run, True, heard=True)
    assert frame is bench.frames[-1]
    assert len(bench.frames) == 2


def test_a_run_that_stands_still_goes_out_each_time(bench: Bench) -> None:
    bench.step(running=False)
    bench.step(running=False)
    assert len(bench.frames) == 3
    assert bench.run.probe_schedule.asked == [(10, False), (10, True), (10, True)]


def test_nothing_is_read_of_a_run_that_diverged(bench: Bench) -> None:
    bench.run.diverged = True
    bench.run.probe_schedule.waiting = ("gates",)
    bench.step(running=False)
    assert bench.run.probe_schedule.read_with == []


def test_a_frame_says_where_the_run_is_and_how_long_it_will_take(
    clock: Clock, bench: Bench
) -> None:
    bench.publisher.rate = StepRate()
    for _ in range(8):
        clock.now += 0.25
        bench.publisher.rate.record_steps(1, 0.0, 0.0)
    frame = bench.publisher.make_frame(bench.run, True)
    assert frame == Frame(
        3,
        10,
        1.5,
        4.0,
        20 / 4.0,
        {},
        bench.other,
        watching=bench.run.budget.account,
        regime="DLN",
        wiring=(1, 0),
        probe_digest="abc",
    )
    bench.run.total_steps = 0
    assert bench.publisher.make_frame(bench.run, True).eta_seconds is None
    bench.run.total_steps = 30
    frame = bench.publisher.make_frame(bench.run, False)
    assert (frame.steps_per_second, frame.eta_seconds, frame.watching) == (0.0, None, None)


# steps a second


def test_the_rate_is_that_of_the_last_two_seconds(clock: Clock) -> None:
    rate = StepRate()
    assert rate.per_second() == 0.0
    clock.now += 0.5
    rate.record_steps(1, 0.0, 0.0)
    assert rate.per_second() == 2.0  # one step in half a second
    for _ in range(12):  # to 3.5 s, four steps a second
        clock.now += 0.25
        rate.record_steps(1, 0.0, 0.0)
    assert rate.per_second() == 9 / 2.25  # since the step before the window
    clock.now += 1.0
    assert rate.per_second() == 5 / 2.25
    clock.now += 5.0
    assert rate.per_second() == 0.0
    rate.record_steps(1, 0.0, 0.0)
    assert len(rate._taken) == 2  # what is older than the last step before the window is not kept


def test_steps_in_a_row_count_one_by_one(clock: Clock) -> None:
    rate = StepRate()
    for count, seconds in ((50, 0.25), (1, 0.125), (80, 0.5)):
        clock.now += seconds
        rate.record_steps(count, 0.0, seconds)
    assert rate.per_second() == 131 / 0.875
    assert rate.seconds_a_step() == 0.5 / 80
    assert rate.newest_step_seconds == 0.5 / 80


def test_steps_that_take_longer_than_the_window_are_not_made_quicker(clock: Clock) -> None:
    rate = StepRate()
    for _ in range(3):
        clock.now += 5.0
        rate.record_steps(1, 0.0, 0.0)
        assert rate.per_second() == 0.2
    clock.now += 4.0
    assert rate.per_second() == 0.0


def test_a_step_at_once_is_a_thousand_a_second_at_most(clock: Clock) -> None:
    rate = StepRate()
    rate.record_steps(1, 0.0, 0.0)
    assert rate.per_second() == 1000.0


def test_the_next_step_waits_for_the_pace_and_a_pause_is_not_caught_up_with(clock: Clock) -> None:
    rate = StepRate()
    assert rate.seconds_to_wait() == 0.0
    rate.record_steps(1, 4.0, 0.0)
    assert rate.seconds_to_wait() == 0.25
    clock.now += 0.125
    assert rate.seconds_to_wait() == 0.125
    rate.record_steps(1, 4.0, 0.0)  # early: the one after it comes in its own time
    assert rate.seconds_to_wait() == 0.375
    clock.now += 10.0
    assert rate.seconds_to_wait() == 0.0
    rate.record_steps(1, 4.0, 0.0)
    assert rate.seconds_to_wait() == 0.0
    rate.record_steps(1, 4.0, 0.0)
    assert rate.seconds_to_wait() == 0.25
    rate.record_steps(1, 0.0, 0.0)  # as fast as it goes
    assert rate.seconds_to_wait() == 0.0
    rate.record_steps(1, 0.5, 0.0)
    assert rate.seconds_to_wait() == 2.0
