"""Gates turned by hand in the layers strip: wheel, keys and the menu of a chip."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.messages import Command, Refused
from dgn_engine.protocol.training import LayerInfo, RegimeSwapped, Rewire, Rewired, Rotate
from dgn_viewer.layer_strip.rotation_menu import RotationMenu
from dgn_viewer.layer_strip.strip_widget import LayersStrip
from tests.engine.views.begun_run import started
from tests.viewer.layer_strip.strips import shown, tell

CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
MAPS = tuple(LayerInfo(i, f"conv {i + 1}", "conv", (8, 16, 16)) for i in range(2))


@pytest.fixture
def strip(qtbot: QtBot, sent: list[Command]) -> LayersStrip:
    return shown(qtbot, sent, started())


def wheel(strip: LayersStrip, feature: int, notches: int, held: Qt.KeyboardModifier) -> None:
    chip = strip.canvas.chips[feature]
    at = QPointF(chip.rect().center())
    way, none = QPoint(0, 120 * notches), Qt.MouseButton.NoButton
    event = QWheelEvent(
        at,
        chip.mapToGlobal(at),
        QPoint(),
        way,
        none,
        held,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(chip, event)


def menu_of(strip: LayersStrip, feature: int) -> RotationMenu:
    chip = strip.canvas.chips[feature]
    at = chip.rect().center()
    reason = QContextMenuEvent.Reason.Mouse
    QApplication.sendEvent(chip, QContextMenuEvent(reason, at, chip.mapToGlobal(at)))
    return strip.menu


def test_the_wheel_with_ctrl_turns_a_gate_layer_by_one_unit(
    strip: LayersStrip, sent: list[Command]
) -> None:
    wheel(strip, 1, 1, CTRL)
    assert sent == [Rotate((0, 1, 0, 0))]
    wheel(strip, 1, 1, CTRL)  # before the answer
    assert sent[-1] == Rotate((0, 2, 0, 0))
    wheel(strip, 1, -1, CTRL | SHIFT)
    assert sent[-1] == Rotate((0, -8, 0, 0))


def test_a_wheel_that_passes_by_turns_nothing(strip: LayersStrip, sent: list[Command]) -> None:
    wheel(strip, 1, 1, Qt.KeyboardModifier.NoModifier)
    assert sent == []


def test_keys_turn_the_gates_of_the_chip_with_the_focus(
    strip: LayersStrip, sent: list[Command]
) -> None:
    QTest.keyClick(strip.canvas.chips[2], Qt.Key.Key_Up, CTRL)
    QTest.keyClick(strip.canvas.chips[0], Qt.Key.Key_Down, CTRL)
    assert sent == [Rotate((0, 0, 1, 0)), Rotate((-1, 0, 1, 0))]


def test_a_turn_is_shown_on_its_chip_and_in_words(strip: LayersStrip) -> None:
    tell(strip, Rewired(7, (0, 1, 2, 3), (0, 3, 0, -2)))
    assert "Turned ↻3." in strip.canvas.chips[1].toolTip()
    assert strip.sentence == "Turned: G2\N{NO-BREAK SPACE}↻3, G4\N{NO-BREAK SPACE}↺2"
    assert strip.reset.isVisible()


def test_a_turn_stays_with_its_gate_layer_when_the_order_changes(
    strip: LayersStrip, sent: list[Command]
) -> None:
    tell(strip, Rewired(7, (1, 0, 2, 3), (3, 0, 0, 0)))
    assert ": 2 1 3 4. " in strip.sentence
    assert strip.sentence.endswith(": G2\N{NO-BREAK SPACE}↻3")
    wheel(strip, 1, 1, CTRL)
    assert sent == [Rotate((4, 0, 0, 0))]  # by value layer: G2 serves the first


def test_more_than_half_a_turn_is_told_as_less_the_other_way(
    strip: LayersStrip, sent: list[Command]
) -> None:
    tell(strip, Rewired(1, (0, 1, 2, 3), (32, 0, 0, 0)))
    wheel(strip, 0, 1, CTRL)
    assert sent == [Rotate((-31, 0, 0, 0))]


def test_a_refusal_puts_the_turn_back(strip: LayersStrip) -> None:
    wheel(strip, 1, 1, CTRL)
    assert "↻1" in strip.canvas.chips[1].toolTip()
    tell(strip, Refused("rotate the gates", "No."))
    assert "↻" not in strip.canvas.chips[1].toolTip()


def test_the_menu_of_a_chip_turns_it(strip: LayersStrip, sent: list[Command]) -> None:
    menu = menu_of(strip, 1)
    assert menu.isVisible()
    assert not menu.shift.isVisible()  # a dense layer is no map
    menu.rotation.setValue(5)
    assert sent == [Rotate((0, 5, 0, 0))]
    tell(strip, Rewired(1, (0, 1, 2, 3), (0, 5, 0, 0)))
    assert menu.back.isEnabled()
    menu.back.trigger()
    assert sent[-1] == Rotate((0, 0, 0, 0))
    menu.close()


def test_a_map_can_be_shifted_in_space_as_well(qtbot: QtBot, sent: list[Command]) -> None:
    strip = shown(qtbot, sent, started(MAPS))
    menu = menu_of(strip, 0)
    menu.shift.setValue(-2)
    assert sent == [Rotate((0, 0), (-2, 0))]
    tell(strip, Rewired(1, (0, 1), (), (-2, 0)))
    assert strip.sentence == "Turned: G1\N{NO-BREAK SPACE}↖2"
    menu.close()


def test_home_puts_order_and_turns_back(strip: LayersStrip, sent: list[Command]) -> None:
    tell(strip, Rewired(1, (1, 0, 2, 3), (3, 0, 0, 0)))
    QTest.keyClick(strip.canvas.chips[1], Qt.Key.Key_Home)
    assert sent == [Rewire((0, 1, 2, 3)), Rotate((0, 0, 0, 0))]


def test_a_run_that_begins_turned_is_shown_so(strip: LayersStrip) -> None:
    tell(strip, replace(started(), rotation=(0, 0, 2, 0)))
    assert strip.sentence == "Turned: G3\N{NO-BREAK SPACE}↻2"


def test_a_network_with_its_own_gates_turns_nothing(
    strip: LayersStrip, sent: list[Command]
) -> None:
    tell(strip, RegimeSwapped(1, "DL", "ReLU", (), (), (), ()))
    wheel(strip, 1, 1, CTRL)
    chip = strip.canvas.chips[1]
    at = QPoint(5, 5)
    reason = QContextMenuEvent.Reason.Mouse
    QApplication.sendEvent(chip, QContextMenuEvent(reason, at, chip.mapToGlobal(at)))
    assert sent == []
    assert strip.findChild(RotationMenu) is None
