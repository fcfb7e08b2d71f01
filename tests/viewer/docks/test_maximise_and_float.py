"""Docks as a user has them: one maximised and back, presets by name, panels that float."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import shiboken6
from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QApplication, QDockWidget, QLabel, QMainWindow, QToolButton
from pytestqt.qtbot import QtBot

from dgn_engine.scene.theme import LIGHT
from dgn_engine.views.layout_presets import PRESETS, layout_outline
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.style.stylesheet import application_stylesheet
from tests.daily import nightly
from tests.viewer.docks.laid_out import dock_of, docks_in, spec, title_of

LEFT = Qt.MouseButton.LeftButton


SPECS = {
    "gate_maps": spec("Gate maps", "left"),
    "overlap": spec("Overlap", "left"),
    "agreement": spec("A and B", "left", compares=True),
    "spectrum": spec("NPK spectrum", "right"),
    "ntk": spec("NTK", "right"),
    "training": spec("Training", "right"),
    "mine": spec("A plug-in", "right"),
}
SHOWN = tuple(name for name in SPECS if name != "agreement")


@pytest.fixture
def docks(qtbot: QtBot) -> Iterator[PanelDocks]:
    yield from docks_in(qtbot, SPECS, 900, application_stylesheet())


def places(docks: PanelDocks) -> dict[str, QRect]:
    found = {name: dock_of(docks, name) for name in SPECS}
    return {name: dock.geometry() for name, dock in found.items() if not dock.isHidden()}


def test_a_double_click_on_a_title_maximises_and_goes_back_to_the_pixel(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    docks.toggle_panel("overlap")
    dock_of(docks, "gate_maps").resize(600, 900)
    docks.window.resizeDocks([dock_of(docks, "spectrum")], [333], Qt.Orientation.Vertical)
    QApplication.processEvents()
    before, layout = places(docks), docks.arrangement.current_layout()
    label = title_of(docks, "ntk").findChild(QLabel)
    qtbot.mouseDClick(label, LEFT)
    assert docks.arrangement.maximised_name == "ntk"
    assert not dock_of(docks, "ntk").isFloating()
    qtbot.waitUntil(lambda: docks.visible_panels() == ("ntk",))
    assert dock_of(docks, "ntk").width() == docks.window.width()
    assert docks.front_panel() == "ntk"
    assert docks.arrangement.current_layout() == layout  # what is saved is the layout before
    assert docks.arrangement.is_open("training")
    assert not docks.arrangement.is_open("overlap")
    qtbot.mouseDClick(label, LEFT)
    assert docks.arrangement.maximised_name == ""
    qtbot.waitUntil(lambda: places(docks) == before)
    assert docks.arrangement.current_layout() == layout


def test_panels_that_are_closed_and_opened_again_have_the_sizes_of_before(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    docks.window.resizeDocks([dock_of(docks, "spectrum")], [300], Qt.Orientation.Vertical)
    QApplication.processEvents()
    before = places(docks)
    for name in SHOWN:
        docks.toggle_panel(name)
        QApplication.processEvents()
    assert docks.visible_panels() == ()
    for name in reversed(SHOWN):
        docks.toggle_panel(name)
        QApplication.processEvents()
    qtbot.waitUntil(lambda: docks.visible_panels() == SHOWN)
    for name, rect in places(docks).items():
        assert abs(rect.height() - before[name].height()) <= 4, (name, rect, before[name])
        assert abs(rect.width() - before[name].width()) <= 4, (name, rect, before[name])


def test_a_panel_that_is_closed_gives_the_keyboard_to_the_window(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    docks.window.activateWindow()
    qtbot.waitUntil(docks.window.isActiveWindow)
    button = docks.hosts["ntk"].parts.header.about
    button.setFocus()
    assert button.hasFocus()
    docks.toggle_panel("ntk")
    assert QApplication.focusWidget() is docks.window


def test_while_the_window_is_deleted_no_panel_is_marked(qtbot: QtBot) -> None:
    """A program that ends without closing the window deletes titles before the docks hide."""
    window = QMainWindow()
    qtbot.addWidget(window)
    found = PanelDocks(window, SPECS, LIGHT)
    found.arrangement.arrange_preset()
    with qtbot.waitExposed(window):
        window.show()
    names = found.visible_panels()
    assert names
    shiboken6.delete(title_of(found, names[-1]))
    with qtbot.captureExceptions() as faults:
        for dock in found.dock_frames():
            dock.hide()
    assert not faults


def test_a_window_that_is_deleted_while_it_is_seen_says_nothing_of_its_panels(qtbot: QtBot) -> None:
    window = QMainWindow()
    found = PanelDocks(window, SPECS, LIGHT)
    found.changed.connect(lambda: window.tabifiedDockWidgets(found.dock_frames()[0]))
    found.arrangement.arrange_preset()
    with qtbot.waitExposed(window):
        window.show()
    with qtbot.captureExceptions() as faults:
        shiboken6.delete(window)
    assert not faults


def test_the_button_of_a_title_shows_the_way_back_and_what_is_seen_is_told_once(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    button = title_of(docks, "training").findChildren(QToolButton)[0]
    plain = button.icon().pixmap(12).toImage()
    button.click()
    assert docks.arrangement.maximised_name == "training"
    assert button.icon().pixmap(12).toImage() != plain
    button.click()
    assert docks.arrangement.maximised_name == ""
    assert button.icon().pixmap(12).toImage() == plain
    told: list[tuple[str, ...]] = []
    docks.changed.connect(lambda: told.append(docks.visible_panels()))
    docks.toggle_maximised("ntk")
    assert told == [("ntk",)]
    docks.arrangement.restore_panels()
    assert told == [("ntk",), SHOWN]


def test_tabs_and_floats_come_back_as_they_were(docks: PanelDocks, qtbot: QtBot) -> None:
    docks.window.tabifyDockWidget(dock_of(docks, "ntk"), dock_of(docks, "spectrum"))
    dock_of(docks, "ntk").raise_()
    dock_of(docks, "mine").float_at(QRect(40, 50, 300, 200))
    qtbot.wait(20)
    before, rects = docks.arrangement.current_layout(), places(docks)
    assert before["floating"] == {"mine": [40, 50, 300, 200]}
    docks.toggle_maximised("mine")  # a floating one fills the window, too
    assert docks.visible_panels() == ("mine",)
    assert not dock_of(docks, "mine").isFloating()
    docks.arrangement.restore_panels()
    QApplication.processEvents()
    qtbot.waitUntil(lambda: docks.arrangement.current_layout()["floating"] == before["floating"])
    qtbot.waitUntil(lambda: docks.arrangement.current_layout()["tree"] == before["tree"])
    seen = docks.visible_panels()
    assert {n: r for n, r in places(docks).items() if n in seen} == {
        n: r for n, r in rects.items() if n in seen
    }


def test_a_maximised_panel_that_is_closed_leaves_the_others(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    docks.toggle_maximised("ntk")
    title_of(docks, "ntk").findChildren(QToolButton)[2].click()
    assert docks.arrangement.maximised_name == ""
    wanted = tuple(name for name in SHOWN if name != "ntk")
    qtbot.waitUntil(lambda: docks.visible_panels() == wanted)


def test_opening_another_panel_ends_it_and_what_was_opened_beside_it_stays(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    docks.toggle_maximised("ntk")
    docks.toggle_panel("training")
    assert docks.arrangement.maximised_name == ""
    assert docks.front_panel() == "training"
    qtbot.waitUntil(lambda: docks.visible_panels() == SHOWN)
    docks.toggle_maximised()
    assert docks.arrangement.maximised_name == "training"  # the one in front
    docks.arrangement.set_compared("B")
    assert docks.arrangement.maximised_name == ""
    docks.toggle_maximised("ntk")
    docks.arrangement.arrange_preset("gates")
    assert docks.arrangement.maximised_name == ""
    column = QDockWidget("Inspector", docks.window)
    column.setObjectName("dock.inspector")
    docks.window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, column)
    column.hide()
    docks.toggle_maximised("ntk")
    column.show()
    docks.arrangement.restore_panels()
    assert not column.isHidden()


@pytest.mark.parametrize("preset", ["gates", *nightly(*(p for p in PRESETS if p != "gates"))])
def test_a_preset_shows_its_panels_and_is_known_until_it_is_changed(
    docks: PanelDocks, qtbot: QtBot, preset: str
) -> None:
    docks.toggle_panel("mine")  # a plug-in that is closed stays closed
    docks.arrangement.arrange_preset(preset)
    assert docks.arrangement.preset == preset
    columns = PRESETS[preset].columns
    named = {name for _, groups in columns for group in groups for name in group} & set(SPECS)
    wanted = (named or set(SPECS)) - {"agreement"}
    qtbot.waitUntil(lambda: {name for name in SPECS if docks.arrangement.is_open(name)} == wanted)
    docks.toggle_panel(next(iter(docks.visible_panels())))
    assert docks.arrangement.preset == ""
    docks.arrangement.arrange_preset()
    assert docks.arrangement.preset == "overview"
    assert docks.arrangement.is_open("mine")


def test_panels_of_a_column_become_tabs_in_a_low_window_and_go_apart_again(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    window = docks.window
    assert docks.visible_panels() == SHOWN  # four rows of 225 pixels
    window.resize(1200, 500)
    qtbot.waitUntil(lambda: len(docks.visible_panels()) == 4)
    assert all(docks.arrangement.is_open(name) for name in SHOWN)
    qtbot.waitUntil(
        lambda: min(places(docks)[n].height() for n in docks.visible_panels()) > 190, timeout=5000
    )
    assert docks.arrangement.preset == "overview"
    window.resize(1200, 900)
    qtbot.waitUntil(lambda: docks.visible_panels() == SHOWN)


def test_a_layout_that_the_user_has_changed_stays(docks: PanelDocks, qtbot: QtBot) -> None:
    docks.window.splitDockWidget(
        dock_of(docks, "gate_maps"), dock_of(docks, "ntk"), Qt.Orientation.Horizontal
    )
    QApplication.processEvents()
    before = docks.arrangement.current_layout()["tree"]
    docks.window.resize(1200, 700)
    qtbot.wait(20)
    assert docks.visible_panels() == SHOWN
    assert layout_outline(docks.arrangement.current_layout()["tree"], SPECS) == layout_outline(
        before, SPECS
    )


def test_a_preset_that_was_restored_is_adopted(docks: PanelDocks, qtbot: QtBot) -> None:
    docks.arrangement.arrange_preset("kernels")
    layout = docks.arrangement.current_layout()
    docks.toggle_panel("ntk")
    assert docks.arrangement.preset == ""
    assert docks.arrangement.restore_layout(layout)
    assert docks.arrangement.adopt_preset("kernels")
    assert docks.arrangement.preset == "kernels"
    assert not docks.arrangement.adopt_preset("no such layout")
    QApplication.processEvents()


def test_a_preset_during_a_comparison_outlives_it(docks: PanelDocks, qtbot: QtBot) -> None:
    docks.arrangement.set_compared("B")
    assert docks.arrangement.preset == "compare"
    qtbot.waitUntil(lambda: docks.arrangement.is_open("agreement"))
    docks.arrangement.arrange_preset("gates")
    docks.arrangement.set_compared(None)
    assert not docks.arrangement.is_open("agreement")
    assert docks.arrangement.preset == "gates"


def test_a_floating_panel_has_a_border_in_the_theme_and_can_be_resized(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    dock = dock_of(docks, "ntk")
    title_of(docks, "ntk").findChildren(QToolButton)[1].click()
    assert dock.isFloating()
    screen = docks.window.screen().availableGeometry()
    assert screen.contains(dock.geometry().topLeft())
    QApplication.processEvents()
    host = docks.hosts["ntk"]
    assert host.x() >= 4  # an edge to grab
    assert dock.width() - host.geometry().right() - 1 >= 4
    picture = dock.grab().toImage()
    edge, inside = picture.pixelColor(0, 60).name(), picture.pixelColor(2, 60).name()
    assert edge not in (inside, "#000000")
    assert inside.upper() == LIGHT.panel
    assert dock.windowTitle() == "NTK"


def test_a_floating_panel_comes_back_where_it_was_closed(docks: PanelDocks, qtbot: QtBot) -> None:
    dock = dock_of(docks, "ntk")
    dock.float_at(QRect(60, 70, 320, 240))
    docks.show_panel("ntk")
    title_of(docks, "ntk").findChildren(QToolButton)[2].click()
    assert dock.isHidden()
    dock.move(0, 0)  # some window managers do
    docks.toggle_panel("ntk")
    assert dock.isFloating()
    assert dock.isVisible()
    assert dock.geometry() == QRect(60, 70, 320, 240)


def test_a_covered_floating_panel_is_raised_by_the_menu_not_closed(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    dock = dock_of(docks, "ntk")
    dock.float_at(QRect(60, 70, 320, 240))
    docks.window.activateWindow()
    qtbot.waitUntil(lambda: docks.window.isActiveWindow())
    docks.toggle_panel("ntk")
    assert dock.isVisible()
    qtbot.waitUntil(dock.isActiveWindow)
    docks.toggle_panel("ntk")
    assert dock.isHidden()


def test_floats_are_raised_when_the_window_comes_to_the_front(
    docks: PanelDocks, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    dock = dock_of(docks, "ntk")
    dock.float_at(QRect(60, 70, 320, 240))
    dock.activateWindow()
    qtbot.waitUntil(dock.isActiveWindow)
    raised: list[str] = []
    for name in SPECS:
        raise_ = lambda name=name: raised.append(name)  # noqa: E731  # in the place of a method
        monkeypatch.setattr(dock_of(docks, name), "raise_", raise_)
    docks.window.activateWindow()
    qtbot.waitUntil(lambda: "ntk" in raised)
    assert set(raised) == {"ntk"}
