"""What tests of training share."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dgn_engine.training import out_of_memory


@pytest.fixture(autouse=True)
def _read_here(no_reader_child: None) -> None:
    """Runs read their own checkpoints over and over."""


@pytest.fixture(autouse=True)
def _garbage_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs out of memory here collects garbage: that of all tests before takes long."""
    monkeypatch.setattr(out_of_memory, "gc", SimpleNamespace(collect=lambda: 0))
