"""What every test of sweeps may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dgn_engine.sweep.workers import processes
from tests.engine.sweep.made_up_processes import Bench, Context
from tests.engine.sweep.small import ProgressLog


@pytest.fixture
def progress_log() -> ProgressLog:
    return ProgressLog()


@pytest.fixture
def cards() -> tuple[str, ...]:
    return ()


@pytest.fixture
def bench(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cards: tuple[str, ...]
) -> Iterator[Bench]:
    """Processes that are made up, three at a time, or as many as there are cards."""
    context = Context()
    monkeypatch.setattr(processes, "SPAWN", context)
    monkeypatch.setattr(processes, "usable_gpus", lambda _units: cards)
    monkeypatch.setattr(processes, "usable_cores", lambda: 3)
    made = Bench(tmp_path, context)
    yield made
    made.stack.close()
