"""What a run would take is said without beginning it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from dgn_engine import data
from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.protocol.training import EstimateRun, RunEstimated, RunStarted, StartRun
from dgn_engine.session.training_loop import estimate_run
from dgn_engine.training import devices, memory_needed
from dgn_engine.training.run import Run
from tests.engine.session.conftest import Desk, small_config


def test_the_engine_answers_with_what_the_run_has_once_it_begins(desk: Desk) -> None:
    desk.handle(EstimateRun(small_config()))
    assert desk.engine.run is None
    said = desk.last_event(RunEstimated)
    desk.handle(StartRun(small_config(), paused=True))
    started = desk.last_event(RunStarted)
    assert said.config == small_config()
    assert said.weights == started.parameters_value + started.parameters_feature
    assert said.memory == desk.run.memory.total


def test_a_measured_time_is_that_of_the_run_in_progress_only() -> None:
    config = small_config()
    run = Run(1, config, lambda _: None, lambda *_: None, live=True)
    same = estimate_run(config, run, recorded=False, seconds=0.25)
    assert (same.seconds, same.measured) == (0.25, True)
    other = replace(config, net=NetConfig("fc", (("width", 9), ("depth", 3))))
    found = estimate_run(other, run, recorded=False, seconds=0.25)
    assert not found.measured
    assert found.seconds != 0.25


def test_what_does_not_fit_is_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_needed, "free_memory", lambda: 1e8)
    large = RunConfig(net=NetConfig("fc", (("width", 20_000),)), device="cpu")
    found = estimate_run(large, None, recorded=True, seconds=None)
    assert "net.options.width" in found.refusal
    unknown = replace(large, net=NetConfig("no-such-net"))
    assert "no-such-net" in estimate_run(unknown, None, recorded=True, seconds=None).refusal


def test_what_this_processor_does_not_compute_is_the_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training = replace(RunConfig().training, precision="bf16")
    config = RunConfig(training=training, device="cpu")
    for hardware in (True, False):
        monkeypatch.setattr(devices, "multiplies_bf16", lambda there=hardware: there)
        found = estimate_run(config, None, recorded=True, seconds=None)
        assert ("training.precision" in found.refusal) == (not hardware)


def test_published_sizes_are_known_without_the_files_and_folders_are_not_read() -> None:
    config = replace(RunConfig(), device="cpu")
    mnist = estimate_run(replace(config, data=DataConfig("mnist")), None, True, None)
    digits = estimate_run(config, None, True, None)
    assert mnist.weights == digits.weights + 2 * 128 * (28 * 28 - 64)
    folder = replace(config, data=DataConfig("folder:/nowhere"))
    assert estimate_run(folder, None, True, None) == RunEstimated(config=folder)


def test_nothing_is_drawn_or_read_for_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """`correlated` of 3,000 vectors took 17 s on the thread that trains."""
    config = replace(RunConfig(), device="cpu")

    def load(*_: object) -> data.Examples:
        raise AssertionError("data were loaded")

    for name, entry in data.data_sets().items():
        monkeypatch.setitem(vars(entry), "load", load)
        estimated = estimate_run(replace(config, data=DataConfig(name)), None, True, None)
        assert (estimated.weights > 0) == (entry.sizes is not None)
        assert not estimated.refusal
    large = DataConfig("correlated", options=(("n", 3000), ("dim", 4000)))
    assert estimate_run(replace(config, data=large), None, True, None).weights > 0


@pytest.mark.parametrize("other", [False, True])
def test_start_refuses_what_the_estimate_refuses(
    desk: Desk, other: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same data as the run in progress, and of others: to a byte."""
    config = small_config()
    desk.handle(StartRun(replace(config, data=DataConfig("xor")) if other else config, paused=True))
    before = desk.run
    wanted = replace(config, seed=5)
    needed = estimate_run(wanted, before, False, None).memory
    at_hand = 0 if other else before.memory.data
    least = needed - before.memory.reclaimed_at_end - at_hand
    for free, fits in ((least - 1, False), (least, True)):
        # What a second copy of the data would take is no longer free once they were loaded.
        monkeypatch.setattr(memory_needed, "free_memory", lambda free=free: free)
        desk.handle(EstimateRun(wanted))
        assert bool(desk.last_event(RunEstimated).refusal) != fits
        if other:
            loaded = data.load_examples(wanted.data)
            parts = (loaded.train_x, loaded.train_y, loaded.test_x, loaded.test_y)
            taken = sum(part.nbytes for part in parts)
            monkeypatch.setattr(memory_needed, "free_memory", lambda f=free, t=taken: f - t)
        desk.handle(StartRun(wanted, paused=True))
        assert (desk.run is not before) == fits


def test_another_run_of_the_same_data_takes_those_at_hand(
    paused_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = paused_desk.run

    def load(*_: object) -> data.Examples:
        raise AssertionError("data were loaded")

    monkeypatch.setattr("dgn_engine.training.run.load_examples", load)
    paused_desk.handle(StartRun(small_config(seed=9), paused=True))
    assert paused_desk.run is not first
    assert paused_desk.run.trainer.data.train_x.data_ptr() == first.trainer.data.train_x.data_ptr()
    assert first.examples_for(replace(small_config().data, train_limit=20)) is None


def test_a_step_is_measured_without_the_waiting_that_a_pace_makes(desk: Desk) -> None:
    config = replace(small_config(), training=replace(small_config().training, pace=5.0))
    desk.handle(StartRun(config, paused=False), EstimateRun(config))
    for _ in range(3):
        desk.advance(1)
        time.sleep(0.2)
    desk.handle(EstimateRun(config))
    first, second = desk.events_of(RunEstimated)
    assert not first.measured
    assert second.measured
    assert second.seconds is not None
    assert second.seconds < 0.2  # a step of 50 weights; between two of them lie 0.2 s
