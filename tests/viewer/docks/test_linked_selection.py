"""What is under the cursor: its card, outlined in every panel, pinned, moved by keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QComboBox, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.watching import ProbeExamples
from dgn_engine.scene.panel_spec import View, all_panels
from dgn_engine.scene.selection import NOTHING, make_selection
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.docks.linked_selection import LinkedSelection
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.plots.scene_view import SceneView
from tests.viewer.seen_charts import visible_range

Panels = dict[str, PanelDock]
DIGITS = np.random.default_rng(0).integers(0, 256, (20, 8, 8)).astype(np.uint8)


def with_pictures(view: View) -> View:
    assert view.run is not None
    known = view.run.probe_set
    return replace(view, pictures=ProbeExamples(known, DIGITS.shape, DIGITS.tobytes()))


@pytest.fixture
def panels(qtbot: QtBot, make_view: Callable[..., View]) -> Iterator[Panels]:
    """Four panels side by side, which share what is under the cursor."""
    linked, made = LinkedSelection(), {}
    for name in ("overlap", "gate_maps", "paths", "gate_statistics"):
        host = made[name] = PanelDock(name, all_panels()[name], LIGHT, linked=linked)
        host.resize(700, 420)
        qtbot.addWidget(host)
        host.show()
        qtbot.waitExposed(host)
        host.show_view(with_pictures(make_view("hard")))
    yield made
    linked.deleteLater()


def entry(scene: SceneView, key: str, row: int, column: int) -> QPointF:
    """The middle of an entry in the widget."""
    box = scene.charts.data_rect(key)
    (x0, x1), (y0, y1) = visible_range(scene, key)
    return QPointF(
        box.left() + (column - x0) / (x1 - x0) * box.width(),
        box.top() + (row - y0) / (y1 - y0) * box.height(),
    )


def move(scene: SceneView, place: QPointF) -> None:
    hover(scene.chart_viewport(), place)


def hover(widget: QWidget, place: QPointF) -> None:
    none, plain = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    there = widget.mapToGlobal(place)
    QApplication.sendEvent(
        widget, QMouseEvent(QEvent.Type.MouseMove, place, there, none, none, plain)
    )


def lit(qtbot: QtBot, scene: SceneView, expected: tuple[int, ...]) -> None:
    """The readout follows the mouse once a frame."""
    qtbot.waitUntil(lambda: scene.links.lit.examples == expected)


def click(scene: SceneView, place: QPointF) -> None:
    canvas, left = scene.chart_viewport(), Qt.MouseButton.LeftButton
    there = canvas.mapToGlobal(place)
    for kind, held in (
        (QEvent.Type.MouseButtonPress, left),
        (QEvent.Type.MouseButtonRelease, Qt.MouseButton.NoButton),
    ):
        event = QMouseEvent(kind, place, there, left, held, Qt.KeyboardModifier.NoModifier)
        QApplication.sendEvent(canvas, event)


def test_hovering_an_entry_lights_the_pair_in_every_panel_until_the_cursor_leaves(
    panels: Panels, qtbot: QtBot
) -> None:
    overlap, gates = (panels[name].charts.view for name in ("overlap", "gate_maps"))
    before = gates.grab_chart("large")
    move(overlap, entry(overlap, "active", 3, 14))
    lit(qtbot, overlap, (3, 14))
    lit(qtbot, gates, (3, 14))
    assert overlap.pointer.readout_lines()[0].startswith("Active")
    assert gates.grab_chart("large") != before
    move(overlap, QPointF(2, 2))
    lit(qtbot, gates, ())
    assert gates.grab_chart("large") == before
    move(gates, entry(gates, "large", 5, 2))
    lit(qtbot, overlap, (5,))


def test_a_click_pins_the_pair_and_a_second_one_or_escape_or_elsewhere_lets_it_go(
    panels: Panels, qtbot: QtBot
) -> None:
    overlap, gates = (panels[name].charts.view for name in ("overlap", "gate_maps"))
    place = entry(overlap, "active", 3, 14)
    for let_go in (
        lambda: click(overlap, place),
        lambda: qtbot.keyClick(panels["gate_maps"], Qt.Key.Key_Escape),
        lambda: click(gates, QPointF(3, gates.height() - 3)),
    ):
        move(overlap, place)
        click(overlap, place)
        move(overlap, entry(overlap, "active", 8, 9))
        move(gates, entry(gates, "large", 5, 2))
        lit(qtbot, gates, (3, 14))
        let_go()
        move(gates, entry(gates, "large", 6, 2))
        lit(qtbot, gates, (6,))
    move(overlap, place)
    click(overlap, place)
    panels["overlap"].show_view(replace(panels["overlap"].drawn.view, pictures=None))
    lit(qtbot, gates, ())  # other examples may be in these places now


def test_a_panel_that_is_opened_later_shows_the_pin_and_keeps_it(
    qtbot: QtBot, make_view: Callable[..., View]
) -> None:
    linked, made = LinkedSelection(), {}
    first, view = (with_pictures(make_view("hard")) for _ in range(2))
    for name in ("overlap", "gate_maps", "paths"):
        host = made[name] = PanelDock(name, all_panels()[name], LIGHT, linked=linked)
        host.resize(700, 420)
        qtbot.addWidget(host)
    made["gate_maps"].show_view(first)  # hidden since the run before
    made["overlap"].show_view(view)
    pinned = make_selection(example=(3, 14))
    made["overlap"].charts.view.links.pinned.emit(pinned)
    for name in ("gate_maps", "paths"):
        made[name].show_view(view)
        assert linked.pinned == pinned
        assert made[name].charts.view.links.lit == pinned
    made["overlap"].show_view(first)
    assert linked.pinned == NOTHING
    linked.deleteLater()


def test_outlines_move_with_the_charts_when_their_panel_is_resized(panels: Panels) -> None:
    for name in ("overlap", "gate_maps"):
        scene = panels[name].charts.view
        scene.links.outline_selection(make_selection(example=(3,)))
        scene.pointer.update_readout()
        panels[name].resize(400, 300)
        resized = scene.grab().toImage()
        scene.pointer.update_readout()
        assert resized == scene.grab().toImage()


def test_the_keyboard_moves_the_cursor_by_entries_and_tells_a_screen_reader(
    panels: Panels, qtbot: QtBot
) -> None:
    host = panels["overlap"]
    qtbot.keyClick(host, Qt.Key.Key_Down)  # it begins at the first entry
    qtbot.keyClick(host, Qt.Key.Key_Down)
    for _ in range(3):
        qtbot.keyClick(host, Qt.Key.Key_Right)
    scene = host.charts.view
    lit(qtbot, scene, (1, 3))
    spoken = scene.accessibleDescription()
    assert spoken.startswith("example 1, class 0: ")  # followed by what the network answers
    assert " and example 3, class 1: " in spoken
    qtbot.keyClick(host, Qt.Key.Key_Up)
    qtbot.keyClick(host, Qt.Key.Key_Up)  # there is no row above the first
    lit(qtbot, scene, (0, 3))
    qtbot.keyClick(host, Qt.Key.Key_Return)
    qtbot.keyClick(host, Qt.Key.Key_Down)
    lit(qtbot, panels["gate_maps"].charts.view, (0, 3))
    qtbot.keyClick(host, Qt.Key.Key_Escape)
    lit(qtbot, scene, (1, 3))


def test_the_card_is_painted_in_both_themes_and_in_little_room(
    panels: Panels, qtbot: QtBot
) -> None:
    host = panels["overlap"]
    scene = host.charts.view
    for theme, size in ((LIGHT, (700, 420)), (DARK, (700, 420)), (DARK, (240, 150))):
        host.set_theme(theme)
        host.resize(*size)
        plain = host.grab().toImage()
        key = scene.charts.shown_keys()[0]
        move(scene, entry(scene, key, 3, 14))
        lit(qtbot, scene, (3, 14))
        assert host.grab().toImage() != plain
        move(scene, QPointF(1, 1))
        lit(qtbot, scene, ())


def test_a_layer_and_a_unit_are_lit_in_every_panel_and_pinned_by_a_click(
    panels: Panels, qtbot: QtBot
) -> None:
    gates, graph = panels["gate_maps"].charts.view, panels["paths"].charts.view
    before = graph.grab_chart("units")
    move(gates, entry(gates, "large", 3, 5))
    everything = make_selection(example=3, layer=0, unit=5)
    qtbot.waitUntil(lambda: graph.links.lit == everything)
    assert graph.grab_chart("units") != before
    statistics = panels["gate_statistics"].charts.view
    lit_layer = {}
    for key in ("by_layer", "over_steps"):  # a place of an axis, a curve
        statistics.charts.choose_chart(key)
        lit_layer[key] = statistics.grab_chart(key)
    move(gates, QPointF(1, 1))
    qtbot.waitUntil(lambda: graph.links.lit == NOTHING)
    for key, seen in lit_layer.items():
        statistics.charts.choose_chart(key)
        assert statistics.grab_chart(key) != seen
    move(graph, entry(graph, "units", 2, 7))  # of layer 3
    click(graph, entry(graph, "units", 2, 7))
    assert graph.pointer.readout_lines()[-1].startswith("pinned")
    move(gates, entry(gates, "large", 4, 1))
    qtbot.waitUntil(lambda: graph.links.lit == make_selection(example=4, layer=2, unit=7))
    assert panels["gate_maps"].drawn.view.choices["layer"] == "2"  # it follows
    qtbot.keyClick(panels["overlap"], Qt.Key.Key_Escape)
    assert "layer" not in panels["gate_maps"].drawn.view.choices
    row = gates.charts.thumbnails
    hover(row, row.picture_rect("overview_1").center())
    qtbot.waitUntil(lambda: graph.links.lit.ids_of_kind("layer") == (1,))


def test_a_panel_that_joins_later_is_lit_at_once(qtbot: QtBot) -> None:
    linked, view = LinkedSelection(), SceneView(LIGHT)
    qtbot.addWidget(view)
    linked.outline_examples((3,))
    linked.link_view(view)
    assert view.links.lit.examples == (3,)


def test_the_paths_of_the_pair_that_is_pinned_are_shown_unless_another_is_chosen_by_hand(
    panels: Panels,
) -> None:
    overlap, paths = panels["overlap"].charts.view, panels["paths"]
    paths.set_choice("example", "7")

    def asked() -> tuple[object, object]:
        options = dict(paths.drawn.probe_requests()[0].options)
        return options["example"], options["second"]

    changed: list[object] = []
    paths.choices_changed.connect(lambda: changed.append(asked()))
    assert asked() == (7, "none")
    click(overlap, entry(overlap, "active", 3, 14))
    assert asked() == (3, 14)
    assert paths.findChild(QComboBox, "second").currentData() == "14"
    paths.set_choice("second", "5")
    assert asked() == (3, 5)
    click(overlap, entry(overlap, "active", 4, 9))
    assert asked() == (4, 9)
    click(overlap, entry(overlap, "active", 4, 9))  # lets go
    assert asked() == (7, 5)
    assert changed == [(3, 14), (3, 5), (4, 9), (7, 5)]
    assert paths.drawn.choices == {"example": "7", "second": "5"}  # what a layout keeps
