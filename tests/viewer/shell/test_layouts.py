"""Layouts in the real window: by menu and shortcut, watched by the engine, kept over a restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMainWindow, QTabBar
from pytestqt.qtbot import QtBot

from dgn_engine.panels import agreement, overlap, training
from dgn_engine.protocol.watching import Watch
from dgn_engine.scene.chart_layout import LEAST_CURVES, LEAST_MATRIX
from dgn_engine.scene.chart_settings import ChartSettings
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.matrix_colours import ColourChoice
from dgn_engine.scene.panel_spec import PREDICTIONS
from dgn_engine.scene.theme import LIGHT
from dgn_engine.views.layout_presets import layout_outline
from dgn_viewer.application import Viewer
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.settings import Settings
from dgn_viewer.shell.window_layout import WindowLayout
from tests.viewer.gestures import tap_commands
from tests.viewer.window_contexts import make_context

SIZES = ((1024, 700), (1280, 800), (1440, 900))


def watched(viewer: Viewer) -> set[str]:
    """The probes that the panels in sight ask for."""
    docks = viewer.window.docks
    return {
        one.probe
        for name in docks.visible_panels()
        for one in docks.hosts[name].drawn.probe_requests()
    }


def test_while_a_panel_is_maximised_the_engine_watches_it_alone(
    opened_viewer: Viewer, qtbot: QtBot
) -> None:
    window = opened_viewer.window
    sent = tap_commands(opened_viewer)
    window.docks.set_front_panel("ntk")
    window.registry["view.maximise"].trigger()
    assert window.docks.visible_panels() == ("ntk",)

    def asked() -> list[set[str]]:
        """Which probes, one after another; a layer that a panel learns later is no new one."""
        watches = [command for command in sent if isinstance(command, Watch)]
        probes = [{one.probe for one in command.requests} for command in watches]
        return [now for now, _ in groupby(probes)]

    qtbot.waitUntil(lambda: asked() == [{"ntk", PREDICTIONS}])
    assert window.registry["view.maximise"].text() == "Restore panels"
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.docks.arrangement.maximised_name == ""
    assert window.registry["view.maximise"].text() == "Maximise panel"
    assert len(watched(opened_viewer)) > 1
    qtbot.waitUntil(lambda: asked()[1:] == [watched(opened_viewer)])
    moments: list[tuple[str, ...]] = []
    window.docks.changed.connect(lambda: moments.append(window.docks.visible_panels()))
    assert window.docks.arrangement.restore_layout(window.docks.arrangement.current_layout())
    assert moments == []  # that they were hidden for a moment is no change
    qtbot.waitUntil(lambda: not window.display.stale_panels())
    assert len(asked()) == 2


def test_escape_closes_the_inspector_first(opened_viewer: Viewer, qtbot: QtBot) -> None:
    window = opened_viewer.window
    window.docks.toggle_maximised("training")
    window.inspector.show_run_settings()
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.inspector.page is None
    assert window.docks.arrangement.maximised_name == "training"
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.docks.arrangement.maximised_name == ""


def squeezed(host: PanelDock) -> list[tuple[str, float, float]]:
    """Charts in sight that are smaller than the least size, with their width and height."""
    charts, scene = host.charts.view.charts, host.shown_content()
    assert isinstance(scene, Scene)
    shown = [chart for chart in scene.charts if chart.key in charts.shown_keys()]
    assert shown
    found = []
    for chart in shown:
        wide, high = (side + 1 for side in charts.data_rect(chart.key).size().toTuple())
        least = LEAST_CURVES if chart.matrix is None else LEAST_MATRIX
        small = wide < least[0] or high < least[1]
        if chart.square:
            small = wide * high < least[0] * least[1]
        if small:
            found.append((chart.key, wide, high))
    return found


def test_no_chart_is_squeezed_at_the_sizes_that_are_designed(
    opened_viewer: Viewer, qtbot: QtBot
) -> None:
    window = opened_viewer.window

    def all_have_room() -> None:
        for name in window.docks.visible_panels():
            assert squeezed(window.docks.hosts[name]) == []

    for page in (window.inspector.close_page, window.inspector.show_run_settings):
        page()
        for size in SIZES:
            window.resize(*size)
            qtbot.wait(50)
            qtbot.waitUntil(all_have_room)
            assert (window.width(), window.height()) == size


def test_the_inspector_has_its_width(opened_viewer: Viewer, qtbot: QtBot) -> None:
    """In the very turn in which the window changes its size, too."""
    window, column = opened_viewer.window, opened_viewer.window.columns.page
    window.resize(1024, 700)
    qtbot.wait(20)
    window.resize(1280, 800)
    window.inspector.show_run_settings()
    qtbot.wait(50)
    assert column.width() == 400
    window.resize(1024, 700)
    qtbot.wait(50)
    assert (window.width(), column.width()) == (1024, 400)


def test_the_inspector_keeps_the_width_that_the_user_has_drawn(
    opened_viewer: Viewer, qtbot: QtBot
) -> None:
    window, column = opened_viewer.window, opened_viewer.window.columns.page
    window.inspector.show_run_settings()
    qtbot.wait(50)
    at = column.geometry().topLeft() + QPoint(-3, 200)
    left = Qt.MouseButton.LeftButton
    qtbot.mouseMove(window, at)
    qtbot.mousePress(window, left, pos=at)
    for step in range(1, 9):
        qtbot.mouseMove(window, at - QPoint(10 * step, 0))
        qtbot.wait(5)
    qtbot.mouseRelease(window, left, pos=at - QPoint(80, 0))
    qtbot.wait(50)
    drawn = column.width()
    assert drawn == pytest.approx(480, abs=8)
    window.inspector.close_page()
    window.inspector.show_run_settings()
    window.resize(1500, 900)
    qtbot.wait(50)
    assert column.width() == drawn


def test_a_small_screen_at_twice_the_scale_holds_the_window(
    opened_viewer: Viewer, qtbot: QtBot
) -> None:
    """1440×900 at 200 % are 720×450 logical pixels, in a layout of the user's own, too."""
    window = opened_viewer.window
    for preset in ("overview", ""):
        if not preset:
            assert window.docks.arrangement.restore_layout(
                window.docks.arrangement.current_layout()
            )
        assert window.docks.arrangement.preset == preset
        window.resize(720, 450)
        qtbot.waitUntil(lambda: (window.width(), window.height()) == (720, 450))
        qtbot.waitUntil(lambda: window.minimumSizeHint().height() <= 450)
        inside = window.run_views.status.geometry().top()
        for name in window.docks.visible_panels():
            host = window.docks.hosts[name]
            qtbot.waitUntil(
                lambda host=host, inside=inside: (  # type: ignore[misc]  # as they are now
                    host.mapTo(window, QPoint(0, host.height())).y() <= inside + 1
                )
            )
        window.resize(1440, 900)
        qtbot.waitUntil(lambda: window.width() == 1440)


