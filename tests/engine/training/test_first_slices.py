"""First slices: small pictures in the training thread, before the reading process has any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
import torch

from dgn_engine.plugins import OptionValue
from dgn_engine.regimes.relu import REGIME
from dgn_engine.training.probes import Probe, ProbeContext, ProbeResult, Refinement
from dgn_engine.training.readings import first_slices
from dgn_engine.training.readings.first_slices import compute_first_slices, first_slice_seconds
from dgn_engine.training.readings.reading_jobs import JobSlice, RefinedJob, StepContexts
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, make_network

SEEN = dict[str, tuple[int, float]]  # by probe: examples, and the first random number


def contexts(examples: int = 64) -> StepContexts:
    network = make_network(ARCHITECTURES["conv-gap"], soft=True)
    x = draw_images(network.architecture, examples)
    return StepContexts(ProbeContext(network, x, torch.arange(examples) % 2, REGIME), step=7)


def job(name: str, first: bool = True) -> RefinedJob:
    return RefinedJob(name, {}, lambda _: None, first)


def probes(seen: SEEN, failing: str = "") -> dict[str, Probe]:
    def probe(name: str) -> Probe:
        def refine(
            context: ProbeContext, options: Mapping[str, OptionValue], generator: torch.Generator
        ) -> Iterator[Refinement]:
            if name == failing:
                raise RuntimeError("broken")
            seen[name] = len(context.x), float(torch.rand(1, generator=generator))
            yield Refinement(ProbeResult(), 0.5, 0.1)
            raise AssertionError("a second slice")

        def read(*_: object) -> ProbeResult:
            raise AssertionError("an exact reading")

        return Probe(name, read, refine=refine)

    return {name: probe(name) for name in "pq"} | {"exact": replace(probe("exact"), refine=None)}


def test_jobs_without_a_picture_have_one_of_the_fewest_examples() -> None:
    seen: SEEN = {}
    before = torch.get_rng_state()
    jobs = [job("p"), job("q", first=False), job("exact")]
    ((done, first),) = compute_first_slices(jobs, contexts(), probes(seen))
    assert torch.equal(before, torch.get_rng_state())
    assert done is jobs[0]
    assert isinstance(first, JobSlice)
    assert (first.ticket, first.done, first.error, first.examples) == (done.ticket, 0.0, 0.1, 8)
    own = float(torch.rand(1, generator=torch.Generator().manual_seed(7)))
    assert seen == {"p": (8, own)}


def test_a_small_probe_set_is_read_whole() -> None:
    seen: SEEN = {}
    ((_, first),) = compute_first_slices([job("p")], contexts(12), probes(seen))
    assert (seen["p"][0], first.examples) == (12, 0)


def test_one_that_fails_leaves_the_others_theirs() -> None:
    found = compute_first_slices([job("p"), job("q")], contexts(), probes({}, failing="p"))
    assert [done.name for done, _ in found] == ["q"]


def test_what_would_take_long_is_left_to_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    given = contexts()
    seconds = first_slice_seconds(given.whole.architecture)
    assert seconds > 0.0
    monkeypatch.setattr(first_slices, "LONGEST_SLICE", 0.5 * seconds)
    assert not [*compute_first_slices([job("p")], given, probes({}))]
    monkeypatch.setattr(first_slices, "LONGEST_SLICE", 2.0 * seconds)
    clock = iter((0.0, 0.5, 2.0))
    busy = lambda: next(clock)  # noqa: E731
    found = compute_first_slices([job("p"), job("q")], given, probes({}), busy)
    assert [done.name for done, _ in found] == ["p"]
