"""The layer strip under real mouse and key events: what it asks for and what it shows."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.messages import Command, Refused
from dgn_engine.protocol.training import LayerInfo, RegimeSwapped, Rewire, Rewired, Rotate
from dgn_engine.scene.selection import NOTHING, make_selection
from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.layer_strip.gate_chip import chip_fill
from dgn_viewer.layer_strip.painting import gate_colour
from dgn_viewer.layer_strip.rotation_menu import RotationMenu
from dgn_viewer.layer_strip.strip_widget import LayersStrip
from dgn_viewer.style.stylesheet import contrast_ratio
from tests.engine.views.begun_run import DENSE, make_run_started
from tests.viewer.layer_strip.strips import send_event, show_strip

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
MIXED = (
    LayerInfo(0, "conv 1", "conv", (64, 32, 32)),
    LayerInfo(1, "conv 2", "conv", (64, 32, 32)),
    LayerInfo(2, "conv 3", "conv", (128, 16, 16)),
)


Strip = Callable[..., LayersStrip]


@pytest.fixture
def strip(qtbot: QtBot, sent: list[Command]) -> Strip:
    def make(layers: tuple[LayerInfo, ...] = DENSE, regime: str = "DL") -> LayersStrip:
        return show_strip(qtbot, sent, make_run_started(layers, regime))

    return make


def carry(strip: LayersStrip, feature: int, column: int, *, let_go: bool = True) -> None:
    """Press a chip, move it in steps over a value layer's slot, let go."""
    chip = strip.canvas.chips[feature]
    QTest.mousePress(chip, LEFT, NONE, chip.rect().center())
    goal = (strip.canvas.slot_centre(column) + QPointF(3, 2)).toPoint()
    for share in (0.2, 0.6, 1.0):
        here = chip.rect().center()
        way = chip.mapFrom(strip.canvas, goal) - here
        QTest.mouseMove(chip, here + way * share)
    if let_go:
        QTest.mouseRelease(chip, LEFT, NONE, chip.rect().center())


def test_dragging_a_chip_onto_another_layer_asks_to_exchange_the_two(
    strip: Strip, sent: list[Command]
) -> None:
    carry(strip(), 2, 0)
    assert sent == [Rewire((2, 1, 0, 3))]


def test_a_drag_is_previewed_before_it_is_dropped(strip: Strip, sent: list[Command]) -> None:
    widget = strip()
    before = widget.canvas.chips[0].x()
    carry(widget, 2, 0, let_go=False)
    assert widget.canvas.shown_order == (2, 1, 0, 3)
    assert widget.canvas.chips[0].x() > before
    assert sent == []


def test_escape_puts_the_chip_back(strip: Strip, sent: list[Command]) -> None:
    widget = strip()
    chip = widget.canvas.chips[2]
    before = chip.geometry()
    carry(widget, 2, 0, let_go=False)
    QTest.keyClick(chip, Qt.Key.Key_Escape)
    QTest.mouseRelease(chip, LEFT, NONE, chip.rect().center())
    assert sent == []
    assert chip.geometry() == before


def test_a_chip_let_go_beside_the_slots_goes_back(strip: Strip, sent: list[Command]) -> None:
    widget = strip()
    chip = widget.canvas.chips[1]
    before = chip.geometry()
    QTest.mousePress(chip, LEFT, NONE, chip.rect().center())
    QTest.mouseMove(chip, chip.rect().center() + chip.mapFromParent(QPointF(20, 5)).toPoint())
    QTest.mouseRelease(chip, LEFT, NONE, chip.mapFromParent(QPointF(20, 5)).toPoint())
    QTest.mouseClick(widget.canvas.chips[0], LEFT)  # without a move
    assert sent == []
    assert chip.geometry() == before


def test_an_illegal_slot_says_why_and_asks_for_nothing(strip: Strip, sent: list[Command]) -> None:
    widget = strip(MIXED)
    carry(widget, 2, 1, let_go=False)
    assert widget.canvas.reason == "G3 has 128 channels of 16×16, layer 2 needs 64 of 32×32"
    chip = widget.canvas.chips[2]
    QTest.mouseRelease(chip, LEFT, NONE, chip.rect().center())
    assert sent == []
    assert widget.canvas.reason == ""
    assert widget.canvas.shown_order == (0, 1, 2)


