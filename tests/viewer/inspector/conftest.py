"""An inspector by itself, and its form of a run."""

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.messages import Command, EngineReady
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages import run_page
from dgn_viewer.inspector.pages.run_page import RunPage
from tests.viewer.inspector.inspected import CATALOGUE, send_event


@pytest.fixture
def inspector(qtbot: QtBot, sent: list[Command], monkeypatch: pytest.MonkeyPatch) -> Inspector:
    monkeypatch.setattr(run_page, "PAUSE", 10**6)  # nothing is estimated unless a test asks
    column = Inspector(sent.append)
    qtbot.addWidget(column)
    column.resize(column.sizeHint())
    column.show()
    return column


@pytest.fixture
def form(inspector: Inspector) -> RunPage:
    send_event(inspector, EngineReady(CATALOGUE, "2.13"))
    inspector.show_run_settings()
    return inspector.run_page
