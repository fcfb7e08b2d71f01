"""Costly readings between the steps of a loop: a slice at a time, none longer than it is worth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.attachment import tangent_alone
from dgn_engine.attachment.tangent_alone import TangentAlone, first_count
from dgn_engine.attachment.watcher import OVER, WatchPace
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.probes import Probe, ProbeResult, Refinement
from dgn_engine.training.readings import reading_sizes
from dgn_engine.training.readings.reading_jobs import JobOver, JobSlice, RefinedJob
from dgn_engine.training.readings.sliced_readings import GOOD, LONGEST, PICTURES, SlicedReadings
from dgn_engine.training.readings.watch_budget import WatchBudget
from tests.engine.attachment.loops import (
    examples,
    kernel_by_autograd,
    mlp,
    normalised,
    smooth,
    train,
    watch_closely,
)


class Bench:
    """A probe whose slices take `seconds` and give these (examples, error), 16 probe examples."""

    def __init__(self, made: list[tuple[int, float]], seconds: float):
        self.now, self._made, self._seconds = 0.0, made, seconds
        context: Any = SimpleNamespace(x=torch.zeros(16), architecture=None)
        context.subsample = lambda every: SimpleNamespace(
            x=torch.zeros(16 // every), architecture=None, drop_kernels=lambda: None
        )
        context.drop_kernels = lambda: None
        probes = {
            "sliced": Probe("sliced", lambda *_: ProbeResult(), refine=self._refine),
            "whole": Probe("whole", self._read, cost=lambda _, n: float(n**2)),
        }
        self.sliced = SlicedReadings(lambda: self.now, probes)
        copied = SimpleNamespace(whole=context)
        self._contexts: Any = SimpleNamespace(key=1, step=0, copy_network=lambda: copied)
        self.answers: list[JobSlice | JobOver] = []

    def _refine(self, *_: object) -> Iterator[Refinement]:
        for place, (count, error) in enumerate(self._made):
            self.now += self._seconds
            result = ProbeResult({"labels": np.zeros(count)})
            yield Refinement(result, (place + 1) / (len(self._made) + 1), error)

    def _read(self, context: Any, *_: object) -> ProbeResult:
        self.now += self._seconds
        return ProbeResult({"labels": np.zeros(len(context.x))})

    def begin(self, ticket: int, probe: str) -> RefinedJob:
        job = RefinedJob(probe, {}, self.answers.append, ticket=ticket)
        self.sliced.submit([job], self._contexts)
        return job

    def run(self, probe: str) -> list[JobSlice | JobOver]:
        """Slices with an hour of the loop's own steps between them; all answers."""
        self.begin(7, probe)
        while self.sliced.has_jobs:
            before, budget = self.now, WatchBudget(clock=lambda: self.now, busy=lambda: self.now)
            assert self.sliced.deliver_answers(budget)
            assert budget._open == {"refinements": pytest.approx(self.now - before)}
            self.now += 3600.0
        return self.answers


def test_an_estimate_that_is_good_enough_is_the_last() -> None:
    made = [(8, 0.01)] * 5 + [(16, 0.2), (16, 0.01), (16, GOOD), (16, GOOD), (16, 0.001)]
    answers = Bench(made, 0.5).run("sliced")
    slices = [one for one in answers if isinstance(one, JobSlice)]
    assert [one.examples for one in slices] == [8] * 5 + [0] * PICTURES  # 0: all of them
    assert answers[-1] == JobOver(7)
    assert slices[-1].elapsed == pytest.approx(4.5)  # the loop's own hours do not count


def test_an_estimate_that_stays_rough_ends_by_its_time() -> None:
    answers = Bench([(16, 0.5)] * 100, LONGEST / 10).run("sliced")
    assert len([one for one in answers if isinstance(one, JobSlice)]) == 10
    assert answers[-1] == JobOver(7)


def test_a_reading_of_twice_the_examples_is_not_begun_where_it_takes_long() -> None:
    quick = Bench([], LONGEST / 10).run("whole")
    assert [one.examples for one in quick if isinstance(one, JobSlice)] == [8, 0]
    slow = Bench([], LONGEST / 2).run("whole")
    assert [one.examples for one in slow if isinstance(one, JobSlice)] == [8]


