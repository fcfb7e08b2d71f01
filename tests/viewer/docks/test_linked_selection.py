"""The examples under the cursor: their card, outlined in every panel, pinned, moved by keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.probe_examples import ProbeExamples
from dgn_viewer.docks.linked_selection import LinkedSelection
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.plots.scene_view import SceneView
from dgn_viewer.scene.panel_spec import View, all_panels
from dgn_viewer.style.theme import DARK, LIGHT

Panels = dict[str, PanelDock]
DIGITS = np.random.default_rng(0).integers(0, 256, (20, 8, 8)).astype(np.uint8)


def with_pictures(view: View) -> View:
    assert view.run is not None
    known = view.run.probe_set
    return replace(view, pictures=ProbeExamples(known, DIGITS.shape, DIGITS.tobytes()))


@pytest.fixture
def panels(qtbot: QtBot, make_view: Callable[..., View]) -> Iterator[Panels]:
    """Overlap and gate maps side by side, which share what is under the cursor."""
    linked, made = LinkedSelection(), {}
    for name in ("overlap", "gate_maps"):
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
    box = scene.area(key)
    (x0, x1), (y0, y1) = scene.visible_range(key)
    return QPointF(
        box.left() + (column - x0) / (x1 - x0) * box.width(),
        box.top() + (row - y0) / (y1 - y0) * box.height(),
    )


def move(scene: SceneView, place: QPointF) -> None:
    canvas, none = scene.canvas(), Qt.MouseButton.NoButton
    there = canvas.mapToGlobal(place)
    plain = Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(
        canvas, QMouseEvent(QEvent.Type.MouseMove, place, there, none, none, plain)
    )


def lit(qtbot: QtBot, scene: SceneView, expected: tuple[int, ...]) -> None:
    """The readout follows the mouse once a frame."""
    qtbot.waitUntil(lambda: scene.links.lit.examples == expected)


def click(scene: SceneView, place: QPointF) -> None:
    canvas, left = scene.canvas(), Qt.MouseButton.LeftButton
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
    overlap, gates = (panels[name].scene_view() for name in ("overlap", "gate_maps"))
    before = gates.picture("large")
    move(overlap, entry(overlap, "active", 3, 14))
    lit(qtbot, overlap, (3, 14))
    lit(qtbot, gates, (3, 14))
    assert overlap.readout()[0].startswith("Active")
    assert gates.picture("large") != before
    move(overlap, QPointF(2, 2))
    lit(qtbot, gates, ())
    assert gates.picture("large") == before
    move(gates, entry(gates, "large", 5, 2))
    lit(qtbot, overlap, (5,))


def test_a_click_pins_the_pair_and_a_second_one_or_escape_or_elsewhere_lets_it_go(
    panels: Panels, qtbot: QtBot
) -> None:
    overlap, gates = (panels[name].scene_view() for name in ("overlap", "gate_maps"))
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
    panels["overlap"].show_view(replace(panels["overlap"].view(), pictures=None))
    lit(qtbot, gates, ())  # other examples may be in these places now


def test_the_keyboard_moves_the_cursor_by_entries_and_tells_a_screen_reader(
    panels: Panels, qtbot: QtBot
) -> None:
    host = panels["overlap"]
    qtbot.keyClick(host, Qt.Key.Key_Down)  # it begins at the first entry
    qtbot.keyClick(host, Qt.Key.Key_Down)
    for _ in range(3):
        qtbot.keyClick(host, Qt.Key.Key_Right)
    scene = host.scene_view()
    lit(qtbot, scene, (1, 3))
    assert scene.accessibleDescription().startswith("example 1, class 0 and example 3, class 1. ")
    qtbot.keyClick(host, Qt.Key.Key_Up)
    qtbot.keyClick(host, Qt.Key.Key_Up)  # there is no row above the first
    lit(qtbot, scene, (0, 3))
    qtbot.keyClick(host, Qt.Key.Key_Return)
    qtbot.keyClick(host, Qt.Key.Key_Down)
    lit(qtbot, panels["gate_maps"].scene_view(), (0, 3))
    qtbot.keyClick(host, Qt.Key.Key_Escape)
    lit(qtbot, scene, (1, 3))


def test_the_card_is_painted_in_both_themes_and_in_little_room(
    panels: Panels, qtbot: QtBot
) -> None:
    host = panels["overlap"]
    scene = host.scene_view()
    for theme, size in ((LIGHT, (700, 420)), (DARK, (700, 420)), (DARK, (240, 150))):
        host.set_theme(theme)
        host.resize(*size)
        plain = host.grab().toImage()
        key = scene.shown_charts()[0]
        move(scene, entry(scene, key, 3, 14))
        lit(qtbot, scene, (3, 14))
        assert host.grab().toImage() != plain
        move(scene, QPointF(1, 1))
        lit(qtbot, scene, ())


def test_pictures_stand_beside_the_rows_where_they_are_images(
    panels: Panels, make_view: Callable[..., View]
) -> None:
    scene = panels["gate_maps"].scene_view()
    left = scene.area("large").left()
    panels["gate_maps"].show_view(make_view("hard"))
    scene.resize(690, 400)
    assert scene.area("large").left() <= left
