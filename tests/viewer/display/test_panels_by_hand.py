"""Defect: panels could not be maximised, floating ones were lost, charts shrank to a line."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QMenu, QToolButton
from pytestqt.qtbot import QtBot

from dgn_engine.scene.chart_layout import LEAST_CURVES, LEAST_MATRIX
from dgn_viewer.application import Viewer
from dgn_viewer.docks.panel_frame import DockTitle, PanelFrame
from dgn_viewer.window import Window
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display
ON_TITLE = QPoint(30, 10)


def frame(window: Window, name: str) -> PanelFrame:
    return next(d for d in window.findChildren(PanelFrame) if d.objectName() == f"panel.{name}")


def places(window: Window) -> dict[str, QRect]:
    return {name: frame(window, name).geometry() for name in window.docks.visible()}


def test_a_double_click_on_a_title_fills_the_window_and_another_goes_back(
    on_display: Viewer, user: XUser, qtbot: QtBot, titles: dict[str, DockTitle]
) -> None:
    window = on_display.window
    before = places(window)
    user.double_click(titles["ntk"], ON_TITLE)
    qtbot.waitUntil(lambda: window.docks.visible() == ("ntk",))
    assert frame(window, "ntk").width() == window.width()
    user.double_click(titles["ntk"], ON_TITLE)
    qtbot.waitUntil(lambda: places(window) == before)


def test_a_layout_is_chosen_from_the_menu_by_keys(
    on_display: Viewer, user: XUser, qtbot: QtBot
) -> None:
    window = on_display.window
    bar = window.menuBar()
    entry = next(action for action in bar.actions() if action.text() == "View")
    user.click(bar, bar.actionGeometry(entry).center())
    menu = entry.menu()
    assert isinstance(menu, QMenu)
    qtbot.waitUntil(menu.isVisible)
    user.choose(menu, "Layout", "Curves layout")
    qtbot.waitUntil(lambda: window.docks.arrangement.preset == "curves")
    qtbot.waitUntil(lambda: window.docks.visible() == ("spectrum", "ntk", "training"))
    sizes = {name: rect.width() * rect.height() for name, rect in places(window).items()}
    assert max(sizes, key=lambda name: sizes[name]) == "training"


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
    assert window.docks.front() == "overlap"


def test_at_1024_by_700_every_chart_that_is_shown_has_room_for_its_data(
    on_display: Viewer, user: XUser, qtbot: QtBot, titles: dict[str, DockTitle]
) -> None:
    window = on_display.window
    window.resize(1024, 700)
    qtbot.waitUntil(lambda: (window.width(), window.height()) == (1024, 700))
    user.key("ctrl+n")  # the widest page beside them
    qtbot.waitUntil(window.columns.page.isVisible)
    for name in (*window.docks.visible(), "spectrum", "ntk", "training"):
        if name not in window.docks.visible():  # behind a tab
            user.key(window.registry[f"panel.{name}"].shortcut().toString().lower())
            qtbot.waitUntil(lambda name=name: name in window.docks.visible())
        host = window.docks.hosts[name]
        qtbot.waitUntil(lambda host=host: host.state() == "live")
        view = host.charts.view
        charts = {chart.key: chart for chart in view.charts.charts if not chart.small}
        qtbot.waitUntil(lambda view=view: bool(view.charts.shown_keys()))
        shown = view.charts.shown_keys()
        for key in shown:
            least = LEAST_MATRIX if charts[key].matrix is not None else LEAST_CURVES
            if least == LEAST_CURVES and len(shown) == 1:  # lower, so that its events are in sight
                least = (LEAST_CURVES[0], 80.0)
            area = view.charts.area(key)
            assert area.width() >= least[0] - 1, (name, key, area)
            assert area.height() >= least[1] - 1, (name, key, area)