def test_results_and_a_page_take_turns_where_both_have_no_room(
    opened_viewer: Viewer, qtbot: QtBot
) -> None:
    window = opened_viewer.window
    window.resize(1024, 700)
    qtbot.waitUntil(lambda: window.width() == 1024)
    window.experiments.results.open()
    qtbot.wait(1)  # layout requests are handled
    assert window.width() == 1024
    window.pages.open_settings()
    qtbot.wait(1)
    assert window.columns.page.isVisible()
    assert not window.experiments.results.isVisible()
    window.inspector.close_page()
    assert window.experiments.results.isVisible()
    window.pages.open_settings()
    window.experiments.results.open()
    qtbot.wait(1)
    assert window.experiments.results.isVisible()
    assert not window.columns.page.isVisible()
    assert window.width() == 1024
    window.resize(1920, 700)
    window.pages.open_settings()
    qtbot.wait(1)
    assert window.experiments.results.isVisible()
    assert window.columns.page.isVisible()


PANELS = {"overlap": overlap.PANEL, "training": training.PANEL, "agreement": agreement.PANEL}
KEPT = {
    "active": ChartSettings(colours=ColourChoice("fixed", (0.0, 0.5))),
    "sensitive": ChartSettings(colours=ColourChoice(ramp="grey")),
}


