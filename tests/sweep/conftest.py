"""What every test of sweeps may ask for."""

from __future__ import annotations

import pytest

from tests.sweep.small import Seen


@pytest.fixture
def seen() -> Seen:
    return Seen()
