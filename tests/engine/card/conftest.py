"""A simulated card for a test, which must not have met a fault when the test ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulated_card import SimulatedCard, simulated_card


@pytest.fixture
def card() -> Iterator[SimulatedCard]:
    with simulated_card() as card:
        yield card
    assert card.faults == []