def test_the_engine_speaks_last(strip: Strip) -> None:
    widget = strip()
    carry(widget, 2, 0)
    assert widget.canvas.shown_order == (2, 1, 0, 3)  # asked for
    send_event(widget, Refused("new order", "No."))
    assert widget.canvas.shown_order == (0, 1, 2, 3)
    send_event(widget, Rewired(7, (3, 1, 2, 0)))
    assert widget.canvas.shown_order == (3, 1, 2, 0)


@pytest.mark.parametrize(
    "modifier", [Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier]
)
def test_the_keyboard_moves_a_chip(
    strip: Strip, sent: list[Command], modifier: Qt.KeyboardModifier
) -> None:
    widget = strip()
    QTest.keyClick(widget.canvas.chips[0], Qt.Key.Key_Left, modifier)  # it is at the end
    assert sent == []
    QTest.keyClick(widget.canvas.chips[1], Qt.Key.Key_Right, modifier)
    assert sent == [Rewire((0, 2, 1, 3))]
    QTest.keyClick(widget.canvas.chips[1], Qt.Key.Key_Right, modifier)  # before the answer
    assert sent[-1] == Rewire((0, 2, 3, 1))


def test_an_illegal_key_says_why(strip: Strip, sent: list[Command]) -> None:
    widget = strip(MIXED)
    QTest.keyClick(widget.canvas.chips[1], Qt.Key.Key_Right, Qt.KeyboardModifier.ControlModifier)
    assert sent == []
    assert widget.canvas.reason.startswith("G2 has 64 channels of 32×32, layer 3 needs 128")


def test_arrows_and_tab_walk_along_the_layers(strip: Strip, qtbot: QtBot) -> None:
    widget = strip()
    send_event(widget, Rewired(1, (2, 1, 0, 3)))
    chips = widget.canvas.chips
    widget.activateWindow()
    chips[2].setFocus()
    qtbot.waitUntil(chips[2].hasFocus)
    QTest.keyClick(chips[2], Qt.Key.Key_Right)
    assert chips[1].hasFocus()
    QTest.keyClick(chips[1], Qt.Key.Key_Tab)
    assert chips[0].hasFocus()


def test_home_and_the_button_reset_the_order(strip: Strip, sent: list[Command]) -> None:
    widget = strip()
    assert not widget.reset.isVisible()
    send_event(widget, Rewired(1, (2, 1, 0, 3)))
    assert widget.reset.isVisible()
    QTest.mouseClick(widget.reset, LEFT)
    send_event(widget, Rewired(2, (1, 0, 2, 3)))
    QTest.keyClick(widget.canvas.chips[0], Qt.Key.Key_Home)
    assert sent == [Rewire((0, 1, 2, 3))] * 2


def test_a_network_with_its_own_gates_has_nothing_to_drag(
    strip: Strip, sent: list[Command]
) -> None:
    widget = strip(regime="ReLU")
    carry(widget, 2, 0)
    QTest.keyClick(widget.canvas.chips[1], Qt.Key.Key_Right, Qt.KeyboardModifier.ControlModifier)
    assert sent == []
    assert widget.canvas.chips[0].focusPolicy() == Qt.FocusPolicy.NoFocus
    assert "own gates" in widget.headline
    assert "DL and FL have one" in widget.sentence


def test_gates_from_a_file_carry_its_name(strip: Strip) -> None:
    widget = strip()
    swap = RegimeSwapped(3, "DL", "FL", ("value weights",), (), (), (), "resnet18.pth")
    send_event(widget, swap)
    assert widget.headline == "Gates of resnet18.pth"
    assert "From resnet18.pth." in widget.canvas.chips[0].accessibleDescription()
    send_event(widget, RegimeSwapped(9, "FL", "DL", (), (), (), ()))
    assert widget.headline == "Trainable gates"


def test_a_swap_to_own_gates_ends_a_drag(strip: Strip, sent: list[Command]) -> None:
    widget = strip()
    carry(widget, 2, 0, let_go=False)
    send_event(widget, RegimeSwapped(3, "DL", "ReLU", (), (), (), ()))
    chip = widget.canvas.chips[2]
    QTest.mouseRelease(chip, LEFT, NONE, chip.rect().center())
    assert sent == []
    assert widget.canvas.shown_order == (0, 1, 2, 3)


def test_a_new_run_with_fewer_layers_is_drawn_anew(strip: Strip) -> None:
    widget = strip()
    send_event(widget, Rewired(1, (2, 1, 0, 3)))
    send_event(widget, make_run_started(MIXED))
    widget.set_theme(DARK)
    assert len(widget.canvas.chips) == 3
    assert not widget.grab().isNull()


