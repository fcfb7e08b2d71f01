"""What a run would take is said without beginning it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.protocol import commands as do
from dgn_engine.protocol import events
from dgn_engine.protocol.engine_events import RunEstimated
from dgn_engine.session.engine import Engine
from dgn_engine.session.run_estimate import estimate_run
from dgn_engine.training import memory_needed
from dgn_engine.training.run import Run
from tests.engine.session.conftest import small


def test_the_engine_answers_with_what_the_run_has_once_it_begins() -> None:
    heard: list[events.Event] = []
    engine = Engine(heard.append, lambda _: None)
    config = replace(small(), device="cpu")
    engine.obey(do.EstimateRun(config))
    assert engine.run is None
    said = next(event for event in heard if isinstance(event, RunEstimated))
    engine.obey(do.StartRun(config, paused=True))
    started = next(event for event in heard if isinstance(event, events.RunStarted))
    assert said.config == config
    assert said.weights == started.parameters_value + started.parameters_feature
    assert engine.run is not None
    assert said.memory == engine.run.memory.total
    engine.close()


def test_a_measured_time_is_that_of_the_run_in_progress_only() -> None:
    config = replace(small(), device="cpu")
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


def test_published_sizes_are_known_without_the_files_and_folders_are_not_read() -> None:
    config = replace(RunConfig(), device="cpu")
    mnist = estimate_run(replace(config, data=DataConfig("mnist")), None, True, None)
    digits = estimate_run(config, None, True, None)
    assert mnist.weights == digits.weights + 2 * 128 * (28 * 28 - 64)
    folder = replace(config, data=DataConfig("folder:/nowhere"))
    assert estimate_run(folder, None, True, None) == RunEstimated(config=folder)
