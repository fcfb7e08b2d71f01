"""Defect: Space on a focused button paused the run, and Enter did nothing at all."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from dgn_engine.views.event_notices import Notice, NoticeButton
from dgn_viewer.application import Viewer
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display


def test_space_and_enter_press_the_focused_button_and_space_else_pauses(
    on_display: Viewer, user: XUser, qtbot: QtBot
) -> None:
    window, taken = on_display.window, list[str]()
    qtbot.waitUntil(lambda: window.run_state.running)

    def press(button: QAbstractButton, key: str) -> None:
        button.setFocus(Qt.FocusReason.TabFocusReason)
        user.key(key)

    window.guides.tour.start()
    callout = window.guides.tour.callout
    for place, key in enumerate(("space", "Return", "KP_Enter"), 1):
        press(callout.next, key)
        qtbot.waitUntil(lambda place=place: window.guides.tour.place == place)
    press(callout.close_, "Return")
    qtbot.waitUntil(lambda: window.guides.tour.place < 0)
    for key in ("space", "Return"):
        offer = NoticeButton("Take", lambda key=key: taken.append(key))
        window.notices.tell(Notice("info", f"by {key}", offers=(offer,)))
        press(window.notice_views.line.offers()[0], key)
        window.notices.tell(Notice("refused", f"asked {key}", offers=(offer,), asks=True))
        press(window.notice_views.question.answers()[0], key)
    qtbot.waitUntil(lambda: taken == ["space", "space", "Return", "Return"])
    host = window.docks.hosts["gate_maps"]
    with qtbot.waitSignal(host.about_requested):
        press(host._header.about, "Return")  # not the panel, whose key it is else
    assert window.run_state.running
    window.setFocus()
    user.key("space")
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
