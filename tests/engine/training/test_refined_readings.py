"""Which readings the reading process makes and what is shown of them: a worker of the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars
from dgn_engine.training.probes import ASSUMED_FLOPS, Probe, ProbeResult
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.reading_executor import ReadingExecutor
from dgn_engine.training.readings.reading_jobs import (
    ExactJob,
    JobOver,
    JobSlice,
    RefinedJob,
    StepContexts,
)
from dgn_engine.training.readings.reading_sizes import FIRST_LOOK, UNSURE
from dgn_engine.training.readings.refined_readings import STOPPED, JobPace, describe_examples
from dgn_engine.training.readings.watch_budget import WatchBudget
from tests.engine.training.stand_in_context import StandInContext


class Worker(ReadingExecutor):
    """Keeps what it is asked for, numbered from 1; the test answers."""

    refines = True

    def __init__(self) -> None:
        self.begun: list[tuple[int, str, Mapping[str, object], int]] = []
        self.keys: dict[int, int] = {}  # of steps, numbered from 1
        self.jobs: list[ExactJob | RefinedJob] = []
        self.stopped: list[int] = []
        self.listeners: dict[int, Any] = {}

    def submit(self, jobs: Sequence[ExactJob | RefinedJob], contexts: StepContexts) -> None:
        key = self.keys.setdefault(contexts.key, len(self.keys) + 1)
        for job in jobs:
            self.jobs.append(job)
            self.begun.append((key, job.name, job.options, contexts.step))
            self.listeners[len(self.jobs)] = job.deliver

    def cancel(self, job: ExactJob | RefinedJob) -> None:
        self.stopped.append(self.jobs.index(job) + 1)

    def deliver_answers(self, budget: WatchBudget | None = None) -> bool:
        return False

    def close(self, trouble: str = "") -> bool:
        return False


class Bench:
    """A schedule of 'p' with a worker. `each`: seconds that an example is expected to take."""

    def __init__(self) -> None:
        self.clock, self.events, self.here = 100.0, list[Event](), list[int]()
        self.each = 1.0
        probes = {
            "p": Probe("Pee", self.read, lambda _, n: n * self.each * ASSUMED_FLOPS),
            "q": Probe("Queue", self.read, lambda _, n: n * self.each / 4 * ASSUMED_FLOPS),
            "c": Probe("Cee", self.read, lambda *_: 1e18, compares=True),
        }
        self.worker = Worker()
        budget = WatchBudget(clock=lambda: self.clock)
        self.schedule = ProbeSchedule(self.events.append, True, budget, probes)
        self.schedule.use_executor(self.worker)
        self.watch("p")

    def read(self, context: Any, options: object, memory: object) -> ProbeResult:
        self.here.append(len(context.x))
        self.clock += len(context.x) * self.each
        return ProbeResult({"a": np.zeros(2)}, {"s": 1.0})

    def watch(self, *names: str, **options: Any) -> None:
        self.schedule.watch(tuple(ProbeRequest(n, tuple(options.items())) for n in names))

    def look(self, step: int, catch_up: bool = False) -> tuple[str, ...]:
        """Read what is due, and return what was."""
        due = self.schedule.due_probes(step, catch_up)
        if due:
            self.schedule.read_probes(due, StandInContext(), step, while_paused=catch_up)  # type: ignore[arg-type]
        return due

    def answer(
        self, done: float, error: float = 0.0, examples: int = 0, elapsed: float = 1.0
    ) -> None:
        ticket = len(self.worker.begun)
        result = ProbeResult({"a": np.full(2, done)}, {"s": done})
        hear = self.worker.listeners[ticket]
        hear(JobSlice(ticket, result, done, error, examples, elapsed))

    def over(self, trouble: str = "", details: str = "") -> None:
        ticket = len(self.worker.begun)
        self.worker.listeners[ticket](JobOver(ticket, trouble, details))

    @property
    def reading(self) -> Reading:
        return self.schedule.readings["p"]

    @property
    def picture(self) -> tuple[int, float]:
        """Step and content of what is shown."""
        return self.reading.step, float(self.reading.arrays["a"][0])


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_is_heavy_is_read_elsewhere_and_nothing_here(bench: Bench) -> None:
    assert bench.look(5) == ("p",)
    assert bench.worker.begun == [(1, "p", {}, 5)]
    assert bench.here == []
    assert (bench.reading.pending, bench.reading.step) == (True, 5)
    assert "8 of 64" in bench.reading.absent
    assert "raining" not in bench.reading.absent  # nothing may train: an inspected network
    assert (bench.reading.progress, bench.reading.left) == (0.0, 0.0)
    assert bench.schedule.is_refining


@pytest.mark.parametrize(
    ("each", "here"),
    [
        (UNSURE / 64, [64]),
        (1.01 * UNSURE / 64, [32]),
        (UNSURE / 8, [8]),
        (1.01 * UNSURE / 8, []),
    ],
)
def test_a_few_examples_are_read_here_only_where_that_is_quick(
    bench: Bench, each: float, here: list[int]
) -> None:
    bench.each = each
    bench.look(1)
    assert bench.here == here
    assert len(bench.worker.begun) == (here != [64])
    if here and here != [64]:
        assert bench.reading.remark == f"{here[0]} of 64 probe examples, exact"
        assert (bench.reading.progress, bench.reading.pending) == (0.0, False)


def test_a_probe_that_was_measured_is_read_here_up_to_half_a_second(bench: Bench) -> None:
    bench.each = UNSURE / 64
    bench.look(1)
    bench.each = FIRST_LOOK / 64
    bench.clock += 100
    bench.look(2)
    assert bench.here == [64, 64]
    bench.each = 1.01 * FIRST_LOOK / 64
    bench.clock += 100
    bench.look(3)
    assert len(bench.worker.begun) == 1


def test_what_compares_is_read_here(bench: Bench) -> None:
    bench.watch("c")
    bench.look(1)
    assert bench.worker.begun == []


def test_heavy_readings_of_one_step_share_a_snapshot_and_the_cheapest_comes_first(
    bench: Bench,
) -> None:
    bench.watch("p", "q")
    bench.look(3)
    assert [(key, probe) for key, probe, _, _ in bench.worker.begun] == [(1, "q"), (1, "p")]


def test_the_picture_gets_better_with_the_time_left_as_it_was_measured(bench: Bench) -> None:
    bench.look(5)
    bench.answer(0.25, error=0.2, elapsed=3.0)
    assert bench.picture == (5, 0.25)
    assert (bench.reading.progress, bench.reading.left) == (0.25, 0.0)
    assert (bench.reading.error, bench.reading.remark) == (0.2, "64 probe examples · ± 20 %")
    assert not bench.reading.arrays["a"].flags.writeable
    bench.answer(0.5, error=0.1, elapsed=4.0)
    assert (bench.picture, bench.reading.left) == ((5, 0.5), 4.0)
    bench.answer(1.0, elapsed=10.0)
    bench.over()
    assert bench.picture == (5, 1.0)
    assert (bench.reading.progress, bench.reading.left) == (1.0, 0.0)
    assert bench.reading.remark == "64 probe examples, exact"
    assert (bench.reading.seconds, bench.reading.interval) == (10.0, 10.0)
    assert not bench.schedule.is_refining


def test_a_slice_that_compiles_has_no_time_left_but_says_so(bench: Bench) -> None:
    bench.look(5)
    bench.answer(0.25, elapsed=1.0)
    bench.worker.listeners[1](JobSlice(1, None, 0.25, 0.0, 0, 1.0, compiles=True))
    assert (bench.picture, bench.reading.left) == ((5, 0.25), 0.0)
    assert bench.reading.doing == "compiling, once"
    bench.worker.listeners[1](JobSlice(1, None, 0.5, 0.0, 0, 6.0))
    assert bench.reading.doing == ""


def test_a_slice_with_nothing_new_tells_how_far_it_is(bench: Bench) -> None:
    bench.look(5)
    bench.answer(0.25, elapsed=1.0)
    bench.worker.listeners[1](JobSlice(1, None, 0.5, 0.0, 0, 6.0))
    assert (bench.picture, bench.reading.progress, bench.reading.left) == ((5, 0.25), 0.5, 10.0)


@pytest.mark.parametrize(
    ("slices", "left"),
    [
        ([(0.5, 2.0)], 0.0),  # one slice is no pace: its share may be a guess
        ([(0.5, 2.0), (0.5, 3.0)], 0.0),
        ([(0.25, 3.0), (0.5, 4.0)], 4.0),  # as long as all of it took so far
        ([(0.5, 1.0), (0.6, 6.0)], 20.0),  # slower than the first slice made believe
        ([(0.5, 1.0), (1.0, 6.0)], 0.0),
    ],
)
def test_the_time_left_is_that_of_slices_that_have_run(
    slices: list[tuple[float, float]], left: float
) -> None:
    pace = JobPace()
    assert [pace.estimate_left(*one) for one in slices][-1] == pytest.approx(left)


def test_scalars_are_recorded_of_the_last_reading_alone(bench: Bench) -> None:
    bench.look(5)
    bench.answer(0.5, error=0.1)
    bench.answer(1.0)
    assert bench.events == []
    bench.over()
    assert bench.events == [ProbeScalars(5, "p", {"s": 1.0}, 0)]


def test_while_it_trains_a_newer_step_is_read_when_the_older_is_finished(bench: Bench) -> None:
    bench.look(5)
    bench.clock += 100
    assert bench.look(6) == ()
    bench.answer(1.0)
    assert bench.look(6) == ()
    bench.over()
    assert bench.look(5) == (), "that step was read"
    assert bench.look(7) == ("p",)
    assert [seed for _, _, _, seed in bench.worker.begun] == [5, 7]
    assert (bench.picture, bench.reading.progress) == ((5, 1.0), 0.0)


def test_a_newer_step_takes_the_place_of_a_sharper_picture_when_it_is_good_enough(
    bench: Bench,
) -> None:
    bench.look(5)
    bench.answer(1.0)
    bench.over()
    bench.clock += 100
    bench.look(9)
    bench.answer(0.1, examples=32)
    assert (bench.picture, bench.reading.progress) == ((5, 1.0), 0.1)
    bench.answer(0.2, error=0.06)
    assert bench.picture == (5, 1.0)
    bench.answer(0.3, error=0.05)
    assert bench.picture == (9, 0.3)
    bench.answer(0.4, error=0.06)
    assert bench.picture == (9, 0.4), "a job knows what is better"
    bench.answer(0.1, error=0.5)
    assert bench.picture == (9, 0.4), "it began anew in another process"
    bench.answer(0.5, error=0.04)
    assert bench.picture == (9, 0.5)


def test_what_is_read_on_after_cancel_is_shown_when_it_is_as_good_as_what_there_is(
    bench: Bench,
) -> None:
    bench.look(5)
    bench.answer(0.5, error=0.02)
    bench.schedule.cancel("p")
    bench.schedule.resume("p")
    bench.look(5)
    bench.answer(0.1, error=0.04)
    assert bench.picture == (5, 0.5)
    bench.answer(0.6, error=0.02)
    assert bench.picture == (5, 0.6)


def test_where_it_stands_still_the_step_it_stands_at_is_read_at_once(bench: Bench) -> None:
    bench.look(5)
    bench.answer(0.5)
    assert bench.look(8, catch_up=True) == ("p",)
    assert bench.worker.stopped == [1]
    assert [seed for _, _, _, seed in bench.worker.begun] == [5, 8]
    assert bench.look(8, catch_up=True) == ()
    bench.worker.listeners[1](JobSlice(1, ProbeResult(), 0.9, 0.0, 0, 1.0))
    assert bench.picture == (5, 0.5), "of a job that was given up nothing is shown"


def test_what_was_read_elsewhere_at_a_standstill_is_not_read_again(bench: Bench) -> None:
    bench.each = 0.7 / 64  # a first picture of few is quick enough to be made here
    assert bench.look(4, catch_up=True) == ("p",)
    assert bench.here == [8]
    bench.answer(1.0)
    bench.over()
    assert bench.reading.progress == 1.0
    assert bench.look(4, catch_up=True) == ()
    assert len(bench.worker.begun) == 1


def test_of_another_network_nothing_is_shown(bench: Bench) -> None:
    bench.look(5)
    bench.answer(0.5)
    assert not bench.schedule.dropped
    bench.schedule.invalidate_all()
    assert bench.schedule.dropped
    assert "p" not in bench.schedule.readings
    bench.answer(0.6)
    assert "p" not in bench.schedule.readings
    assert bench.look(5) == ("p",)
    assert bench.worker.stopped == [1]
    assert bench.reading.pending
    bench.answer(0.1, error=0.9)
    assert bench.picture == (5, 0.1)


def test_other_options_stop_the_job_and_so_does_nobody_watching(bench: Bench) -> None:
    bench.look(5)
    bench.answer(0.5)
    bench.watch("p", layer=2)
    assert bench.worker.stopped == [1]
    bench.look(5)
    assert bench.worker.begun[-1] == (2, "p", {"layer": 2}, 5)
    bench.answer(0.1, error=0.9)
    assert bench.picture == (5, 0.1)
    bench.watch()
    assert bench.worker.stopped == [1, 2]


def test_a_reading_that_was_cancelled_stays_as_it_is_until_it_may_go_on(bench: Bench) -> None:
    bench.look(5)
    bench.answer(0.5, error=0.1)
    bench.schedule.cancel("p")
    assert bench.worker.stopped == [1]
    assert (bench.picture, bench.reading.cancelled, bench.reading.progress) == (
        (5, 0.5),
        True,
        1.0,
    )
    bench.clock += 1000
    assert bench.look(9) == bench.look(9, catch_up=True) == ()
    bench.schedule.cancel("p")
    bench.schedule.resume("p")
    assert bench.look(9) == ("p",)
    assert (bench.reading.cancelled, bench.reading.progress) == (False, 0.0)


@pytest.mark.parametrize("again", [("p",), ()])
def test_a_reading_that_was_cancelled_is_read_with_other_options_and_when_watched_anew(
    bench: Bench, again: tuple[str, ...]
) -> None:
    bench.look(5)
    bench.answer(0.5, error=0.1)
    bench.schedule.cancel("p")
    bench.watch(*again, layer=2)
    bench.watch("p", layer=2)
    assert bench.look(9) == ("p",)
    assert (bench.reading.cancelled, bench.reading.progress) == (False, 0.0)
    bench.answer(1.0)
    bench.over()
    bench.clock += 1000
    assert bench.look(10) == ("p",), "and after that as any other"


def test_a_reading_cancelled_before_its_first_picture_says_so(bench: Bench) -> None:
    bench.look(5)
    bench.schedule.cancel("p")
    assert (bench.reading.absent, bench.reading.pending) == (STOPPED, False)
    bench.schedule.invalidate_all()
    assert bench.look(6) == ("p",), "another network is read at once"
    assert bench.reading.pending


def test_what_fails_is_one_sentence_in_its_place_and_one_event(bench: Bench) -> None:
    bench.look(5)
    bench.over("it ended")
    assert bench.reading.absent == "Pee is not available: it ended."
    assert (bench.reading.cancelled, bench.events) == (True, [])
    bench.clock += 1000
    assert bench.look(9) == (), "it is not tried again by itself"
    bench.schedule.resume("p")
    bench.look(9)
    bench.answer(0.5, error=0.1)
    bench.over("it failed (odd)", "Traceback")
    assert bench.reading.remark == "64 probe examples · ± 10 % · not refined: it failed (odd)"
    (told,) = bench.events
    assert isinstance(told, Failed)
    bench.schedule.resume("p")
    bench.look(9)
    bench.over("it failed (odd)", "Traceback")
    assert len(bench.events) == 1


def test_without_a_process_fewer_examples_are_read_here_and_that_is_said(bench: Bench) -> None:
    bench.each = 1.0 / 8
    bench.look(5)
    bench.worker.trouble = "there is no process (none)"
    bench.over(bench.worker.trouble)
    assert bench.look(5) == ("p",)
    assert bench.here == [8]
    assert bench.reading.remark == f"8 of 64 probe examples, exact: {bench.worker.trouble}"
    bench.each = 1.0
    bench.schedule.invalidate_all()
    bench.schedule._sizes._speed.clear()
    bench.look(6)
    assert bench.reading.facts == {"fault": "too long"}
    assert f", and {bench.worker.trouble};" in bench.reading.absent


def test_a_schedule_that_is_released_has_no_jobs(bench: Bench) -> None:
    bench.look(5)
    bench.schedule.release()
    assert bench.worker.stopped == [1]
    assert not bench.schedule.is_refining


def test_a_schedule_without_a_worker_can_be_told_all_the_same() -> None:
    schedule = ProbeSchedule([].append)
    schedule.cancel("npk")
    schedule.resume("npk")
    schedule.release()
    assert not schedule.is_refining


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (Reading("p", 1), "64 probe examples, exact"),
        (Reading("p", 1, examples=8), "8 of 64 probe examples, exact"),
        (Reading("p", 1, examples=8, error=0.051), "8 of 64 probe examples · ± 5 %"),
        (Reading("p", 1, error=0.0042), "64 probe examples · ± 0.4 %"),
        (Reading("p", 1, error=1e-9), "64 probe examples · ± < 0.01 %"),
        (Reading("p", 1, error=0.094), "64 probe examples · ± 9 %"),
        (Reading("p", 1, error=0.096), "64 probe examples · ± 10 %"),
        (Reading("p", 1, error=1.234), "64 probe examples · ± 123 %"),
        (Reading("p", 1, absent="None."), ""),
    ],
)
def test_what_a_kernel_is_made_of_in_words(reading: Reading, said: str) -> None:
    assert describe_examples(reading, 64) == said


@pytest.mark.parametrize(("examples", "seen"), [(0, (0, 0, "")), (32, (32, 64, ""))])
def test_scalars_of_a_share_of_the_examples_say_of_how_many(
    examples: int, seen: tuple[int, int, str], bench: Bench
) -> None:
    bench.look(5)
    bench.answer(1.0, examples=examples)
    bench.over()
    (found,) = bench.events
    assert isinstance(found, ProbeScalars)
    assert found.read_on == seen
