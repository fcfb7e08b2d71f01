"""A comparison in the real window: A, B and A − B side by side, one click there and back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.branches import CloseComparison
from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.training import Pause
from dgn_engine.scene.chart_layout import LEAST_MATRIX
from dgn_engine.text.written_numbers import format_number
from dgn_viewer.application import Viewer
from dgn_viewer.docks.layout_history import is_same
from dgn_viewer.inspector.pages.compare_page import ComparePage
from dgn_viewer.plots.scene_view import SceneView
from dgn_viewer.window import Window
from tests.viewer.gestures import LEFT
from tests.viewer.seen_charts import visible_range

SIDE = 220  # pixels, at 1440 × 900
TRIOS = {
    "gate_maps": ("large_0", "large_1", "large_difference"),
    "overlap": ("active_0", "active_1", "active_difference"),
    "ntk": ("value_0", "value_1", "value_difference"),
    "spectrum": ("kernel_0", "kernel_1", "kernel_difference"),
}


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    return shared_viewer


@pytest.fixture
def compared(viewer: Viewer, qtbot: QtBot, saved_weights: Path) -> Window:
    """The window in which the run is compared with an early step of it, in a file."""
    window = viewer.window
    window.docks.hosts["spectrum"].set_choice("show", "kernel")
    window.context.send(Pause())
    window.context.send(OpenFile(str(saved_weights), "compare"))
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    qtbot.waitUntil(lambda: window.docks.arrangement.preset == "compare")
    return window


def show_trio(window: Window, panel: str, qtbot: QtBot) -> SceneView:
    window.docks.show_panel(panel)
    view = window.docks.hosts[panel].charts.view

    def is_drawn() -> bool:
        window.display.draw_now()
        return set(TRIOS[panel]) <= set(view.charts.items)

    qtbot.waitUntil(is_drawn)
    return view


def sides_of(view: SceneView, panel: str) -> list[tuple[float, float]]:
    """Width and height of the three, which are beside each other."""
    rects = [view.charts.data_rect(key) for key in TRIOS[panel]]
    assert len({round(rect.top()) for rect in rects}) == 1
    assert sorted(rects, key=lambda rect: rect.left()) == rects
    assert all(a.right() < b.left() for a, b in itertools.pairwise(rects))
    return [(rect.width(), rect.height()) for rect in rects]


def test_a_b_and_their_difference_are_side_by_side_at_220_pixels(
    compared: Window, qtbot: QtBot
) -> None:
    assert (compared.width(), compared.height()) == (1440, 900)
    for panel in TRIOS:
        view = show_trio(compared, panel, qtbot)
        qtbot.waitUntil(lambda v=view, p=panel: set(TRIOS[p]) <= set(v.charts.shown_keys()))
        qtbot.waitUntil(
            lambda v=view, p=panel: all(min(side) >= SIDE for side in sides_of(v, p)),
        )
        assert not view.charts.tabs.isVisible()
    compared.resize(1024, 700)
    for panel in TRIOS:
        view = show_trio(compared, panel, qtbot)
        qtbot.waitUntil(
            lambda v=view, p=panel: (
                set(TRIOS[p]) <= set(v.charts.shown_keys())
                and all(min(side) >= LEAST_MATRIX[0] for side in sides_of(v, p))
            )
        )
    assert len(compared.docks.visible_panels()) == 2


def test_the_layer_strip_makes_room_and_returns(compared: Window, qtbot: QtBot) -> None:
    strip = compared.run_views.strip_bar
    assert strip.isHidden()
    compared.registry["view.side_by_side"].trigger()
    assert not strip.isHidden()
    compared.registry["view.side_by_side"].trigger()
    assert strip.isHidden()
    compared.resize(1440, 1100)
    qtbot.waitUntil(lambda: not strip.isHidden())  # a high window has room for both


def test_the_values_of_both_and_their_difference_are_under_the_cursor(
    compared: Window, qtbot: QtBot
) -> None:
    view = show_trio(compared, "overlap", qtbot)
    for key in TRIOS["overlap"]:
        item = view.charts.items[key]
        area = item.plot_area()
        view.pointer.place = QPointF(area.pixel_x(3), area.pixel_y(2))
        view.pointer.update_readout()
        matrix = item.chart.matrix
        assert matrix is not None
        assert matrix.sides is not None
        shown = view.links.shown_examples
        assert shown is not None
        (line,) = (line for line in shown.lines if " · " in line)
        values = [text.rpartition("  ")[2] for text in line.split(" · ")]
        assert values == [format_number(side[2, 3]) for side in matrix.sides.values]
        assert {gates.name[:1] for gates in shown.gates} <= {"B" if matrix.of_compared else "A"}
        lit = {key: view.charts.items[key].pointer.lit for key in TRIOS["overlap"]}
        assert len({str(selection) for selection in lit.values()}) == 1


def test_the_three_are_zoomed_together(compared: Window, qtbot: QtBot) -> None:
    view = show_trio(compared, "overlap", qtbot)
    a, b, difference = (view.charts.items[key] for key in TRIOS["overlap"])
    whole = visible_range(view, b.chart.key)
    a.field.setRange(xRange=(2, 8), yRange=(3, 9), padding=0)
    a.field.sigRangeChangedManually.emit(a.field.state["mouseEnabled"])
    for item in (b, difference):
        assert visible_range(view, item.chart.key) == visible_range(view, a.chart.key) != whole
        assert not item.following
    view.charts.items["active_1"].clicked.emit(b.box.center(), True)
    for item in (a, b, difference):
        assert visible_range(view, item.chart.key) == whole


def close(window: Window, qtbot: QtBot) -> None:
    window.context.send(CloseComparison())
    qtbot.waitUntil(lambda: window.run_state.comparison is None)


def button_of(window: Window, name: str) -> QToolButton:
    return window.run_views.banners[0].buttons[name]


def test_one_click_in_the_form_of_a_branch_shows_the_comparison_and_one_goes_back(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    window = make_viewer(home="home").window
    arrangement = window.docks.arrangement
    arrangement.arrange_preset("kernels")
    qtbot.wait(1)
    before = arrangement.current_layout()
    window.pages.open_differences()
    page = window.inspector.page
    assert isinstance(page, ComparePage)
    qtbot.waitUntil(page.start.isEnabled)
    QTest.mouseClick(page.start, LEFT)
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    assert arrangement.preset == "compare"
    assert window.inspector.page is None  # the maps need its room
    window.pages.open_differences()  # opened now, it stays
    window.resize(window.width(), window.height() - 10)
    assert window.inspector.page is not None
    window.inspector.close_page()
    window.resize(1440, 900)
    QTest.mouseClick(button_of(window, "view.side_by_side"), LEFT)
    qtbot.waitUntil(lambda: is_same(arrangement.current_layout(), before))
    assert arrangement.preset == "kernels"
    QTest.mouseClick(button_of(window, "view.side_by_side"), LEFT)
    assert arrangement.preset == "compare"
    QTest.mouseClick(button_of(window, "file.close_comparison"), LEFT)
    qtbot.waitUntil(lambda: window.run_state.comparison is None)
    qtbot.waitUntil(lambda: is_same(arrangement.current_layout(), before))
    assert arrangement.preset == "kernels"


def test_one_click_in_the_time_bar_compares_with_the_step_shown(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    cursor, button = window.time.cursor, window.time.bar.compare
    assert button.isHidden()
    qtbot.waitUntil(lambda: "gates" in window.history.readings)
    read = window.history.step
    qtbot.waitUntil(lambda: sum(step > read for step in cursor.steps) > 1)
    cursor.go_to(next(step for step in cursor.steps if step > read))  # it has the gates
    qtbot.waitUntil(lambda: button.isVisible() and button.isEnabled())
    QTest.mouseClick(button, LEFT, pos=QPoint(8, 8))
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    assert window.docks.arrangement.preset == "compare"
    assert cursor.step is None
    host = window.docks.hosts["gate_maps"]
    qtbot.waitUntil(lambda: "A step " in host.footer_text() and "B step " in host.footer_text())
    compared = window.history.view({}).compared
    assert compared is not None
    step = compared.readings["gates"].step
    assert f"B step {step:,}" in host.footer_text()
    close(window, qtbot)
    assert window.docks.arrangement.preset == "overview"