@pytest.fixture
def docks(qtbot: QtBot) -> PanelDocks:
    window = QMainWindow()
    qtbot.addWidget(window)
    found = PanelDocks(window, PANELS, LIGHT)
    found.arrangement.arrange_preset()
    return found


def layouts_of(docks: PanelDocks) -> WindowLayout:
    return WindowLayout(docks.window, docks, make_context(docks.window))


def test_a_session_carries_what_was_set_for_its_charts(docks: PanelDocks) -> None:
    layouts = layouts_of(docks)
    docks.hosts["overlap"].charts.apply_settings(KEPT)
    layout = json.loads(layouts.layout_json())
    assert list(layout["charts"]) == ["overlap"]
    assert layout.pop("theme") == "light"  # put on, it is that of all tests
    docks.hosts["overlap"].charts.replace_settings({})
    docks.hosts["training"].charts.apply_settings({"loss": ChartSettings(last=200)})
    layouts.apply_session_layout(json.dumps(layout))
    assert docks.hosts["overlap"].charts.settings == KEPT
    assert docks.hosts["training"].charts.settings == {}


def test_the_panels_of_a_comparison_are_forgotten_at_the_end(
    docks: PanelDocks, tmp_path: Path
) -> None:
    context = make_context(docks.window, settings=Settings(tmp_path / "settings.ini"))
    layouts = WindowLayout(docks.window, docks, context)
    docks.arrangement.set_compared("B")
    assert docks.arrangement.is_open("agreement")
    layouts.save_layout()
    assert not docks.arrangement.is_open("agreement")


@pytest.mark.parametrize("charts", [None, [], {"overlap": 3}, {"gone": {"a": {"last": 5}}}])
def test_a_layout_without_sensible_charts_leaves_them_to_their_panels(
    docks: PanelDocks, charts: object
) -> None:
    docks.hosts["overlap"].charts.apply_settings(KEPT)
    layouts_of(docks).apply_session_layout(json.dumps({"charts": charts}))
    assert all(not host.charts.settings for host in docks.hosts.values())


def test_a_preset_the_layout_before_maximising_and_that_of_a_playground_outlive_a_restart(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    first = make_viewer(home="same", paused=True)
    docks = first.window.docks
    first.window.registry["view.layout.gates"].trigger()
    before = layout_outline(docks.arrangement.current_layout()["tree"], docks.hosts)
    docks.toggle_maximised("overlap")
    assert first.close()
    second = make_viewer(home="same", paused=True)
    window, docks = second.window, second.window.docks
    qtbot.waitUntil(lambda: docks.arrangement.preset == "gates")
    assert docks.arrangement.maximised_name == ""
    assert layout_outline(docks.arrangement.current_layout()["tree"], docks.hosts) == before
    window.registry["playground.xor"].trigger()
    qtbot.waitUntil(lambda: window.run_state.run.config.data.name == "xor")
    qtbot.waitUntil(lambda: window.run_state.is_running)
    assert docks.arrangement.preset == "teach"
    qtbot.waitUntil(lambda: {"regions", "paths", "training"} <= set(docks.visible_panels()))
    assert second.close()
    third = make_viewer(home="same", paused=True).window
    qtbot.waitUntil(lambda: third.docks.arrangement.preset == "teach")


def test_a_restored_layout_leaves_no_tab_bar_of_another_one(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    assert make_viewer(home="a").close(60.0)  # saves a layout without tabs
    window = make_viewer(home="a").window
    qtbot.wait(1)  # it is laid out
    bars = [bar for bar in window.findChildren(QTabBar) if bar.parent() is window]
    shown = {bar.tabText(index) for bar in bars if bar.isVisible() for index in range(bar.count())}
    assert shown == set()
