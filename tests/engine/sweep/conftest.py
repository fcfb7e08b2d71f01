"""What every test of sweeps may ask for."""

from __future__ import annotations

import pytest

from tests.engine.sweep.small import Seen


@pytest.fixture
def seen() -> Seen:
    return Seen()
