"""Settings of charts in the layout that a session file carries."""

from __future__ import annotations

import json

import pytest
from PySide6.QtWidgets import QMainWindow
from pytestqt.qtbot import QtBot

from dgn_engine.panels import overlap, training
from dgn_engine.scene.chart_settings import ChartSettings
from dgn_engine.scene.matrix_colours import ColourChoice
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.shell.window_layout import WindowLayout
from tests.viewer.window_contexts import make_context

PANELS = {"overlap": overlap.PANEL, "training": training.PANEL}
KEPT = {
    "active": ChartSettings(colours=ColourChoice("fixed", (0.0, 0.5))),
    "sensitive": ChartSettings(colours=ColourChoice(ramp="grey")),
}


@pytest.fixture
def docks(qtbot: QtBot) -> PanelDocks:
    window = QMainWindow()
    qtbot.addWidget(window)
    found = PanelDocks(window, PANELS, LIGHT)
    found.arrangement.arrange()
    return found


def layouts_of(docks: PanelDocks) -> WindowLayout:
    return WindowLayout(docks.window, docks, make_context(docks.window))


def test_a_session_carries_what_was_set_for_its_charts(docks: PanelDocks) -> None:
    layouts = layouts_of(docks)
    docks.hosts["overlap"].charts.put(KEPT)
    layout = json.loads(layouts.as_json())
    assert list(layout["charts"]) == ["overlap"]
    assert layout.pop("theme") == "light"  # put on, it is that of all tests
    docks.hosts["overlap"].charts.put_all({})
    docks.hosts["training"].charts.put({"loss": ChartSettings(last=200)})
    layouts.apply(json.dumps(layout))
    assert docks.hosts["overlap"].charts.settings == KEPT
    assert docks.hosts["training"].charts.settings == {}


@pytest.mark.parametrize("charts", [None, [], {"overlap": 3}, {"gone": {"a": {"last": 5}}}])
def test_a_layout_without_sensible_charts_leaves_them_to_their_panels(
    docks: PanelDocks, charts: object
) -> None:
    docks.hosts["overlap"].charts.put(KEPT)
    layouts_of(docks).apply(json.dumps({"charts": charts}))
    assert all(not host.charts.settings for host in docks.hosts.values())
