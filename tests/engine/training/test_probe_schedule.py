"""When probes are read and on how many examples: a clock and probes of the test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars
from dgn_engine.training.probes import ASSUMED_FLOPS, Probe, ProbeResult
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.watch_budget import WatchBudget
from tests.engine.training.stand_in_context import StandInContext
from tests.refusals import refused


class Bench:
    """A schedule of one probe 'p', which costs `seconds` for each example, and a twin 'q'."""

    def __init__(self, fewer: bool = True) -> None:
        self.clock, self.events, self.read_at = 100.0, [], []  # type: ignore[var-annotated]
        self.estimated = self.taken = 0.0  # seconds for each example
        self.fits = 64
        self.error: Exception | None = None
        probes = {
            "p": Probe("Pee", self.read, lambda _, n: n * self.estimated * ASSUMED_FLOPS),
            "q": Probe("Queue", lambda *_: ProbeResult(), compares=True),
        }
        budget = WatchBudget(clock=lambda: self.clock, busy=lambda: self.clock)
        self.schedule = ProbeSchedule(self.emit, fewer, budget, probes)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def read(self, context: Any, options: Mapping[str, object], memory: object) -> ProbeResult:
        count = len(context.x)
        self.read_at.append((count, dict(options), memory))
        if self.error is not None:
            raise self.error
        if count > self.fits:
            raise MemoryError
        self.clock += count * self.taken
        return ProbeResult({"a": np.zeros(2)}, {"s": 1.0}, {"f": "word"}, memory=count)

    def watch(self, *names: str, **options: Any) -> None:
        self.schedule.watch(tuple(ProbeRequest(n, tuple(options.items())) for n in names))

    def look(self, step: int = 1, standing: bool = False) -> Any:
        self.schedule.read_probes(("p",), StandInContext(), step, standing)  # type: ignore[arg-type]
        return self.schedule.readings["p"]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_is_watched_is_due_at_once_and_then_as_seldom_as_the_budget_allows(
    bench: Bench,
) -> None:
    bench.watch("p")
    assert bench.schedule.due_probes(1) == ("p",)
    bench.taken = 1 / 64
    reading = bench.look(step=1)
    assert (reading.seconds, reading.interval) == (pytest.approx(1.0), pytest.approx(20.0))
    bench.clock += 19.9
    assert bench.schedule.due_probes(2) == ()
    bench.clock += 0.2
    assert bench.schedule.due_probes(2) == ("p",)
    assert bench.schedule.due_probes(1) == (), "that step was read"
    assert bench.schedule.due_probes(1, catch_up=True) == ()


def test_each_reading_but_the_last_is_told_when_it_is_made(bench: Bench) -> None:
    bench.watch("p", "q")
    seen: list[set[str]] = []

    def made() -> None:
        seen.append(set(bench.schedule.readings))

    bench.schedule.read_probes(("p", "q"), StandInContext(), 1, after_reading=made)  # type: ignore[arg-type]
    assert seen == [{"p"}]


def test_a_quick_probe_is_read_four_times_a_second(bench: Bench) -> None:
    bench.watch("p")
    assert bench.look().interval == 0.25
    bench.clock += 0.24
    assert bench.schedule.due_probes(2) == ()
    assert bench.schedule.due_probes(2, catch_up=True) == ("p",)
    bench.clock += 0.02
    assert bench.schedule.due_probes(2) == ("p",)


def test_what_would_be_due_in_a_moment_is_read_with_what_is_due(bench: Bench) -> None:
    bench.watch("p", "q")
    bench.schedule.read_probes(("p",), StandInContext(), 1)  # type: ignore[arg-type]
    bench.clock += 0.05
    bench.schedule.read_probes(("q",), StandInContext(), 2)  # type: ignore[arg-type]
    bench.clock += 0.19
    assert bench.schedule.due_probes(3) == ()
    bench.clock += 0.02
    assert bench.schedule.due_probes(3) == ("p", "q"), "a quarter of a second after the first"


def test_what_was_read_while_nothing_trained_is_free(bench: Bench) -> None:
    bench.watch("p")
    bench.taken = 1 / 64
    assert bench.look(standing=True).interval == 0.25
    assert bench.look().interval == pytest.approx(20.0)


def test_other_options_and_changes_of_the_gates_make_it_due(bench: Bench) -> None:
    bench.watch("p", layer=1)
    bench.look()
    bench.watch("p", layer=1)
    assert bench.schedule.due_probes(1) == ()
    bench.watch("p", layer=2)
    assert bench.schedule.due_probes(1) == ("p",)
    bench.look()
    assert bench.read_at[-1][1] == {"layer": 2}
    bench.schedule.invalidate_all()
    assert bench.schedule.due_probes(1) == ("p",)


def test_a_new_comparison_makes_those_due_that_compare(bench: Bench) -> None:
    bench.watch("p", "q")
    bench.schedule.read_probes(("p", "q"), StandInContext(), 1)  # type: ignore[arg-type]
    assert bench.schedule.due_probes(1) == ()
    bench.schedule.invalidate_comparing()
    assert bench.schedule.due_probes(1) == ("q",)
    assert (list(bench.schedule.readings), bench.schedule.dropped) == (["p"], True)


def test_an_unknown_probe_is_refused_with_the_nearest(bench: Bench) -> None:
    with refused("unknown-name", value="pp"):
        bench.watch("pp")


def test_a_reading_tells_its_numbers_and_hands_its_memory_on(bench: Bench) -> None:
    bench.watch("p")
    reading = bench.look(step=3)
    assert (reading.probe, reading.step, reading.scalars) == ("p", 3, {"s": 1.0})
    assert reading.facts == {"f": "word"}
    assert not reading.arrays["a"].flags.writeable
    assert (reading.examples, reading.remark) == (0, ""), "it costs nothing to speak of"
    bench.look()
    assert [memory for _, _, memory in bench.read_at] == [None, 64]
    told = [event for event in bench.events if isinstance(event, ProbeScalars)]
    assert [(e.probe, e.values, e.examples) for e in told] == [("p", {"s": 1.0}, 0)] * 2


def test_all_that_is_watched_took_so_long_together(bench: Bench) -> None:
    bench.watch("p", "q")
    bench.taken = 0.5 / 64
    bench.look()
    assert bench.schedule.total_seconds == float("inf"), "one was never read"
    bench.schedule.read_probes(("q",), StandInContext(), 1)  # type: ignore[arg-type]
    assert bench.schedule.total_seconds == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("each", "count"),
    [(0.49 / 64, 64), (0.51 / 64, 32), (0.49 / 16, 16), (0.51 / 16, 8), (4.9 / 8, 8)],
)
def test_before_it_was_measured_a_reading_is_of_what_takes_half_a_second(
    bench: Bench, each: float, count: int
) -> None:
    bench.watch("p")
    bench.estimated = bench.taken = each
    reading = bench.look()
    assert bench.read_at[-1][0] == count
    if count < 64:
        words = f"{count} of 64 probe examples, exact"
        assert (reading.examples, reading.remark) == (count, words)
        assert bench.events[-1].examples == count
    else:
        assert (reading.examples, reading.remark) == (0, "64 probe examples, exact")


def test_where_nothing_trains_a_reading_may_take_five_seconds(bench: Bench) -> None:
    bench.watch("p")
    bench.estimated = bench.taken = 4.0 / 64
    bench.look()
    assert bench.read_at[-1][0] == 8, "not measured yet: half a second"
    bench.look()
    assert bench.read_at[-1][0] == 8, "16 would take a second: twice as many only below 0.75"
    assert bench.schedule.due_probes(1, catch_up=True) == ("p",)
    bench.look(standing=True)
    assert bench.read_at[-1][0] == 32
    bench.look()
    assert bench.read_at[-1][0] == 16


def test_more_examples_are_read_as_soon_as_it_is_known_to_be_quick(bench: Bench) -> None:
    bench.watch("p")
    bench.estimated, bench.taken = 0.49 / 8, 1e-9
    for _ in range(5):
        bench.look()
    assert [count for count, _, _ in bench.read_at] == [8, 16, 32, 64, 64]


def test_all_examples_are_read_where_there_is_no_window() -> None:
    bench = Bench(fewer=False)
    bench.watch("p")
    bench.estimated = bench.taken = 4.0 / 64
    reading = bench.look()
    assert (reading.examples, reading.remark) == (0, "64 probe examples, exact")
    assert bench.read_at[-1][0] == 64


def test_what_would_take_more_than_five_seconds_between_two_steps_is_not_begun(
    bench: Bench,
) -> None:
    bench.watch("p")
    bench.estimated = 5.1 / 8
    reading = bench.look()
    assert reading.absent.startswith("Pee: reading 8 probe")
    assert reading.facts == {"fault": "too long"}
    assert bench.read_at == []


def test_a_reading_of_more_than_a_second_is_told_before_it_is_begun(bench: Bench) -> None:
    bench.watch("p")
    bench.estimated = bench.taken = 1.01 / 8
    assert bench.schedule.slow_titles(("p", "q"), StandInContext()) == ("Pee",)  # type: ignore[arg-type]
    bench.estimated = bench.taken = 1.0 / 8
    assert bench.schedule.slow_titles(("p",), StandInContext()) == ()  # type: ignore[arg-type]


def test_other_probe_examples_are_read_anew_and_their_scalars_stand_apart(bench: Bench) -> None:
    bench.watch("p")
    bench.look()
    bench.schedule.reset_for_examples(counted_as=32)
    assert bench.schedule.readings == {}
    assert bench.schedule.due_probes(1) == ("p",)
    bench.look()
    assert bench.read_at[-1][2] is None, "of others"
    assert bench.events[-1].examples == 32
    bench.schedule.reset_for_examples(counted_as=0)
    bench.look()
    assert bench.events[-1].examples == 0


@pytest.mark.parametrize(("fits", "counts"), [(32, [64, 32]), (9, [64, 32, 16, 8])])
def test_half_the_examples_are_read_where_memory_is_over(
    bench: Bench, fits: int, counts: list[int]
) -> None:
    bench.watch("p")
    bench.fits = fits
    reading = bench.look()
    assert [count for count, _, _ in bench.read_at] == counts
    assert reading.examples == counts[-1]
    assert f"halved to {counts[-1]}:" in reading.remark
    bench.look()
    assert bench.read_at[-1][0] == counts[-1], "and not tried again"
    bench.schedule.invalidate_all()
    bench.look()
    assert bench.read_at[len(counts) + 1][0] == 64, "until the network changes"


def test_what_does_not_fit_at_all_says_so_and_a_probe_that_fails_says_it_once(
    bench: Bench,
) -> None:
    bench.watch("p")
    bench.fits = 0
    reading = bench.look()
    assert reading.absent
    assert reading.arrays == {}
    bench.schedule.invalidate_all()
    bench.error = ValueError("It is odd.")
    for _ in range(2):
        assert bench.look().absent
    (told,) = [event for event in bench.events if isinstance(event, Failed)]
    assert "Pee' failed: It is odd." in told.what
    bench.error, bench.fits = None, 64
    bench.look()
    bench.error = ValueError("Again.")
    bench.look()
    assert sum(isinstance(event, Failed) for event in bench.events) == 2
