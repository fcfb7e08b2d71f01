"""Defect: Ctrl+E and F1 acted on another panel than the one whose title was clicked."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from dgn_viewer.application import Viewer
from dgn_viewer.docks.panel_frame import DockTitle
from dgn_viewer.shell.export_dialog import ExportDialog
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display


def test_ctrl_e_exports_the_panel_whose_title_was_clicked_last(
    on_display: Viewer, user: XUser, qtbot: QtBot, titles: dict[str, DockTitle]
) -> None:
    window, docks = on_display.window, on_display.window.docks
    for name in ("overlap", "training"):
        qtbot.waitUntil(lambda name=name: docks.hosts[name].state() == "live")  # type: ignore[misc]  # bound
        user.click(titles[name], QPoint(30, 10))
        qtbot.waitUntil(lambda name=name: docks.front() == name)  # type: ignore[misc]  # bound
        assert [t for t in window.findChildren(DockTitle) if t.property("front")] == [titles[name]]
        user.key("ctrl+e")
        qtbot.waitUntil(lambda: window.findChild(ExportDialog) is not None)
        dialog = window.findChild(ExportDialog)
        assert isinstance(dialog, ExportDialog)
        assert docks.hosts[name].spec.title in dialog.windowTitle()
        dialog.close()
        qtbot.waitUntil(lambda: window.findChild(ExportDialog) is None)