def test_chips_have_names_for_screen_readers(strip: Strip) -> None:
    widget = strip()
    send_event(widget, Rewired(1, (2, 1, 0, 3)))
    names = [chip.accessibleName() for chip in widget.canvas.chips]
    assert names[2] == "G3 over layer 1"


def test_many_layers_scroll_instead_of_overlapping(strip: Strip) -> None:
    widget = strip(tuple(LayerInfo(i, "d", "dense", (8,)) for i in range(60)))
    chips = widget.canvas.chips
    assert all(a.geometry().right() < b.geometry().left() for a, b in pairwise(chips))


def test_the_layer_that_a_panel_outlines_is_outlined_here(strip: Strip) -> None:
    widget = strip()
    canvas = widget.canvas
    plain = canvas.grab().toImage()
    canvas.outline_layer(make_selection(layer=1, unit=3))
    lit = canvas.grab().toImage()
    place = (canvas.slot_centre(1) - QPointF(0, 15)).toPoint()  # between the chip and its outline
    assert lit.pixelColor(place) != plain.pixelColor(place)
    other = (canvas.slot_centre(2) - QPointF(0, 15)).toPoint()
    assert lit.pixelColor(other) == plain.pixelColor(other)
    for nothing in (NOTHING, make_selection(layer=9), make_selection(example=(1, 2))):
        canvas.outline_layer(nothing)
        assert canvas.grab().toImage() == plain


# Which gates may be exchanged, in what words, and that the colours tell them apart.


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda t: t.name)
def test_gate_colours_stand_out_and_differ_in_lightness(theme: Theme) -> None:
    """Lightness alone tells neighbours apart, so that no kind of colour blindness matters."""
    colours = [gate_colour(theme, i, 6) for i in range(6)]
    assert all(contrast_ratio(colour, theme.panel) >= 3.0 for colour in colours)
    assert all(contrast_ratio(a, b) > 1.1 for a, b in pairwise(colours))
    assert all(contrast_ratio(theme.text, chip_fill(theme, colour)) >= 4.5 for colour in colours)


# Gates turned by hand in the layers dense_strip: wheel, keys and the menu of a chip.

CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
MAPS = tuple(LayerInfo(i, f"conv {i + 1}", "conv", (8, 16, 16)) for i in range(2))


@pytest.fixture
def dense_strip(qtbot: QtBot, sent: list[Command]) -> LayersStrip:
    return show_strip(qtbot, sent, make_run_started())


def wheel(dense_strip: LayersStrip, feature: int, notches: int, held: Qt.KeyboardModifier) -> None:
    chip = dense_strip.canvas.chips[feature]
    at = QPointF(chip.rect().center())
    way, none = QPoint(0, 120 * notches), Qt.MouseButton.NoButton
    event = QWheelEvent(
        at, chip.mapToGlobal(at), QPoint(), way, none, held, Qt.ScrollPhase.NoScrollPhase, False
    )
    QApplication.sendEvent(chip, event)


def ask_for_menu(strip: LayersStrip, feature: int) -> None:
    chip = strip.canvas.chips[feature]
    at = chip.rect().center()
    reason = QContextMenuEvent.Reason.Mouse
    QApplication.sendEvent(chip, QContextMenuEvent(reason, at, chip.mapToGlobal(at)))


def menu_of(strip: LayersStrip, feature: int) -> RotationMenu:
    ask_for_menu(strip, feature)
    return strip.menu


def test_the_wheel_with_ctrl_turns_a_gate_layer_by_one_unit(
    dense_strip: LayersStrip, sent: list[Command]
) -> None:
    wheel(dense_strip, 1, 1, Qt.KeyboardModifier.NoModifier)  # it passes by
    assert sent == []
    wheel(dense_strip, 1, 1, CTRL)
    assert sent == [Rotate((0, 1, 0, 0))]
    wheel(dense_strip, 1, 1, CTRL)  # before the answer
    assert sent[-1] == Rotate((0, 2, 0, 0))
    wheel(dense_strip, 1, -1, CTRL | SHIFT)
    assert sent[-1] == Rotate((0, -8, 0, 0))


