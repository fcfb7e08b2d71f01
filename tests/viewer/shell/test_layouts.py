"""Layouts in the real window: by menu and shortcut, watched by the engine, kept over a restart."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.watching import Watch
from dgn_engine.scene.chart_layout import LEAST_CURVES, LEAST_MATRIX
from dgn_engine.scene.elements import Scene
from dgn_engine.views.layout_presets import PRESETS, outline
from dgn_viewer.application import Viewer
from dgn_viewer.plots.scene_view import SceneView

SIZES = ((1024, 700), (1280, 800), (1440, 900))


def watched(viewer: Viewer) -> set[str]:
    """The probes that the panels in sight ask for."""
    docks = viewer.window.docks
    return {one.probe for name in docks.visible() for one in docks.hosts[name].drawn.requests()}


def test_while_a_panel_is_maximised_the_engine_watches_it_alone(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    sent: list[Command] = []
    window.display._send = lambda command: (sent.append(command), window.context.send(command))[1]
    window.docks.choose("ntk")
    window.registry["view.maximise"].trigger()
    assert window.docks.visible() == ("ntk",)

    def asked() -> list[set[str]]:
        """Which probes, one after another; a layer that a panel learns later is no new one."""
        watches = [command for command in sent if isinstance(command, Watch)]
        probes = [{one.probe for one in command.requests} for command in watches]
        return [now for now, _ in groupby(probes)]

    qtbot.waitUntil(lambda: asked() == [{"ntk"}])
    assert window.registry["view.maximise"].text() == "Restore panels"
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.docks.arrangement.maximised == ""
    assert window.registry["view.maximise"].text() == "Maximise panel"
    assert len(watched(viewer)) > 1
    qtbot.waitUntil(lambda: asked()[1:] == [watched(viewer)])
    moments: list[tuple[str, ...]] = []
    window.docks.changed.connect(lambda: moments.append(window.docks.visible()))
    assert window.docks.arrangement.put_layout(window.docks.arrangement.layout())
    assert min(map(len, moments)) == 0  # all panels were hidden for a moment …
    qtbot.waitUntil(lambda: not window.display._rearranged)
    assert len(asked()) == 2  # … which is no gap in what is measured


def test_escape_closes_the_inspector_first(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    window.docks.toggle_maximised("training")
    window.inspector.show_run_settings()
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.inspector.page is None
    assert window.docks.arrangement.maximised == "training"
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.docks.arrangement.maximised == ""


def test_every_layout_is_in_the_menu_and_marked_while_it_is_shown(viewer: Viewer) -> None:
    registry = viewer.window.registry
    for name in PRESETS:
        action = registry[f"view.layout.{name}"]
        action.trigger()
        assert viewer.window.docks.arrangement.preset == name
        assert [n for n in PRESETS if registry[f"view.layout.{n}"].isChecked()] == [name]
    registry["view.reset_layout"].trigger()
    assert viewer.window.docks.arrangement.preset == "overview"


def test_a_preset_and_the_layout_before_maximising_are_kept_over_a_restart(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    first = make_viewer(home="same").window
    first.registry["view.layout.gates"].trigger()
    before = outline(first.docks.arrangement.layout()["tree"], first.docks.hosts)
    first.docks.toggle_maximised("overlap")
    first.close()
    again = make_viewer(home="same").window
    qtbot.waitUntil(lambda: again.docks.arrangement.preset == "gates")
    assert again.docks.arrangement.maximised == ""
    assert outline(again.docks.arrangement.layout()["tree"], again.docks.hosts) == before


def test_the_playground_begins_a_run_on_the_plane_and_its_layout_outlives_a_restart(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    first = make_viewer(home="same").window
    first.resize(1440, 900)  # rows that the height of a window not yet shown does not tell
    first.registry["playground.xor"].trigger()
    qtbot.waitUntil(lambda: first.run_state.run.config.data.name == "xor")
    qtbot.waitUntil(lambda: first.run_state.running)
    assert first.docks.arrangement.preset == "teach"
    seen = {"regions", "paths", "training"}
    qtbot.waitUntil(lambda: seen <= set(first.docks.visible()))
    first.close()
    again = make_viewer(home="same").window
    qtbot.waitUntil(lambda: again.docks.arrangement.preset == "teach")


def _squeezed(view: SceneView, scene: Scene) -> list[tuple[str, float, float]]:
    """Charts in sight that are smaller than the least size, with their width and height."""
    shown = [chart for chart in scene.charts if chart.key in view.charts.shown_keys()]
    assert shown
    found = []
    for chart in shown:
        wide, high = (
            view.charts.area(chart.key).width() + 1,
            view.charts.area(chart.key).height() + 1,
        )
        least = LEAST_CURVES if chart.matrix is None else LEAST_MATRIX
        small = wide < least[0] or high < least[1]
        if chart.square:
            small = wide * high < least[0] * least[1]
        if small:
            found.append((chart.key, wide, high))
    return found


def test_no_chart_is_squeezed_at_the_sizes_that_are_designed(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    for page in (None, window.inspector.show_run_settings):
        if page is not None:
            page()
        for size in SIZES:
            window.resize(*size)
            qtbot.wait(50)
            for name in window.docks.visible():
                host = window.docks.hosts[name]
                qtbot.waitUntil(lambda host=host: isinstance(host.shown(), Scene))
                scene = host.shown()
                assert isinstance(scene, Scene)
                assert _squeezed(host.charts.view, scene) == [], (name, size, page)
            assert (window.width(), window.height()) == size


def test_the_inspector_has_the_width_that_its_page_wants(viewer: Viewer, qtbot: QtBot) -> None:
    """In the very turn in which the window changes its size, too."""
    window, column = viewer.window, viewer.window.columns.page
    window.resize(1024, 700)
    qtbot.wait(20)
    window.resize(1280, 800)
    window.inspector.show_run_settings()
    qtbot.wait(50)
    assert column.width() == 400
    window.registry["view.layout.curves"].trigger()
    window.inspector.show_runs()
    qtbot.wait(50)
    assert column.width() == round(0.45 * 1280)
    window.resize(1440, 900)
    qtbot.wait(50)
    assert column.width() == 640
    window.registry["view.layout.overview"].trigger()
    window.inspector.show_run_settings()
    qtbot.wait(50)
    assert column.width() == 400
    window.resize(1024, 700)
    qtbot.wait(50)
    assert (window.width(), column.width()) == (1024, 400)


def test_the_inspector_gives_its_room_back(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    docks = window.docks
    before = [docks.hosts[name].width() for name in docks.visible()]
    for page in (window.inspector.show_run_settings, window.inspector.show_runs):
        page()
        qtbot.wait(50)
        assert docks.hosts["overlap"].width() < before[0] - 100
        window.inspector.leave()
        qtbot.waitUntil(
            lambda: (
                before
                == pytest.approx([docks.hosts[name].width() for name in docks.visible()], abs=4)
            )
        )


def test_a_narrow_window_leaves_most_of_itself_to_the_panels(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    window.inspector.show_runs()
    qtbot.wait(50)
    assert window.columns.page.width() == 640
    window.resize(1024, 700)
    qtbot.wait(50)
    assert window.width() == 1024
    assert 440 <= window.columns.page.width() <= 0.45 * 1024 + 1


def test_the_inspector_keeps_the_width_that_the_user_has_drawn(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window, column = viewer.window, viewer.window.columns.page
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
    window.inspector.leave()
    window.inspector.show_run_settings()
    window.resize(1500, 900)
    qtbot.wait(50)
    assert column.width() == drawn
    window.inspector.show_runs()
    qtbot.wait(50)
    assert column.width() == 640


@pytest.mark.parametrize("preset", ["overview", ""])
def test_a_small_screen_at_twice_the_scale_holds_the_window(
    viewer: Viewer, qtbot: QtBot, preset: str
) -> None:
    """1440×900 at 200 % are 720×450 logical pixels, in a layout of the user's own, too."""
    window = viewer.window
    if not preset:
        assert window.docks.arrangement.put_layout(window.docks.arrangement.layout())
    assert window.docks.arrangement.preset == preset
    window.resize(720, 450)
    qtbot.wait(50)
    assert (window.width(), window.height()) == (720, 450)
    qtbot.waitUntil(lambda: window.minimumSizeHint().height() <= 450)
    inside = window.run_views.status.geometry().top()
    for name in window.docks.visible():
        host = window.docks.hosts[name]
        qtbot.waitUntil(
            lambda host=host: host.mapTo(window, QPoint(0, host.height())).y() <= inside + 1
        )
