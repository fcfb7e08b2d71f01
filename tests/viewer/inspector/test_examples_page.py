"""The page of the probe examples: what is clicked and drawn is sent, what the engine says shown."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.probe_choice import ProbeChoice, packed
from dgn_engine.protocol.watching import ProbeExamples
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.examples_page import ExamplesPage
from dgn_viewer.widgets.drawing_canvas import DrawingCanvas
from dgn_viewer.widgets.example_grid import ExampleGrid
from tests.engine.panels.pictures import run

LEFT, RIGHT = Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton


def stroke(canvas: DrawingCanvas, *places: tuple[float, float], button: Qt.MouseButton) -> None:
    """From place to place, in shares of the canvas."""
    none, plain = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    points = [QPointF(x * canvas.width(), y * canvas.height()) for x, y in places]
    steps = [(QEvent.Type.MouseButtonPress, points[0], button, button)]
    steps += [(QEvent.Type.MouseMove, point, none, button) for point in points[1:]]
    steps += [(QEvent.Type.MouseButtonRelease, points[-1], button, none)]
    for kind, point, which, held in steps:
        there = canvas.mapToGlobal(point)
        QApplication.sendEvent(canvas, QMouseEvent(kind, point, there, which, held, plain))


@pytest.fixture
def canvas(qtbot: QtBot) -> DrawingCanvas:
    made = DrawingCanvas(8, 8)
    qtbot.addWidget(made)
    made.show()
    return made


def test_a_stroke_draws_where_the_mouse_was_and_the_right_button_erases(
    canvas: DrawingCanvas, qtbot: QtBot
) -> None:
    with qtbot.waitSignal(canvas.drawn):
        stroke(canvas, (0.06, 0.56), (0.94, 0.56), button=LEFT)
    drawn = canvas.pixels()
    assert (drawn[4] == 255).all()  # the middle of the fifth row lies at 0.5625
    assert not drawn[0].any()
    assert not drawn[7].any()
    stroke(canvas, (0.06, 0.56), (0.5, 0.56), button=RIGHT)
    assert not canvas.pixels()[4, :4].any()
    assert canvas.pixels()[4, 6] == 255


def test_the_keyboard_draws_pixel_by_pixel(canvas: DrawingCanvas, qtbot: QtBot) -> None:
    qtbot.keyClick(canvas, Qt.Key.Key_Up)
    qtbot.keyClick(canvas, Qt.Key.Key_Left)
    with qtbot.waitSignal(canvas.drawn):
        qtbot.keyClick(canvas, Qt.Key.Key_Space)
    assert np.argwhere(canvas.pixels()).tolist() == [[3, 3]]
    assert "row 4, column 4" in canvas.accessibleName()
    qtbot.keyClick(canvas, Qt.Key.Key_Delete)
    assert not canvas.pixels().any()


def test_pictures_are_chosen_by_a_click_and_by_keys(qtbot: QtBot) -> None:
    grid = ExampleGrid()
    qtbot.addWidget(grid)
    pixels = np.zeros((5, 2, 2), np.uint8)
    grid.show_examples(ProbeExamples(run((4,)).probe_set, pixels.shape, pixels.tobytes()))
    grid.show()
    toggled: list[int] = []
    grid.toggled.connect(toggled.append)
    qtbot.mouseClick(grid, LEFT, pos=grid.place_of(1).center().toPoint())
    qtbot.mouseClick(grid, LEFT, pos=QPoint(0, 0))  # between two
    grid.choose(frozenset({8}))
    assert grid.accessibleName() == "no. 8 of the training data, class cat, chosen"
    qtbot.keyClick(grid, Qt.Key.Key_Right)
    qtbot.keyClick(grid, Qt.Key.Key_Space)
    assert toggled == [8, 0]
    assert not grid.grab().isNull()


def test_what_is_chosen_in_the_window_is_what_the_panels_show(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window

    def shown() -> ProbeExamples:
        found = window.history.view({}).pictures
        assert found is not None
        return found

    qtbot.waitUntil(lambda: window.history.view({}).pictures is not None)
    before = shown().probe_set
    window.registry["edit.examples"].trigger()
    page = window.inspector.page
    assert isinstance(page, ExamplesPage)
    assert page.words.text().startswith("20 examples: balanced over the classes.")

    page.classes["3"].click()
    qtbot.waitUntil(lambda: window.run_state.probe_set == "classes 3")
    qtbot.waitUntil(lambda: set(shown().probe_set.labels) == {3})
    assert page.classes["3"].isChecked()

    assert page.canvas is not None
    stroke(page.canvas, (0.5, 0.1), (0.5, 0.9), button=LEFT)
    drawn = packed(page.canvas.pixels()[None])
    qtbot.waitUntil(lambda: window.run_state.probe_set == f"classes 3; drawn {drawn}")
    qtbot.waitUntil(lambda: shown().probe_set.drawn == 1)
    last = len(shown().probe_set.indices) - 1
    qtbot.waitUntil(lambda: window.docks.linked.lit.examples == (last,))
    images = shown().images
    assert images is not None
    np.testing.assert_array_equal(images[-1], page.canvas.pixels())

    def in_the_maps() -> bool:
        view = window.docks.hosts["gate_maps"].drawn.view
        reading = view.readings.get("gates")
        return reading is not None and int(reading.arrays["labels"][-1]) == 10

    qtbot.waitUntil(in_the_maps)

    qtbot.waitUntil(lambda: page.place.text().startswith("1 to 30"))
    page.grid.toggled.emit(0)  # the first training example, in or out
    qtbot.waitUntil(lambda: bool(ProbeChoice.parse(window.run_state.probe_set).rows))
    page.clear.click()
    qtbot.waitUntil(lambda: not ProbeChoice.parse(window.run_state.probe_set).drawn)
    again = next(b for b in page.findChildren(type(page.clear)) if b.text() == "Balanced set")
    again.click()
    qtbot.waitUntil(lambda: shown().probe_set == before)
