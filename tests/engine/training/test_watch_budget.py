"""The ledger of watching in simulated runs: a clock of the test, costs that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from dgn_engine.training.readings.watch_budget import (
    DRAWING,
    IDLE_SHARE,
    LONGEST,
    SHARED,
    SHORTEST,
    WatchBudget,
    seconds_awake,
)

STEP = 0.01  # seconds


@dataclass
class Simulation:
    """A run with its probes; each round the window draws, and says so within a second.

    `costs`: seconds of a reading of each probe; `drawing`: of all pictures of a round; `window`,
    `recorder`: seconds a second of what comes by itself. `speed`: of a core that the run
    has; `pace`: steps a second.
    """

    costs: Sequence[float]
    drawing: float = 0.0
    window: float = 0.0
    recorder: float = 0.0
    share: float = 0.05
    speed: float = 1.0
    pace: float = 0.0
    wall: float = 100.0
    busy: float = 0.0
    trained: float = 0.0
    spent: float = 0.0
    read_at: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.budget = WatchBudget(self.share, lambda: self.wall, lambda: self.busy)
        self.names = [f"probe {place}" for place in range(len(self.costs))]
        self.read_at = {name: [] for name in self.names}
        self._due = set(self.names)
        self._drawn = self._other = 0.0  # not reported yet
        self._reported = self.wall

    def work(self, seconds: float) -> None:
        self.busy += seconds
        self.wall += seconds / self.speed

    def change(self) -> None:
        """The user changes the network: everything is due."""
        self._due.update(self.names)

    def run(self, seconds: float) -> Simulation:
        end = self.wall + seconds
        while self.wall < end:
            before = self.wall
            self.work(STEP)
            self.trained += STEP
            if self.pace:
                self.wall = max(self.wall, before + 1 / self.pace)
            self._read()
            self._report(self.wall - before)
            self.budget.update_account(running=True, paced=self.pace > 0)
        return self

    def _read(self) -> None:
        due = [name for name in self.names if name in self._due or self._waited(name)]
        if not due:
            return
        for name in due:
            cost = self.costs[self.names.index(name)]
            self.work(cost)
            self.spent += cost
            self.budget.record_reading(name, "readings", cost)
            self._drawn += self.drawing / len(self.names)
        for name in due:
            self.read_at[name].append(self.wall)
        self._due.clear()

    def _waited(self, name: str) -> bool:
        return self.wall >= self.read_at[name][-1] + self.budget.reading_interval(name)

    def _report(self, seconds: float) -> None:
        self._other += self.window * seconds
        recorded = self.recorder * seconds
        self.budget.charge("recording", recorded / SHARED, own=False)  # as its thread counts
        self.spent += recorded
        if self.wall - self._reported < 1.0:
            return
        self.budget.charge(DRAWING, self._drawn / SHARED, own=False)
        self.budget.charge("window", self._other / SHARED, own=False)
        self.spent += self._drawn + self._other
        self._drawn, self._other, self._reported = 0.0, 0.0, self.wall

    @property
    def taken(self) -> float:
        """Of the processor time of all."""
        return self.spent / (self.spent + self.trained)

    def longest(self) -> float:
        """Seconds between two readings of any probe, at most."""
        gaps = [
            later - earlier for times in self.read_at.values() for earlier, later in pairwise(times)
        ]
        return max(gaps)


@pytest.mark.wide
@pytest.mark.parametrize("probes", range(1, 9))
@pytest.mark.parametrize(("drawing", "share"), [(0.0, 0.05), (0.2, 0.05), (0.03, 0.2)])
def test_all_expenses_together_keep_to_the_share(probes: int, drawing: float, share: float) -> None:
    costs = [0.002 * (1 + place) for place in range(probes)]
    made = Simulation(costs, drawing, window=0.2 * share, recorder=0.1 * share, share=share)
    made.run(150.0)
    assert made.taken <= 1.03 * share


@pytest.mark.parametrize("probes", [1, 4, 8])
def test_the_share_is_used_where_there_is_something_to_show(probes: int) -> None:
    made = Simulation([0.01] * probes, 0.03, window=0.01).run(120.0)
    assert 0.045 <= made.taken <= 0.0515


def test_what_is_cheap_is_read_four_times_a_second_and_not_more() -> None:
    made = Simulation([1e-4], 1e-4).run(20.0)
    assert made.taken < 0.01
    gaps = pairwise(made.read_at["probe 0"])
    assert min(later - earlier for earlier, later in gaps) >= SHORTEST


@pytest.mark.parametrize(("speed", "longest"), [(1.0, LONGEST), (0.2, LONGEST / 0.2)])
def test_where_the_rest_takes_the_share_every_probe_is_still_read_each_longest_interval(
    speed: float, longest: float
) -> None:
    made = Simulation([0.01, 0.005], 0.04, window=0.1 * speed, speed=speed).run(100.0)
    assert made.taken > 0.05
    assert made.longest() <= 1.02 * longest + 0.2
    assert made.budget.account.taken == pytest.approx(made.taken, rel=0.2), "and it is said"


def test_a_reading_that_is_dear_alone_waits_as_long_as_the_share_says() -> None:
    made = Simulation([1.0]).run(200.0)
    gaps = made.read_at["probe 0"]
    assert gaps[-1] - gaps[-2] == pytest.approx(20.0, rel=0.1)
    assert made.taken <= 0.055


def test_what_is_dear_waits_longer_and_the_others_do_not_wait_for_it() -> None:
    made = Simulation([0.002, 0.2]).run(200.0)
    quick, dear = (len(made.read_at[name]) for name in made.names)
    assert quick >= 5 * dear > 0
    assert made.taken <= 0.055


def test_the_window_is_charged_before_the_rounds_are_shared_out() -> None:
    alone = Simulation([0.02]).run(60.0).budget.every
    beside = Simulation([0.02], window=0.025).run(60.0).budget.every
    assert beside == pytest.approx(2 * alone, rel=0.15)


def test_a_change_of_the_user_is_read_at_once_and_paid_back() -> None:
    made = Simulation([0.02] * 4, 0.04).run(60.0)
    usual = made.budget.every
    for _ in range(10):
        made.change()
        made.run(0.01)
        assert all(times[-1] >= made.wall - 0.2 for times in made.read_at.values())
    assert made.budget.every > 1.5 * usual
    made.run(200.0)
    assert made.taken <= 0.052
    assert made.budget.every == pytest.approx(usual, rel=0.2)


def test_debts_of_an_hour_are_forgotten_after_a_minute() -> None:
    made = Simulation([0.01], window=0.5).run(600.0)
    made.window = 0.0
    made.run(90.0)
    assert made.budget.every == pytest.approx(0.01 / 0.0526, abs=0.15)


def test_a_run_that_waits_between_its_steps_may_be_watched_while_it_waits() -> None:
    made = Simulation([0.01], 0.02, pace=40.0).run(60.0)
    assert made.budget.every == SHORTEST
    assert made.spent < IDLE_SHARE * 60.0
    assert made.budget.account.taken == 0.0, "it delays nothing"


def test_while_nothing_trains_nothing_is_charged() -> None:
    made = Simulation([0.01]).run(30.0)
    before = made.budget.every
    made.budget.charge("readings", 1000.0)
    made.budget.update_account(running=False)
    made.wall += 100.0
    made.budget.update_account(running=True)
    made.run(1.0)
    assert made.budget.every == pytest.approx(before, rel=0.2)


def test_another_share_holds_at_once() -> None:
    made = Simulation([0.1]).run(60.0)
    before = made.budget.every
    made.budget.share = 0.2
    made.run(5.0)
    assert made.budget.every < before / 3


def test_what_is_watched_no_more_costs_nothing_more() -> None:
    made = Simulation([0.002, 0.05]).run(60.0)
    made.budget.forget_costs(["probe 1"])
    assert made.budget.reading_interval("probe 0") == made.budget.every == SHORTEST


def test_the_account_names_what_takes_how_much() -> None:
    made = Simulation([0.01], 0.01, window=0.005, recorder=0.002).run(60.0)
    account = made.budget.account
    assert set(account.parts) == {"readings", DRAWING, "window", "recording"}
    assert sum(account.parts.values()) == pytest.approx(account.taken)
    assert account.parts["recording"] == pytest.approx(0.002, rel=0.1)
    assert (account.share, account.every) == (0.05, pytest.approx(made.budget.every, rel=0.3))


@pytest.mark.parametrize(("expense", "longest"), [("window", LONGEST), (DRAWING, 3600.0)])
def test_half_an_hour_without_a_reading_does_not_put_the_next_one_off_for_ever(
    expense: str, longest: float
) -> None:
    """Somebody looks back all the while, which takes a third of the time."""
    simulation = Simulation([0.01])
    budget = simulation.budget
    budget.record_reading("probe 0", "readings", 0.01)
    for _ in range(1800):
        simulation.work(1.0)
        budget.charge(expense, 0.33, own=False)
        budget.update_account(True)
    assert budget.reading_interval("probe 0") <= longest


def test_a_second_of_another_thread_counts_as_what_training_loses_by_it() -> None:
    wall = busy = 0.0
    budget = WatchBudget(0.05, lambda: wall, lambda: busy)
    budget.update_account(running=True)
    wall, busy = 10.0, 9.0
    budget.charge("window", 0.2, own=False)
    budget.charge("readings", 0.3)
    budget.update_account(running=True)
    assert budget.account.parts == {
        "readings": pytest.approx(0.3 / 9.3),
        "window": pytest.approx(SHARED * 0.2 / 9.3),
    }


def test_a_debt_is_paid_back_in_full_where_the_budget_says_so() -> None:
    """One slice of 5 s, of which 2 % of the time are allowed: 245 s of training."""
    wall = 0.0
    budget = WatchBudget(0.02, lambda: wall, lambda: wall, debt=1800.0)
    budget.update_account(running=True)
    budget.charge("refinements", 5.0)
    wall += 5.0
    credit = []
    for _ in range(300):
        wall += 1.0
        budget.update_account(running=True)
        credit.append(budget.has_credit)
    assert credit.index(True) == pytest.approx(245, abs=2)


@pytest.mark.parametrize("pace", [0.0, 20.0])
def test_the_time_in_which_the_machine_slept_is_no_time_of_the_run(pace: float) -> None:
    run = Simulation((0.01, 0.03), drawing=0.01, window=0.002, pace=pace).run(60.0)
    before, taken = run.budget.every, run.budget.account.taken
    asleep = 120.0
    run.wall += asleep
    run.run(1.0)
    assert run.budget.every == pytest.approx(before, rel=0.3)
    assert run.budget.account.taken == pytest.approx(taken, rel=0.3)
    readings = [at for times in run.read_at.values() for at in times if at > 160.0]
    assert len(readings) >= len(run.names)  # what was due meanwhile was read at once


def test_only_a_thread_that_hardly_worked_was_stopped() -> None:
    assert seconds_awake(9.0, 0.1) == 0.1
    assert seconds_awake(9.0, 0.1, usual=0.3) == 0.3
    assert seconds_awake(9.0, 3.0) == 9.0  # others had the processor, too
    assert seconds_awake(9.0, 0.1, usual=5.0) == 9.0  # it waits as long as a rule
    assert seconds_awake(1.5, 0.0) == 1.5