def test_what_is_stopped_is_worked_on_no_more() -> None:
    bench = Bench([(16, 0.5)] * 3, 0.1)
    job = bench.begin(7, "sliced")
    assert bench.sliced.awaits_picture
    bench.sliced.deliver_answers()
    assert not bench.sliced.awaits_picture
    bench.sliced.cancel(job)
    assert not bench.sliced.has_jobs
    assert not bench.sliced.deliver_answers()
    bench.begin(8, "sliced")
    assert bench.sliced.close()
    assert not bench.sliced.has_jobs
    assert [type(answer) for answer in bench.answers] == [JobSlice]
    bench.begin(9, "sliced")
    assert bench.sliced.close("it is over")
    assert bench.answers[-1] == JobOver(9, "it is over")


def test_a_sliced_reading_is_of_the_step_at_which_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_sizes, "UNSURE", 0.0)  # every kernel is heavy
    monkeypatch.setattr(WatchBudget, "has_credit", True)
    model, (x, y) = normalised(), examples()
    x, y = 3.0 * x + 2.0, y.sort().values
    kernels = [kernel_by_autograd(model, x)]

    def step(loss: torch.Tensor) -> None:
        kernels.append(kernel_by_autograd(model, x))
        w.step(loss)

    out, pace = tmp_path / "run", WatchPace(look=0.0, note=0.0, frame=0.0, frame_share=1e9)
    with watch_closely(model, out, probe=(x, y), probes=("npk", "ntk"), pace=pace) as w:
        train(model, 6, step)
    recorded = RecordedSteps(tmp_path / "run")
    found = [frame.readings.get("ntk") for frame in map(recorded.frame_at, recorded.steps) if frame]
    readings = [reading for reading in found if reading is not None and reading.arrays]
    assert readings[0].step == 0  # although steps were taken before it was there
    assert {0, 6} <= {reading.step for reading in readings}
    for reading in readings:
        wanted = kernels[reading.step]
        if reading.arrays["value"].shape == wanted.shape and not reading.error:
            np.testing.assert_allclose(reading.arrays["value"], wanted, rtol=1e-3, atol=1e-4)
    assert readings[0].remark == "12 probe examples, exact"
    assert all(not reading.cancelled for reading in readings)


def test_what_has_no_picture_at_the_end_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_sizes, "UNSURE", 0.0)
    hasty = WatchPace(last_pictures=0.0)
    with watch_closely(mlp(), tmp_path / "run", probes=("npk",), pace=hasty) as w:
        w.step()
    frame = RunReader(tmp_path / "run").frame_of_step(1)
    assert frame.readings["npk"].absent == OVER


def test_what_the_beginning_took_is_a_debt() -> None:
    now = [0.0]
    budget = WatchBudget(0.05, lambda: now[0], lambda: now[0])
    assert budget.has_credit
    budget.update_account(running=True)
    budget.add_debt("start", 1.0)
    paid = 0.0
    while not budget.has_credit:
        now[0] += 0.5
        budget.update_account(running=True)
        paid = now[0]
    assert 1.0 / 0.05 - 2.0 <= paid <= 1.0 / 0.05  # of 19 seconds of training 5 % of 20


def test_a_first_reading_that_would_take_minutes_is_left_out() -> None:
    assert first_count(0.01, 4) == 4
    assert first_count(0.5, 4) == 2
    with pytest.raises(ValueError, match=r"3\.3 min"):
        first_count(100.0, 4)


@pytest.mark.parametrize(("too_long", "passes"), [(-1.0, 1), (math.inf, 3)])
def test_a_module_whose_first_row_takes_too_long_is_not_run_once_more(
    too_long: float, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the quicker of two passes counts, and the kernel itself begins with another."""
    monkeypatch.setattr(tangent_alone, "TOO_LONG", too_long)
    module, run = smooth(), list[int]()
    module.register_forward_hook(lambda *_: run.append(1))
    with nullcontext() if passes > 1 else pytest.raises(ValueError, match="not computed"):
        TangentAlone(*examples()).read_kernel(module, 0)
    assert len(run[:3]) == passes


def test_the_first_kernel_is_smaller_where_each_example_has_more_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row of 0.3 s: four examples of three logits would take longer than a reading may."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 0.3 * next(ticks))
    monkeypatch.setattr(tangent_alone, "time", clock)
    assert TangentAlone(*examples()).read_kernel(smooth(), 0).arrays["value"].shape == (2, 2)
