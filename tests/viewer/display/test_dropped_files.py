"""Files dropped on the window by other programs, over XDND."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.messages import Event, Refused
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display


def test_each_file_opens_its_page_for_its_zone_and_one_that_is_none_ends_it_and_is_named_once(
    on_display: Viewer, user: XUser, qtbot: QtBot, weights: Path, tmp_path: Path
) -> None:
    """The second has the name of the first."""
    window = on_display.window
    other = tmp_path / "other" / weights.name
    other.parent.mkdir()
    shutil.copy(weights, other)
    user.drag_file(weights, window)
    qtbot.waitUntil(lambda: isinstance(window.inspector.page, FilePage))
    zone = window.files.drops.overlay.zone_rect("network").center().toPoint()
    user.drag_file(other, window, zone)

    def shown() -> tuple[str, str]:
        page = window.inspector.page
        return (page.listed.path, page.purpose) if isinstance(page, FilePage) else ("", "")

    qtbot.waitUntil(lambda: shown() == (str(other), "network"))
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
