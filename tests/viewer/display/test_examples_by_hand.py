"""What lies under a real mouse: pictures of two examples, layers and units, in all panels."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF
from pytestqt.qtbot import QtBot

from dgn_engine.scene.elements import Scene
from dgn_engine.scene.linked_places import selection_boxes
from dgn_engine.scene.selection import NOTHING, make_selection
from dgn_viewer.application import Viewer
from dgn_viewer.plots.scene_view import SceneView
from tests.viewer.display.x_user import XUser
from tests.viewer.seen_charts import visible_range

pytestmark = pytest.mark.display


def entry(scene: SceneView, key: str, row: float, column: float) -> QPoint:
    """The middle of an entry on the screen."""
    box, ((x0, x1), (y0, y1)) = scene.charts.data_rect(key), visible_range(scene, key)
    across, down = (column - x0) / (x1 - x0), (row - y0) / (y1 - y0)
    place = QPointF(box.left() + across * box.width(), box.top() + down * box.height())
    return scene.mapToGlobal(place.toPoint())


def standing_still(viewer: Viewer, qtbot: QtBot, **charts: str) -> dict[str, SceneView]:
    """The run pauses, with these charts of these panels and pictures of examples on show."""
    window = viewer.window
    qtbot.waitUntil(lambda: window.history.view({}).pictures is not None)
    qtbot.waitUntil(lambda: "gates" in window.history.readings)
    window.registry["run.toggle"].trigger()
    qtbot.waitUntil(lambda: not window.run_state.is_running)
    scenes = {name: window.docks.hosts[name].charts.view for name in charts}
    qtbot.waitUntil(
        lambda: all(charts[name] in scenes[name].charts.shown_keys() for name in charts)
    )
    qtbot.waitUntil(lambda: not window.display.stale_panels())
    return scenes


def test_hovering_an_entry_of_a_kernel_shows_both_examples(
    on_display: Viewer, user: XUser, qtbot: QtBot
) -> None:
    window = on_display.window
    kernels = {"overlap", "npk", "ntk"}
    qtbot.waitUntil(lambda: kernels <= window.history.readings.keys())
    scenes = standing_still(on_display, qtbot, overlap="active", gate_maps="large")
    linked, scene, gates = window.docks.linked, scenes["overlap"], scenes["gate_maps"]
    plain = gates.grab_chart("large")
    user.move(entry(scene, "active", 3, 14))  # not on the diagonal, where both are one
    qtbot.waitUntil(lambda: linked.lit == make_selection(example=(3, 14)))
    view = window.docks.hosts["overlap"].drawn.view
    pictures = view.pictures
    assert pictures is not None
    assert pictures.images is not None
    told = scene.links.shown_examples
    assert told is not None
    for example, place in zip(told.examples, (3, 14), strict=True):
        assert example.place == place
        np.testing.assert_array_equal(example.image, pictures.images[place])
    layer = view.readings["gates"].arrays["layer_0"]
    rows = told.gates[0].rows
    np.testing.assert_array_equal(rows, layer[[3, 14]])
    np.testing.assert_array_equal(told.gates[0].agree, (rows[0] >= 0.5) == (rows[1] >= 0.5))
    counts = view.readings["overlap"].arrays
    assert any(line.startswith("Shared active paths") for line in told.lines) == ("paths" in counts)
    assert gates.grab_chart("large") != plain  # the same two rows
    user.click(
        scene.chart_viewport(), scene.chart_viewport().mapFromGlobal(entry(scene, "active", 3, 14))
    )
    qtbot.waitUntil(lambda: linked.pinned == make_selection(example=(3, 14)))
    user.move(entry(scene, "active", 9, 2))
    user.key("Escape")
    qtbot.waitUntil(lambda: linked.pinned == NOTHING)
    qtbot.waitUntil(lambda: linked.lit == make_selection(example=(9, 2)))
    window.docks.hosts["spectrum"].set_choice("show", "kernel")
    for panel, key, pair in (
        ("overlap", "sensitive", (5, 12)),
        ("spectrum", "kernel", (17, 6)),
        ("ntk", "value", (2, 11)),
    ):
        kernel = window.docks.hosts[panel].charts.view
        kernel.charts.choose_chart(key)
        qtbot.waitUntil(lambda kernel=kernel, key=key: key in kernel.charts.shown_keys())  # type: ignore[misc]  # bound
        user.move(entry(kernel, key, *pair))
        lit = make_selection(example=pair)
        qtbot.waitUntil(lambda lit=lit: linked.lit == lit)  # type: ignore[misc]  # bound
        told = kernel.links.shown_examples
        assert told is not None
        for example, place in zip(told.examples, pair, strict=True):
            np.testing.assert_array_equal(example.image, pictures.images[place])
        assert gates.grab_chart("large") != plain
        others = [h.shown_content() for name, h in window.docks.hosts.items() if name in scenes]
        found = [
            selection_boxes(c, lit) for one in others if isinstance(one, Scene) for c in one.charts
        ]
        assert sum(map(bool, found)) >= 3  # rows of the gate maps, entries of Λ and of S
    lit_by_k = scene.grab_chart("sensitive")  # S, which is beside the cursor in K
    user.move(QPoint(5, 5))
    qtbot.waitUntil(lambda: linked.lit == NOTHING)
    assert scene.grab_chart("sensitive") != lit_by_k


def test_a_gate_under_the_mouse_is_lit_in_the_panels_of_layers(
    on_display: Viewer, user: XUser, qtbot: QtBot
) -> None:
    window = on_display.window
    window.docks.show_panel("gate_statistics")
    window.docks.show_panel("gate_maps")
    scenes = standing_still(on_display, qtbot, gate_maps="large", gate_statistics="by_layer")
    linked, scene, layers = window.docks.linked, scenes["gate_maps"], scenes["gate_statistics"]
    plain = layers.grab_chart("by_layer")
    place = entry(scene, "large", 4, 7)
    user.move(place)
    qtbot.waitUntil(lambda: linked.lit == make_selection(example=4, layer=0, unit=7))
    assert layers.grab_chart("by_layer") != plain
    user.click(scene.chart_viewport(), scene.chart_viewport().mapFromGlobal(place))
    qtbot.waitUntil(lambda: linked.pinned == make_selection(example=4, layer=0, unit=7))
    user.key("Escape")
    qtbot.waitUntil(lambda: linked.pinned == NOTHING)
    user.move(
        layers.mapToGlobal(layers.charts.data_rect("by_layer").center().toPoint())
    )  # of three layers
    qtbot.waitUntil(lambda: linked.lit == make_selection(layer=1))
    user.move(QPoint(5, 5))
    qtbot.waitUntil(lambda: linked.lit == NOTHING)
