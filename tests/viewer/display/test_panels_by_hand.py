"""Defect: panels could not be maximised, floating ones were lost, charts shrank to a line."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QAbstractButton, QToolButton
from pytestqt.qtbot import QtBot

from dgn_engine.views.event_notices import Notice, NoticeButton
from dgn_viewer.application import Viewer
from dgn_viewer.docks.panel_frame import DockTitle, PanelFrame
from dgn_viewer.shell.export_dialog import ExportDialog
from dgn_viewer.window import Window
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display
ON_TITLE = QPoint(30, 10)


def frame(window: Window, name: str) -> PanelFrame:
    return next(d for d in window.findChildren(PanelFrame) if d.objectName() == f"panel.{name}")


def places(window: Window) -> dict[str, QRect]:
    return {name: frame(window, name).geometry() for name in window.docks.visible_panels()}


def test_a_double_click_on_a_title_fills_the_window_and_another_goes_back(
    on_display: Viewer, user: XUser, qtbot: QtBot, titles: dict[str, DockTitle]
) -> None:
    window = on_display.window
    before = places(window)
    user.double_click(titles["ntk"], ON_TITLE)
    qtbot.waitUntil(lambda: window.docks.visible_panels() == ("ntk",))
    assert frame(window, "ntk").width() == window.width() - window.runs.width()
    user.double_click(titles["ntk"], ON_TITLE)
    qtbot.waitUntil(lambda: places(window) == before)


def test_a_floating_panel_is_in_front_again_by_its_key_after_the_window_was_raised(
    on_display: Viewer, user: XUser, qtbot: QtBot, titles: dict[str, DockTitle]
) -> None:
    window = on_display.window
    dock = frame(window, "overlap")
    button = next(
        b for b in titles["overlap"].findChildren(QToolButton) if b.toolTip().startswith("Float")
    )
    user.press(button)
    qtbot.waitUntil(lambda: dock.isFloating() and dock.isVisible())

    def covered() -> bool:
        user.move(dock.frameGeometry().center())
        return user.window_under_pointer() != int(dock.winId())

    qtbot.waitUntil(lambda: not covered())
    window.raise_()  # as a window manager does with the window that is clicked
    user.focus(window)
    key = window.registry["panel.overlap"].shortcut().toString().lower()
    user.key(key)
    qtbot.waitUntil(lambda: not covered())
    assert dock.isFloating()
    assert window.docks.front_panel() == "overlap"


def test_ctrl_e_exports_the_panel_whose_title_was_clicked_last(
    on_display: Viewer, user: XUser, qtbot: QtBot, titles: dict[str, DockTitle]
) -> None:
    window, docks = on_display.window, on_display.window.docks
    for name in ("overlap", "training"):
        qtbot.waitUntil(lambda name=name: docks.hosts[name].panel_state() == "live")  # type: ignore[misc]  # bound
        user.click(titles[name], QPoint(30, 10))
        qtbot.waitUntil(lambda name=name: docks.front_panel() == name)  # type: ignore[misc]  # bound
        assert [t for t in window.findChildren(DockTitle) if t.property("front")] == [titles[name]]
        user.key("ctrl+e")
        qtbot.waitUntil(lambda: window.findChild(ExportDialog) is not None)
        dialog = window.findChild(ExportDialog)
        assert isinstance(dialog, ExportDialog)
        assert docks.hosts[name].spec.title in dialog.windowTitle()
        dialog.close()
        qtbot.waitUntil(lambda: window.findChild(ExportDialog) is None)


def test_space_and_enter_press_the_focused_button_and_space_else_pauses(
    on_display: Viewer, user: XUser, qtbot: QtBot
) -> None:
    window, taken = on_display.window, list[str]()
    qtbot.waitUntil(lambda: window.run_state.is_running)

    def press(button: QAbstractButton, key: str) -> None:
        button.setFocus(Qt.FocusReason.TabFocusReason)
        user.key(key)

    window.guides.tour.start()
    callout = window.guides.tour.callout
    for place, key in enumerate(("space", "Return", "KP_Enter"), 1):
        press(callout.next, key)
        qtbot.waitUntil(lambda place=place: window.guides.tour.step_index == place)
    press(callout.close_, "Return")
    qtbot.waitUntil(lambda: window.guides.tour.step_index < 0)
    for key in ("space", "Return"):
        offer = NoticeButton("Take", lambda key=key: taken.append(key))
        window.notices.add_notice(Notice("info", f"by {key}", offers=(offer,)))
        press(window.notice_views.line.offer_buttons()[0], key)
        window.notices.add_notice(Notice("refused", f"asked {key}", offers=(offer,), asks=True))
        press(window.notice_views.question.answer_buttons()[0], key)
    qtbot.waitUntil(lambda: taken == ["space", "space", "Return", "Return"])
    host = window.docks.hosts["gate_maps"]
    with qtbot.waitSignal(host.about_requested):
        press(host.parts.header.about, "Return")  # not the panel, whose key it is else
    assert window.run_state.is_running
    window.setFocus()
    user.key("space")
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
