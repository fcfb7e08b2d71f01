"""Files dropped on the window by other programs, over XDND."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.messages import Event, Refused
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display


def test_a_checkpoint_opens_its_page_and_a_file_that_is_none_ends_it_and_is_named_once(
    on_display: Viewer, user: XUser, qtbot: QtBot, weights: Path, tmp_path: Path
) -> None:
    window = on_display.window
    user.drag_file(weights, window)
    qtbot.waitUntil(lambda: isinstance(window.inspector.page, FilePage))
    file = tmp_path / "letter.pt"
    file.write_text("no weights here", encoding="utf-8")
    said: list[Event] = []
    window.event_taken.connect(lambda event, _state: said.append(event))
    user.drag_file(file, window)
    qtbot.waitUntil(lambda: any(isinstance(event, Refused) for event in said))
    qtbot.waitUntil(lambda: window.notice_views.line.entry is not None)
    assert window.inspector.page is None
    assert not window.columns.page.isVisible()
    entry = window.notice_views.line.entry
    assert entry is not None
    assert entry.notice.text.count("letter.pt") == 1
    step = window.history.step
    qtbot.waitUntil(lambda: window.history.step > step)
