"""What the reading process does with its jobs: probes and clock of the test, no process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.training.probes import Probe, ProbeResult, Refinement
from dgn_engine.training.readings import reading_child
from dgn_engine.training.readings.reading_child import ReadingServer, read_growing_subsets
from dgn_engine.training.readings.reading_jobs import (
    Answer,
    BeginJob,
    BeginJobs,
    JobOver,
    JobSlice,
    StopJob,
    pack_context,
    unpack_context,
)
from dgn_engine.training.run import Run
from tests.engine.training.stand_in_context import StandInContext

Make = Callable[..., Run]


def labelled(count: int) -> ProbeResult:
    return ProbeResult({"labels": np.zeros(count)})


class Bench:
    """Two probes: 'quick' refines in slices of 1 s, 'slow' in slices of 4 s."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.sent = 100.0, list[Answer]()
        self.worked: list[str] = []
        self.fails: Exception | None = None
        patch.setattr(reading_child, "unpack_context", lambda content: StandInContext(int(content)))
        probes = {
            name: Probe(name, lambda *_: ProbeResult(), refine=self.refine(name, seconds))
            for name, seconds in (("quick", 1.0), ("slow", 4.0))
        }
        self.during: Callable[[], None] = lambda: None
        self.server = ReadingServer(self.sent.append, probes, lambda: self.now)

    def refine(self, name: str, seconds: float) -> Any:
        def slices(context: Any, options: Mapping[str, Any], generator: Any) -> Iterator[Any]:
            kept = labelled(64)
            for turn in range(4):
                self.worked.append(name)
                self.now += seconds
                self.during()
                self.during()
                if self.fails is not None:
                    raise self.fails
                yield Refinement(kept if turn else labelled(64), (turn + 1) / 4, 0.1 * (3 - turn))

        return slices

    def begin(self, *names: str) -> None:
        jobs = tuple(BeginJob(len(name), 1, name, {}, 3) for name in names)
        self.server.handle_order(BeginJobs(b"64", jobs))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_each_job_shows_something_first_and_then_all_have_the_same_time(bench: Bench) -> None:
    bench.begin("slow", "quick")
    assert bench.server.awaits_picture
    bench.server.run_slice()
    assert bench.server.awaits_picture
    bench.server.run_slice()
    assert not bench.server.awaits_picture
    while bench.server.has_jobs:
        bench.server.run_slice()
    assert bench.worked == ["slow", "quick", *["quick"] * 3, *["slow"] * 3]
    assert bench.sent[0].elapsed == 4.0  # type: ignore[union-attr]
    over = [answer.ticket for answer in bench.sent if isinstance(answer, JobOver)]
    assert over == [5, 4]


def test_a_slice_is_sent_with_its_share_error_and_time_and_its_result_once(bench: Bench) -> None:
    bench.begin("quick")
    for _ in range(3):
        bench.server.run_slice()
    first, second, third = bench.sent
    assert isinstance(first, JobSlice)
    assert first.result is not None
    found = (first.ticket, first.done, first.error, first.examples, first.elapsed)
    assert found == (5, 0.25, pytest.approx(0.3), 0, 1.0)
    assert isinstance(second, JobSlice)
    assert (second.result is not None, second.elapsed) == (True, 2.0)
    assert isinstance(third, JobSlice)
    assert (third.result, third.done) == (None, 0.75)


def test_a_slice_that_compiles_says_so_once_and_after_a_picture(bench: Bench) -> None:
    bench.server.report_compilation()
    bench.during = bench.server.report_compilation
    bench.begin("quick")
    bench.server.run_slice()
    bench.server.run_slice()
    first, told, second = bench.sent
    assert isinstance(first, JobSlice)
    assert told == replace(first, result=None, compiles=True)
    assert isinstance(second, JobSlice)
    assert not second.compiles


def test_what_a_job_compiles_is_not_of_its_time(bench: Bench) -> None:
    bench.begin("slow", "quick")
    bench.during = bench.server.report_compilation
    bench.server.run_slice()
    bench.during = lambda: None
    bench.server.run_slice()
    bench.server.run_slice()
    assert bench.worked == ["slow", "quick", "slow"]


def test_a_new_job_does_not_wait_until_the_old_ones_had_their_time(bench: Bench) -> None:
    bench.begin("slow")
    bench.server.run_slice()
    bench.server.run_slice()
    bench.begin("quick")
    for _ in range(3):
        bench.server.run_slice()
    assert bench.worked == ["slow", "slow", "quick", "slow", "quick"]


def test_a_job_that_is_stopped_is_over(bench: Bench) -> None:
    bench.begin("quick", "slow")
    bench.server.run_slice()
    bench.server.handle_order(StopJob(5))
    assert bench.sent[-1] == JobOver(5)
    bench.server.handle_order(StopJob(4))
    assert not bench.server.has_jobs


@pytest.mark.parametrize(
    ("error", "words", "detailed"),
    [
        (ValueError("It is odd."), "it failed (It is odd)", True),
        (ValueError(), "it failed (ValueError)", True),
        (MemoryError(), "memory", False),
    ],
)
def test_a_fault_ends_its_job_and_no_other(
    bench: Bench, error: Exception, words: str, detailed: bool
) -> None:
    bench.begin("quick", "slow")
    bench.fails = error
    bench.server.run_slice()
    over = bench.sent[-1]
    assert isinstance(over, JobOver)
    assert (over.ticket, bool(over.details)) == (5, detailed)
    assert words in over.trouble
    bench.fails = None
    bench.server.run_slice()
    assert isinstance(bench.sent[-1], JobSlice)


@pytest.mark.parametrize(
    ("count", "read"), [(64, [8, 16, 32, 64]), (20, [10, 20]), (9, [9]), (2, [2])]
)
def test_a_probe_without_estimates_is_read_of_more_and_more_examples(
    count: int, read: list[int]
) -> None:
    probe = Probe("", lambda context, *_: labelled(len(context.x)), lambda _, n: float(n))
    context: Any = StandInContext(count)
    found = list(read_growing_subsets(probe, context, {}))
    assert [len(one.result.arrays["labels"]) for one in found] == read
    shares = [sum(read[: place + 1]) / sum(read) for place in range(len(read))]
    assert [one.done for one in found] == pytest.approx(shares)
    assert found[-1].done == 1.0


def test_of_fewer_examples_a_slice_says_how_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Probe("", lambda context, *_: labelled(len(context.x)))
    server = ReadingServer(bench.sent.append, {"p": read})
    server.handle_order(BeginJobs(b"32", (BeginJob(1, 1, "p", {}, 0),)))
    while server.has_jobs:
        server.run_slice()
    assert [one.examples for one in bench.sent if isinstance(one, JobSlice)] == [8, 16, 0]


@pytest.mark.parametrize("regime", ["DL", "FRG", "ReLU"])
def test_a_snapshot_is_the_network_of_its_step_whatever_follows(
    make_run: Make, regime: str
) -> None:
    run = make_run(regime)
    context = run.probed.probe_context()
    with torch.no_grad():
        before = context.network(context.x).clone()
    packed = pack_context(context)
    run.step()
    found = unpack_context(packed)
    with torch.no_grad():
        assert torch.equal(found.network(found.x), before)
        assert not torch.equal(run.probed.probe_context().network(context.x), before)
    assert torch.equal(found.labels, context.labels)
    assert (found.regime, found.classes) == (context.regime, context.classes)
    trained = {n: p.requires_grad for n, p in context.network.named_parameters()}
    assert {n: p.requires_grad for n, p in found.network.named_parameters()} == trained
