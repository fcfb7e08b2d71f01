"""Defect: Ctrl+E and F1 acted on another panel than the one whose title was clicked."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QDockWidget
from pytestqt.qtbot import QtBot

from dgn_viewer.application import Viewer
from dgn_viewer.docks.panel_docks import DockTitle
from dgn_viewer.shell.export_dialog import ExportDialog
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display


@pytest.mark.parametrize("name", ["overlap", "ntk", "training"])
def test_ctrl_e_exports_the_panel_whose_title_was_clicked(
    on_display: Viewer, user: XUser, qtbot: QtBot, name: str
) -> None:
    window = on_display.window
    docks = window.docks
    dock = next(d for d in window.findChildren(QDockWidget) if d.objectName() == f"panel.{name}")
    qtbot.waitUntil(lambda: docks.hosts[name].state() == "live")
    title = dock.titleBarWidget()
    assert isinstance(title, DockTitle)
    user.click(title, QPoint(30, 10))
    qtbot.waitUntil(lambda: docks.front() == name)
    assert [t.property("front") for t in window.findChildren(DockTitle)].count(True) == 1
    assert title.property("front")
    user.key("ctrl+e")
    qtbot.waitUntil(lambda: window.findChild(ExportDialog) is not None)
    dialog = window.findChild(ExportDialog)
    assert isinstance(dialog, ExportDialog)
    assert docks.hosts[name].spec.title in dialog.windowTitle()
    dialog.close()
