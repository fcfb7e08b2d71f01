"""How many made-up worlds are drawn."""

from __future__ import annotations

import pytest

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