def test_keys_turn_the_gates_of_the_chip_with_the_focus(
    dense_strip: LayersStrip, sent: list[Command]
) -> None:
    QTest.keyClick(dense_strip.canvas.chips[2], Qt.Key.Key_Up, CTRL)
    QTest.keyClick(dense_strip.canvas.chips[0], Qt.Key.Key_Down, CTRL)
    assert sent == [Rotate((0, 0, 1, 0)), Rotate((-1, 0, 1, 0))]


def test_a_turn_is_shown_on_its_chip_and_in_words(dense_strip: LayersStrip) -> None:
    send_event(dense_strip, Rewired(7, (0, 1, 2, 3), (0, 3, 0, -2)))
    assert "Rotated ↻3." in dense_strip.canvas.chips[1].toolTip()
    assert dense_strip.sentence == "Rotated: G2\N{NO-BREAK SPACE}↻3, G4\N{NO-BREAK SPACE}↺2"
    assert dense_strip.reset.isVisible()


def test_a_turn_stays_with_its_gate_layer_when_the_order_changes(
    dense_strip: LayersStrip, sent: list[Command]
) -> None:
    send_event(dense_strip, Rewired(7, (1, 0, 2, 3), (3, 0, 0, 0)))
    assert ": 2 1 3 4. " in dense_strip.sentence
    assert dense_strip.sentence.endswith(": G2\N{NO-BREAK SPACE}↻3")
    wheel(dense_strip, 1, 1, CTRL)
    assert sent == [Rotate((4, 0, 0, 0))]  # by value layer: G2 serves the first


def test_more_than_half_a_turn_is_told_as_less_the_other_way(
    dense_strip: LayersStrip, sent: list[Command]
) -> None:
    send_event(dense_strip, Rewired(1, (0, 1, 2, 3), (32, 0, 0, 0)))
    wheel(dense_strip, 0, 1, CTRL)
    assert sent == [Rotate((-31, 0, 0, 0))]


def test_a_refusal_puts_the_turn_back(dense_strip: LayersStrip) -> None:
    wheel(dense_strip, 1, 1, CTRL)
    assert "↻1" in dense_strip.canvas.chips[1].toolTip()
    send_event(dense_strip, Refused("rotate the gates", "No."))
    assert "↻" not in dense_strip.canvas.chips[1].toolTip()


def test_the_menu_of_a_chip_turns_it(dense_strip: LayersStrip, sent: list[Command]) -> None:
    menu = menu_of(dense_strip, 1)
    assert menu.isVisible()
    assert not menu.shift.isVisible()  # a dense layer is no map
    menu.rotation.setValue(5)
    assert sent == [Rotate((0, 5, 0, 0))]
    send_event(dense_strip, Rewired(1, (0, 1, 2, 3), (0, 5, 0, 0)))
    assert menu.back.isEnabled()
    menu.back.trigger()
    assert sent[-1] == Rotate((0, 0, 0, 0))
    menu.close()


def test_a_map_can_be_shifted_in_space_as_well(qtbot: QtBot, sent: list[Command]) -> None:
    dense_strip = show_strip(qtbot, sent, make_run_started(MAPS))
    menu = menu_of(dense_strip, 0)
    menu.shift.setValue(-2)
    assert sent == [Rotate((0, 0), (-2, 0))]
    send_event(dense_strip, Rewired(1, (0, 1), (), (-2, 0)))
    assert dense_strip.sentence == "Rotated: G1\N{NO-BREAK SPACE}↖2"
    menu.close()


def test_home_puts_order_and_turns_back(dense_strip: LayersStrip, sent: list[Command]) -> None:
    send_event(dense_strip, Rewired(1, (1, 0, 2, 3), (3, 0, 0, 0)))
    QTest.keyClick(dense_strip.canvas.chips[1], Qt.Key.Key_Home)
    assert sent == [Rewire((0, 1, 2, 3)), Rotate((0, 0, 0, 0))]
    send_event(
        dense_strip, replace(make_run_started(), rotation=(0, 0, 2, 0))
    )  # a run that begins so
    assert dense_strip.sentence == "Rotated: G3\N{NO-BREAK SPACE}↻2"


def test_a_network_with_its_own_gates_turns_nothing(
    dense_strip: LayersStrip, sent: list[Command]
) -> None:
    send_event(dense_strip, RegimeSwapped(1, "DL", "ReLU", (), (), (), ()))
    wheel(dense_strip, 1, 1, CTRL)
    ask_for_menu(dense_strip, 1)
    assert sent == []
    assert dense_strip.findChild(RotationMenu) is None
