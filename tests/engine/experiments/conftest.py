"""How many made-up worlds are drawn, and how quickly."""

from __future__ import annotations

import pytest

from dgn_engine.experiments._grid import TrainedCell
from dgn_engine.protocol.experiments import PlottedLine
from tests.engine.experiments import worlds


@pytest.fixture(
    params=[
        pytest.param(worlds.DRAWS, id="few"),
        pytest.param(400, id="many", marks=pytest.mark.faults),
    ]
)
def draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Of every world whose test says no number of its own."""
    monkeypatch.setattr(worlds, "DRAWS", request.param)
    return int(request.param)


@pytest.fixture
def quick_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Student's t without checks, and no curves, at which nobody looks in so many draws."""
    monkeypatch.setattr("scipy.stats.t", worlds.QuickT)
    monkeypatch.setattr(TrainedCell, "accuracy_line", lambda *_: PlottedLine("", (), ()))
