"""Tiny runs and views for the engine's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from dgn_engine.config import GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.messages import Event
from dgn_engine.training.run import Run
from tests.engine.files_read_here import read_files_here
from tests.engine.panel_views import compared, grown, make_view

__all__ = ["compared", "grown", "make_view"]

SMALL = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(epochs=1, learning_rate=1e-3),
    probe_examples=20,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Runs set the number of threads; give back what was there."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def no_reader_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints and sessions are read without a child."""
    read_files_here(monkeypatch)


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def make_run(events: list[Event]) -> Callable[..., Run]:
    """`make_run(regime, config=SMALL, **gating)` → a run whose events go to `events`."""

    def make(regime: str = "DL", config: RunConfig = SMALL, **gating: object) -> Run:
        gates = replace(config.gating, regime=regime, **gating)  # type: ignore[arg-type]
        return Run(1, replace(config, gating=gates), events.append, lambda *_: None, live=False)

    return make


def gating_config(regime: str) -> GatingConfig:
    return GatingConfig(regime=regime)
