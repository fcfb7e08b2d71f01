"""Costly readings between the steps of a loop: a slice at a time, none longer than it is worth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import dgn_engine as dgn
from dgn_engine import kernels as k
from dgn_engine.attachment import watcher as watcher_module
from dgn_engine.attachment.tangent_alone import first_count
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.probes import Probe, ProbeResult, Refinement
from dgn_engine.training.readings import reading_sizes
from dgn_engine.training.readings import sliced_readings as module
from dgn_engine.training.readings.reading_jobs import JobOver, JobSlice, RefinedJob
from dgn_engine.training.readings.sliced_readings import GOOD, LONGEST, PICTURES, SlicedReadings
from dgn_engine.training.readings.watch_budget import WatchBudget
from tests.engine.attachment.loops import examples, mlp, train


class Bench:
    """A probe whose slices take `seconds` and give these (examples, error), 16 probe examples."""

    def __init__(self, patch: pytest.MonkeyPatch, made: list[tuple[int, float]], seconds: float):
        self.now, self._made, self._seconds = 0.0, made, seconds
        context: Any = SimpleNamespace(x=torch.zeros(16), architecture=None)
        context.subsample = lambda every: SimpleNamespace(
            x=torch.zeros(16 // every), architecture=None, forget=lambda: None
        )
        context.forget = lambda: None
        probes = {
            "sliced": Probe("sliced", lambda *_: ProbeResult(), refine=self._refine),
            "whole": Probe("whole", self._read, cost=lambda _, n: float(n**2)),
        }
        patch.setattr(module, "all_probes", lambda: probes)
        self.sliced = SlicedReadings(lambda: self.now)
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
        while self.sliced.waits:
            before, budget = self.now, WatchBudget(clock=lambda: self.now, busy=lambda: self.now)
            assert self.sliced.latest(budget)
            assert budget._open == {"refinements": pytest.approx(self.now - before)}
            self.now += 3600.0
        return self.answers


def test_an_estimate_that_is_good_enough_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [(8, 0.01)] * 5 + [(16, 0.2), (16, 0.01), (16, GOOD), (16, GOOD), (16, 0.001)]
    answers = Bench(monkeypatch, made, 0.5).run("sliced")
    slices = [one for one in answers if isinstance(one, JobSlice)]
    assert [one.examples for one in slices] == [8] * 5 + [0] * PICTURES  # 0: all of them
    assert answers[-1] == JobOver(7)
    assert slices[-1].elapsed == pytest.approx(4.5)  # the loop's own hours do not count


def test_an_estimate_that_stays_rough_ends_by_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Bench(monkeypatch, [(16, 0.5)] * 100, LONGEST / 10).run("sliced")
    assert len([one for one in answers if isinstance(one, JobSlice)]) == 10
    assert answers[-1] == JobOver(7)


def test_a_reading_of_twice_the_examples_is_not_begun_where_it_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick = Bench(monkeypatch, [], LONGEST / 10).run("whole")
    assert [one.examples for one in quick if isinstance(one, JobSlice)] == [8, 0]
    slow = Bench(monkeypatch, [], LONGEST / 2).run("whole")
    assert [one.examples for one in slow if isinstance(one, JobSlice)] == [8]


def test_what_is_stopped_is_worked_on_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, [(16, 0.5)] * 3, 0.1)
    job = bench.begin(7, "sliced")
    assert bench.sliced.awaited
    bench.sliced.latest()
    assert not bench.sliced.awaited
    bench.sliced.cancel(job)
    assert not bench.sliced.waits
    assert not bench.sliced.latest()
    bench.begin(8, "sliced")
    assert bench.sliced.close()
    assert not bench.sliced.waits
    assert [type(answer) for answer in bench.answers] == [JobSlice]
    bench.begin(9, "sliced")
    assert bench.sliced.close("it is over")
    assert bench.answers[-1] == JobOver(9, "it is over")


def test_a_sliced_reading_is_of_the_step_at_which_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOOK_EVERY", "NOTE_EVERY", "FRAME_EVERY", "FRAME_SHARE"):
        monkeypatch.setattr(watcher_module, name, 1e9 if name == "FRAME_SHARE" else 0.0)
    monkeypatch.setattr(reading_sizes, "UNSURE", 0.0)  # every kernel is heavy
    monkeypatch.setattr(WatchBudget, "in_credit", True)
    model, (x, y) = mlp(), examples()
    order = torch.argsort(y, stable=True)
    twin = k.empirical_ntk(mlp().double().eval(), x[order].double())
    with dgn.watch(model, probe=(x, y), out=tmp_path / "run", probes=("npk", "ntk")) as w:
        train(model, 6, w.step)
    recorded = RecordedSteps(tmp_path / "run")
    found = [frame.readings.get("ntk") for frame in map(recorded.at, recorded.steps) if frame]
    readings = [reading for reading in found if reading is not None and reading.arrays]
    first = readings[0]
    assert first.step == 0  # although steps were taken before it was there
    assert np.allclose(first.arrays["value"], twin.numpy(), rtol=1e-4, atol=1e-4)
    assert first.remark == "12 probe examples, exact"
    assert all(not reading.cancelled for reading in readings)


def test_what_has_no_picture_at_the_end_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher_module, "LAST_PICTURES", 0.0)
    monkeypatch.setattr(reading_sizes, "UNSURE", 0.0)
    with dgn.watch(mlp(), probe=examples(), out=tmp_path / "run", probes=("npk",)) as w:
        w.step()
    frame = RunReader(tmp_path / "run").frame(1)
    assert frame.readings["npk"].absent == "The run ended before there was a first picture."


def test_what_the_beginning_took_is_a_debt() -> None:
    now = [0.0]
    budget = WatchBudget(0.05, lambda: now[0], lambda: now[0])
    assert budget.in_credit
    budget.settle(running=True)
    budget.add_debt("start", 1.0)
    paid = 0.0
    while not budget.in_credit:
        now[0] += 0.5
        budget.settle(running=True)
        paid = now[0]
    assert 1.0 / 0.05 - 2.0 <= paid <= 1.0 / 0.05  # of 19 seconds of training 5 % of 20


def test_a_first_reading_that_would_take_minutes_is_left_out() -> None:
    assert first_count(0.01, 4) == 4
    assert first_count(0.5, 4) == 2
    with pytest.raises(ValueError, match="K is left out: of two probe examples it would take"):
        first_count(100.0, 4)
