"""Sessions on a busy machine."""

from __future__ import annotations

import pytest

from dgn_engine.session import engine


@pytest.fixture(autouse=True)
def patient_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk may take as long as it needs to finish a run's folder."""
    monkeypatch.setattr(engine, "PATIENCE", 60.0)
