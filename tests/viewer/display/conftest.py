"""The window on a real X display (`make display` brings one), left of it room to drag from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDockWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.files import SaveWeights
from dgn_viewer.application import Viewer
from dgn_viewer.docks.panel_frame import DockTitle
from dgn_viewer.window import Window
from tests.viewer.display.x_user import XUser

LEFT_FREE = 120  # pixels


def put_in_place(window: Window, user: XUser, qtbot: QtBot) -> None:
    """Leave room to drag from, and give the window the keyboard."""
    window.move(LEFT_FREE, 0)
    qtbot.waitExposed(window)
    user.focus(window)


@pytest.fixture(autouse=True)
def _is_real(qapp: object) -> None:
    assert QGuiApplication.platformName() == "xcb", "these tests need an X display: make display"


@pytest.fixture
def user(qtbot: QtBot) -> XUser:
    return XUser(qtbot)


@pytest.fixture
def on_display(make_viewer: Callable[..., Viewer], qtbot: QtBot, user: XUser) -> Viewer:
    """The viewer with a small run that trains and records, its window active."""
    viewer = make_viewer(home="home")
    put_in_place(viewer.window, user, qtbot)
    return viewer


@pytest.fixture
def titles(on_display: Viewer) -> dict[str, DockTitle]:
    """The titles of the panels by the panel's id."""
    docks = on_display.window.findChildren(QDockWidget)
    bars = {dock.objectName().removeprefix("panel."): dock.titleBarWidget() for dock in docks}
    return {name: bar for name, bar in bars.items() if isinstance(bar, DockTitle)}


@pytest.fixture
def weights(on_display: Viewer, qtbot: QtBot, tmp_path: Path) -> Path:
    """A file with the weights of the run as it was at an early step."""
    file = tmp_path / "early.safetensors"
    on_display.window.context.send(SaveWeights(str(file)))
    qtbot.waitUntil(file.exists)
    return file
