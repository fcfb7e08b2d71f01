"""Screen readers and the keyboard: everything has a name, everything can be reached."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QWidget,
)
from pytestqt.qtbot import QtBot

from dgn_engine.scene.chart_words import charts_in_words
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix
from dgn_viewer.application import Viewer
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.layer_strip.gate_chip import GateChip
from dgn_viewer.plots import spoken_charts
from dgn_viewer.plots.spoken_charts import SpokenCharts
from dgn_viewer.window import Window


def test_chips_say_which_gate_lies_over_which_layer(viewer: Viewer) -> None:
    chips = viewer.window.run_views.strip.canvas.chips
    interface = QAccessible.queryAccessibleInterface(chips[1])
    assert interface.text(QAccessible.Text.Name) == "G2 over layer 2"


def held(window: Window) -> str:
    """The part of the window that has the focus."""
    widget = QApplication.focusWidget()
    while widget is not None:
        if isinstance(widget, PanelDock):
            return widget.panel_id
        if isinstance(widget, GateChip):
            return "strip"
        if widget is window.inspector:
            return "inspector"
        widget = widget.parentWidget()
    return ""


def test_the_keyboard_walks_through_strip_panels_and_inspector(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    window.inspector.show_run_settings()
    window.setFocus()
    wanted = ["strip", *window.docks.visible(), "inspector"]
    seen = []
    for _ in range(len(wanted) + 1):
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_F6)
        seen.append(held(window))
    assert seen == [*wanted, "strip"]
    QTest.keyClick(
        QApplication.focusWidget() or window, Qt.Key.Key_F6, Qt.KeyboardModifier.ShiftModifier
    )
    assert held(window) == "inspector"
    window.registry["view.next_part"].trigger()
    window.registry["view.next_part"].trigger()
    assert window.docks.front() == held(window) == wanted[1]  # what Ctrl+E and F1 act on


def test_a_chip_is_moved_with_the_keyboard_alone(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    window.activateWindow()
    window.registry["view.next_part"].trigger()
    chip = QApplication.focusWidget()
    assert isinstance(chip, GateChip)
    QTest.keyClick(chip, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    qtbot.waitUntil(lambda: window.run_state.wiring == (1, 0, 2))
    assert chip.accessibleName() == "G1 over layer 2"


def charts() -> tuple[Chart, ...]:
    steps = np.array([0, 617, 1234])
    curve = Curve("test", steps, np.array([11.0, 97.04, 96.0]))
    matrix = Matrix(
        "active",
        np.array([[1.0, 0.25], [0.25, np.nan]]),
        "sequential",
        0.0,
        1.0,
        row_name="example",
        column_name="example",
    )
    return (
        Chart("accuracy", "Accuracy, %", Axis(label="step"), Axis(), curves=(curve,)),
        Chart("active", "Active $Λ$", Axis(), Axis(), matrix=matrix),
        Chart("empty", "Loss", Axis(), Axis()),
        Chart("small", "G1", Axis(), Axis(), matrix=matrix, small=True),
    )


def test_a_chart_in_words_has_title_what_and_range() -> None:
    assert charts_in_words(charts()) == (
        "Accuracy, %: test over step 0 to 1,234, 11 to 97, 96 at the end. "
        "Active Λ: 2 examples by 2 examples, 0.25 to 1. "
        "Loss: no curve yet."
    )


def test_charts_are_put_into_words_once_a_second_and_only_for_a_listener(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, listening = [100.0], [False]
    monkeypatch.setattr(spoken_charts.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(spoken_charts.QAccessible, "isActive", lambda: listening[0])
    widget = QWidget()
    qtbot.addWidget(widget)
    spoken = SpokenCharts(widget)
    first, second = charts()[:1], charts()[1:2]
    spoken.show(first)
    assert widget.accessibleName() == "Charts"
    listening[0] = True
    spoken.show(first)
    assert widget.accessibleName().startswith("Accuracy")
    now[0] += 0.9
    spoken.show(second)
    assert widget.accessibleName().startswith("Accuracy")
    now[0] += 0.2
    spoken.show(second)
    assert widget.accessibleName().startswith("Active")
