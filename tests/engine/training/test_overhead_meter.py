"""The viewer overhead in worlds in which the truth is known: made-up clocks, costs and loads."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from functools import partial

import pytest

from dgn_engine.protocol.frames import SURE
from dgn_engine.training.readings.overhead_meter import FEWEST, PACED, RESTING, TOO_FEW, Overhead
from dgn_engine.training.readings.watch_budget import DRAWING, WatchBudget

STEP = 0.001  # processor seconds
SLICE = 0.004  # processor seconds between two waits, on average
LOOK = 0.005  # seconds between two looks at what is due


@dataclass
class World:
    """A run, a window and a machine.

    `reading`: of the thread that trains, in each round; `drawing`: of the window's thread, which
    training waits for; `cold`: how much longer steps take for 10 ms after a drawing. `load`: how
    long a step waits for a processor, in times of itself, on average; `jitter`: how much steps
    differ; `swing`: the load comes and goes every `period` seconds, and steps take so much longer
    while it is there.
    `known`: the system says how long threads wait. `every`: seconds between two rounds; None: as
    the budget has it.
    """

    reading: float = 0.0
    drawing: float = 0.0
    cold: float = 0.0
    load: float = 0.0
    jitter: float = 0.05
    swing: float = 0.0
    period: float = 20.0
    known: bool = True
    every: float | None = 1.0
    seed: int = 0
    wall: float = 1000.0
    busy: float = 0.0
    queued: float = 0.0
    others: float = 0.0
    needed: float = 0.0  # seconds by the clock that the steps would have taken unwatched
    cold_until: float = 0.0
    round_at: float = 1000.0
    began: float = 1000.0
    budget: WatchBudget = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.budget = WatchBudget(
            0.05,
            lambda: self.wall,
            lambda: self.busy,
            queued=lambda: self.queued if self.known else math.nan,
            others=lambda: self.others,
        )

    def work(self, seconds: float) -> float:
        """The thread that trains works; seconds by the clock that this takes."""
        waited, left = 0.0, self.load and seconds
        while left > 0.0:  # a busy machine gives the processor in slices: waits are rare, and long
            if self.random.random() < min(left / SLICE, 1.0):
                waited += SLICE * self.load_now * self.random.expovariate(1.0)
            left -= SLICE
        self.busy += seconds
        self.queued += waited
        self.wall += seconds + waited
        return seconds + waited

    @property
    def load_now(self) -> float:
        return 0.0 if self.swing and self.wall % self.period < self.period / 2 else self.load

    def pause(self, seconds: float) -> None:
        """No step is taken for so long."""
        self.work(seconds)

    def step(self) -> None:
        usual = STEP * (1.0 + self.jitter * self.random.uniform(-1.0, 1.0))
        if self.swing and self.load_now:
            usual *= 1.0 + self.swing
        extra = self.cold if self.wall < self.cold_until else 0.0
        took = self.work(usual * (1.0 + extra))
        self.needed += took / (1.0 + extra)
        self.budget.overhead.steps += 1

    def run(self, seconds: float) -> World:
        end, look_at = self.wall + seconds, 0.0
        while self.wall < end:
            self.step()
            if self.budget.overhead.is_quiet() or self.wall < look_at:
                continue
            if self.wall >= self.round_at:
                self._round()
            self.budget.update_account(running=True)
            self.budget.overhead.begin_if_due()
            look_at = self.wall + LOOK
        return self

    def _round(self) -> None:
        self.work(self.reading)
        self.budget.record_reading("probe", "readings", self.reading)
        held_up = self.drawing * (1.0 + self.load)  # whoever draws is preempted just as well
        self.wall += held_up
        self.others += self.drawing
        self.budget.charge(DRAWING, self.drawing, own=False)
        self.cold_until = self.wall + 0.01
        wait = self.budget.reading_interval("probe") if self.every is None else self.every
        self.round_at = self.wall + wait

    @property
    def lost(self) -> float:
        """The truth: the share of the step rate that is lost."""
        return 1.0 - self.needed / (self.wall - self.began)

    @property
    def measured(self) -> Overhead:
        measured = self.budget.overhead.measured
        assert measured is not None
        return measured


WORLDS = {
    "readings": World(reading=0.1),
    "drawings": World(drawing=0.1),
    "cold caches": World(drawing=0.02, cold=0.5),
    "half of all time": World(reading=0.4, drawing=0.5),
    "load 5": World(0.05, 0.05, load=1.5),
    "load 13": World(0.05, 0.05, load=5.5),
    "a system that does not say who waits": World(0.2, 0.2, known=False),
    "a load that comes and goes": World(0.05, 0.05, load=3.0, swing=0.5),
    "steps that differ": World(0.05, 0.05, jitter=0.9),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_overhead_is_what_is_lost_within_the_error_that_is_given(name: str) -> None:
    world = WORLDS[name].run(90.0)
    measured = world.measured
    assert measured.lost == pytest.approx(world.lost, abs=3.0 * measured.noise + 0.01)
    assert measured.noise < 0.05
    assert world.budget.account.is_measured


@pytest.mark.wide
@pytest.mark.parametrize(
    ("load", "swing", "period"),
    [(0.0, 0.0, 1.0), (1.5, 0.0, 1.0), (5.5, 0.0, 1.0), (3.0, 0.5, 20.0), (3.0, 0.5, 0.7)],
)
@pytest.mark.parametrize("known", [True, False])
def test_where_watching_costs_nothing_nothing_is_said_however_busy_the_machine(
    load: float, swing: float, period: float, known: bool
) -> None:
    said = 0
    for seed in range(4):
        world = World(
            load=load, swing=swing, period=period, known=known, jitter=0.5, seed=seed
        ).run(60.0)
        measured = world.measured
        assert abs(measured.lost) <= max(3.0 * measured.noise, 0.003)
        said += measured.lost > SURE * measured.noise
    assert said <= 1


def test_a_clock_that_says_little_is_not_believed() -> None:
    """Of a busy machine whose system does not say who waits, the error is as large as it is."""
    busy, quiet = (World(0.05, 0.05, load=load, known=False).run(60.0) for load in (5.5, 0.0))
    assert busy.measured.noise > 2.0 * quiet.measured.noise
    told = World(0.05, 0.05, load=5.5).run(60.0)
    assert told.measured.noise < 0.75 * busy.measured.noise


@pytest.mark.parametrize(("cold", "load"), [(0.0, 0.0), (3.0, 0.0), (0.0, 4.0)])
def test_rounds_are_spaced_by_what_is_lost_and_keep_to_the_share(cold: float, load: float) -> None:
    """The ledger knows of no caches, and of nobody who is preempted while training waits."""
    world = World(0.005, 0.02, cold=cold, load=load, every=None).run(120.0)
    before, wall = world.needed, world.wall
    world.run(120.0)
    lost = 1.0 - (world.needed - before) / (world.wall - wall)
    assert lost == pytest.approx(0.05, abs=0.015)


def test_nothing_is_said_before_there_are_enough_pairs_or_of_a_run_that_waits() -> None:
    world = World(0.1)
    overhead = world.budget.overhead

    def said() -> tuple[bool, str]:
        return overhead.measured is not None, overhead.reason

    assert said() == (False, TOO_FEW)
    world.run(FEWEST * 0.3)
    assert said() == (False, TOO_FEW)
    world.run(30.0)
    assert said() == (True, "")
    for running, paced, reason in ((True, True, PACED), (False, False, RESTING)):
        world.budget.update_account(running, paced)
        assert said() == (False, reason)
        world.run(30.0)
        assert said() == (True, "")


def test_a_test_pass_that_ends_an_epoch_is_not_the_viewers() -> None:
    world = World()
    for _ in range(40):
        world.run(1.0)
        world.budget.overhead.exclude_work(partial(world.pause, 0.5))
    assert world.measured.lost <= 3.0 * world.measured.noise + 0.003
