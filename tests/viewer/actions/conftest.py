"""Fixtures of the tests of actions."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from tests.viewer.actions.action_bench import Bench, Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def bench(qtbot: QtBot, desk: Desk) -> Bench:
    return Bench(qtbot, desk)
