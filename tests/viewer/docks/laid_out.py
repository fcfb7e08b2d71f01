"""Panels that show nothing, as docks in a window of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from PySide6.QtWidgets import QDockWidget, QMainWindow
from pytestqt.qtbot import QtBot

from dgn_engine.scene.elements import Empty
from dgn_engine.scene.panel_spec import About, PanelSpec
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.docks.panel_docks import PanelDocks


def spec(name: str, area: Any, compares: bool = False, order: int = 0) -> PanelSpec:
    return PanelSpec(
        name, (), lambda _: Empty("Nothing."), About("."), area=area, order=order, compares=compares
    )


def docks_in(
    qtbot: QtBot, specs: Mapping[str, PanelSpec], height: int, sheet: str = ""
) -> Iterator[PanelDocks]:
    """Arranged in a window that is on the screen until the test ends."""
    window = QMainWindow()
    qtbot.addWidget(window)
    window.setDockNestingEnabled(True)
    window.resize(1200, height)
    window.setStyleSheet(sheet)
    found = PanelDocks(window, specs, LIGHT)
    found.arrangement.arrange_preset()
    found.set_theme(LIGHT)
    with qtbot.waitExposed(window):
        window.show()
    found.arrangement.resize_panels()
    yield found
    window.close()


def dock_of(docks: PanelDocks, name: str) -> Any:
    found = docks.window.findChild(QDockWidget, f"panel.{name}")
    assert found is not None
    return found


def title_of(docks: PanelDocks, name: str) -> Any:
    return dock_of(docks, name).titleBarWidget()


def shape(node: Any) -> Any:
    """A node without its shares: names for tabs, a list for a column, a tuple for a row."""
    if "tabs" in node:
        return node["tabs"][0] if len(node["tabs"]) == 1 else set(node["tabs"])
    parts = [shape(part) for part in node["parts"]]
    return tuple(parts) if node["across"] else parts
