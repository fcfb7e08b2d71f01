"""The registry, the menus, the palette and the sheet of shortcuts, made of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QGridLayout, QMenuBar, QScrollArea
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Advance, Reset, SwapRegime
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.actions.action_rows import ActionRow, Family, walk_menus
from dgn_viewer.actions.gates_menu import regime_rows
from dgn_viewer.actions.menus import BAR, Menus
from dgn_viewer.actions.palette import Palette, matches_query
from dgn_viewer.actions.shortcuts import ShortcutSheet
from dgn_viewer.application import Viewer
from dgn_viewer.style import stylesheet
from tests.snapshots import Recorded
from tests.viewer.actions.action_bench import CATALOGUE, REGIMES, STATES, Bench


def test_keys_are_refused_with_the_reason_while_their_action_is_disabled(bench: Bench) -> None:
    actions, desk = bench.actions, bench.desk
    open_run = QKeySequence("Ctrl+Shift+R")
    desk.state = RunState()
    actions.refresh()
    assert actions.reason_disabled(open_run)
    assert actions.reason_disabled(QKeySequence("Ctrl+Alt+Shift+K")) == ""  # of no action
    desk.state = STATES["inspected"]
    actions.refresh()
    assert actions.reason_disabled(open_run) == ""
    assert "x.pt" in actions.reason_disabled(QKeySequence("Space"))


def test_a_row_becomes_an_action_that_shows_the_state(bench: Bench) -> None:
    actions, desk = bench.actions, bench.desk
    assert [row.id for row in actions.rows] == list(actions)
    assert [row.id for row in actions.rows if row.fixed] == list(desk.rows)
    assert "run.toggle" in actions
    assert "run.fly" not in actions
    actions.refresh()
    toggle, undo = actions["run.toggle"], actions["edit.undo"]
    assert (toggle.text(), toggle.isEnabled(), toggle.isCheckable()) == ("Run", True, False)
    usual = toggle.toolTip()
    assert usual.endswith(" (Space)")
    assert [keys.toString() for keys in actions["edit.redo"].shortcuts()] == [
        "Ctrl+Shift+Z",
        "Ctrl+Y",
    ]
    assert actions["file.quit"].toolTip() == "Quit (Ctrl+Q)"
    assert actions["view.theme.dark"].isChecked()
    assert not actions["view.theme.light"].isChecked()
    assert not undo.isEnabled()
    desk.state = STATES["undoable"]
    bench.icons.clear()
    actions.refresh()
    assert (undo.text(), undo.isEnabled(), toggle.text()) == ("Undo regime FL", True, "Pause")
    assert set(bench.icons) == {"pause", "undo", "redo"}
    desk.state = STATES["inspected"]
    actions.refresh()
    assert not toggle.isEnabled()
    assert "x.pt" in toggle.toolTip()
    desk.state = STATES["paused"]
    actions.refresh()
    assert toggle.toolTip() == usual
    with pytest.raises(KeyError):
        actions["run.fly"]


def test_a_click_does_what_the_row_says_and_shows_the_state_after_it(bench: Bench) -> None:
    desk = bench.desk
    bench.actions.refresh()
    desk.log.clear()
    bench.actions["run.step"].trigger()
    assert desk.log == [Advance(1)]
    desk.theme.choice = "light"
    bench.actions["view.theme.light"].trigger()
    assert bench.actions["view.theme.light"].isChecked()
    assert not bench.actions["view.theme.dark"].isChecked()


def test_rows_are_added_once_and_told_when_they_are_new(bench: Bench, qtbot: QtBot) -> None:
    again = ActionRow(id="run.step", title="Another", callback=lambda: None)
    with qtbot.assertNotEmitted(bench.actions.changed):
        bench.actions.register_rows((again,))
    assert bench.actions["run.step"].text() == "One step"
    with qtbot.waitSignal(bench.actions.changed):
        bench.actions.register_rows(
            (again, ActionRow(id="run.fly", title="Fly", callback=lambda: None))
        )
    assert bench.actions["run.fly"].toolTip() == "Fly"
    assert [spec.id for spec in bench.actions.rows_matching("run.f*")] == ["run.fly"]
    assert [spec.id for spec in bench.actions.rows_matching("file.quit")] == ["file.quit"]
    bench.icons.clear()
    bench.actions.set_icons()
    assert bench.icons.count("run") == 1
    assert "" not in bench.icons


def titles(menu: Any) -> list[str]:
    return [action.text() for action in menu.actions()]


def test_menus_follow_the_registry(bench: Bench, recorded: Recorded) -> None:
    bar = QMenuBar(bench.window)
    menus = Menus(bar, bench.actions)
    tops = {action.text(): action for action in bar.actions()}
    assert list(tops) == list(BAR)
    assert not tops["Gates"].isVisible()  # empty yet
    assert tops["Edit"].isVisible()
    bench.actions.register_rows(regime_rows(CATALOGUE, bench.desk.log.append))
    assert tops["Gates"].isVisible()
    shown = {name: titles(top.menu()) for name, top in tops.items()}
    recorded(shown)
    menus.fill_menus()
    assert {name: titles(top.menu()) for name, top in tops.items()} == shown


def test_a_second_catalogue_changes_no_row_that_is_there_and_adds_those_that_are_new(
    bench: Bench,
) -> None:
    bench.actions.register_rows(regime_rows(CATALOGUE, bench.desk.log.append))
    menus = Menus(QMenuBar(bench.window), bench.actions)
    first = bench.actions["regime.DL"]
    more = replace(CATALOGUE, regimes=(*REGIMES, replace(REGIMES[0], id="new", title="New")))
    bench.actions.register_rows(regime_rows(more, bench.desk.log.append))
    assert bench.actions["regime.DL"] is first
    bench.desk.log.clear()
    first.trigger()
    bench.actions["regime.new"].trigger()
    assert bench.desk.log == [SwapRegime("DL"), SwapRegime("new")]
    assert isinstance(menus, QObject)


def test_a_menu_looks_at_the_disk_before_it_shows(bench: Bench) -> None:
    bar = QMenuBar(bench.window)
    menus = Menus(bar, bench.actions)
    bench.desk.log.clear()
    for action in bar.actions():
        action.menu().aboutToShow.emit()  # type: ignore[attr-defined]  # stub: QObject
    assert bench.desk.log == ["look"]
    assert isinstance(menus, QObject)


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("ONE step", "Run: One Step", True),
        ("step one", "Run: One step", True),
        ("step two", "Run: One step", False),
        ("  ", "Run", True),
        ("", "Run", True),
    ],
)
def test_every_word_of_a_query_has_to_occur(query: str, text: str, found: bool) -> None:
    assert matches_query(query, text) is found


def test_the_palette_lists_names_before_tips_and_leaves_itself_out(bench: Bench) -> None:
    bench.actions.refresh()
    palette = Palette(bench.actions, bench.window)
    palette.open()
    assert len(palette.shown_action_ids()) == len(bench.desk.rows) - 1
    assert "view.palette" not in palette.shown_action_ids()
    palette.query.setText("undo")
    assert palette.shown_action_ids()[:2] == ("edit.undo", "edit.undo_layout")
    assert set(palette.shown_action_ids()[2:]) == {
        "edit.redo",
        "edit.redo_layout",
    }  # "undone" in their tips
    palette.query.setText("theme light")
    assert palette.shown_action_ids() == ("view.theme.light",)
    palette.query.setText("panel")
    assert palette.shown_action_ids()[:2] == ("file.export_panel", "file.export_all")
    items = [palette.list.topLevelItem(row) for row in range(2)]
    assert items[0] is not None
    assert (items[0].text(0), items[0].text(1)) == (
        "Export panel…",
        QKeySequence("Ctrl+E").toString(QKeySequence.SequenceFormat.NativeText),
    )


def test_the_palette_says_the_menu_of_an_action_once(bench: Bench) -> None:
    title = "Playground: XOR (2-D)"
    bench.actions.register_rows(
        (ActionRow(id="playground.xor", title=title, callback=lambda: None),)
    )
    palette = Palette(bench.actions, bench.window)
    palette.open()
    palette.query.setText("xor")
    item = palette.list.topLevelItem(0)
    assert item is not None
    assert item.text(0) == "Playground: XOR (2-D)"


@pytest.fixture
def palette(bench: Bench, qtbot: QtBot) -> Palette:
    bench.actions.refresh()
    found = Palette(bench.actions, bench.window)
    with qtbot.waitExposed(bench.window):
        bench.window.show()
    bench.window.activateWindow()
    found.open()
    return found


def current(palette: Palette) -> str:
    item = palette.list.currentItem()
    return "" if item is None else str(item.data(0, Qt.ItemDataRole.UserRole))


def test_the_palette_has_its_place_over_the_window_and_begins_anew_each_time(
    bench: Bench, palette: Palette
) -> None:
    assert (palette.width(), palette.x(), palette.y()) == (480, 160, 72)
    assert palette.query.accessibleName()
    listed = palette.list
    assert listed.focusPolicy() == Qt.FocusPolicy.NoFocus
    row = max(24, listed.sizeHintForRow(0))
    assert listed.height() == 12 * row + 4  # twelve rows, the others are scrolled to
    assert palette.height() == listed.geometry().bottom() + 1 + 8
    every = palette.shown_action_ids()
    palette.query.setText("theme light")
    assert listed.height() == row + 4
    palette.query.setText("nothing is called so")
    assert palette.shown_action_ids() == ()
    assert listed.height() == max(24, listed.sizeHintForRow(0)) + 4
    bench.window.resize(300, 220)
    palette.open()
    assert (palette.width(), palette.x()) == (268, 16)
    assert (palette.query.text(), palette.shown_action_ids()) == ("", every)
    assert current(palette) == every[0]
    assert listed.height() == 60


def test_arrows_pass_over_what_cannot_be_done(bench: Bench, palette: Palette) -> None:
    palette.query.setText("undo")  # both are disabled, only 'Back' by its tip would match
    assert current(palette) == ""
    palette.query.setText("engine")
    first = palette.list.topLevelItem(0)
    assert first is not None
    assert first.isDisabled()
    palette.query.setText("run:")
    rows = palette.shown_action_ids()
    assert rows == tuple(name for name in bench.desk.rows if name.startswith("run."))
    assert current(palette) == "run.toggle"
    QTest.keyClick(palette.query, Qt.Key.Key_Down)
    assert current(palette) == "run.step"
    QTest.keyClick(palette.query, Qt.Key.Key_Up)
    QTest.keyClick(palette.query, Qt.Key.Key_Up)
    assert current(palette) == "run.toggle"
    for _ in range(5):
        QTest.keyClick(palette.query, Qt.Key.Key_Down)
    assert current(palette) == "run.branch"  # nothing else can be done
    for skipped in ("run.epoch", "run.step"):
        bench.actions[skipped].setEnabled(False)
    palette.query.setText("run: ")
    QTest.keyClick(palette.query, Qt.Key.Key_Down)
    assert current(palette) == "run.reset"
    QTest.keyClick(palette.query, Qt.Key.Key_Up)
    assert current(palette) == "run.toggle"
    QTest.keyClick(palette.query, Qt.Key.Key_Down)
    bench.desk.log.clear()
    QTest.keyClick(palette.query, Qt.Key.Key_Return)
    assert bench.desk.log == [Reset()]
    assert not palette.isVisible()


def test_a_click_does_and_escape_leaves(bench: Bench, palette: Palette) -> None:
    palette.query.setText("one step")
    item = palette.list.topLevelItem(0)
    assert item is not None
    assert item.toolTip(0) == bench.actions["run.step"].toolTip()
    bench.desk.log.clear()
    palette.list.itemClicked.emit(item, 0)
    assert bench.desk.log == [Advance(1)]
    assert not palette.isVisible()
    palette.open()
    palette.query.setText("one step")
    bench.actions["run.step"].setEnabled(False)
    QTest.keyClick(palette.query, Qt.Key.Key_Enter)
    assert bench.desk.log == [Advance(1)]
    palette.open()
    QTest.keyClick(palette.query, Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert bench.desk.log == [Advance(1)]


def test_the_keyboard_goes_back_to_the_window(bench: Bench, palette: Palette) -> None:
    sheet = ShortcutSheet(bench.actions, bench.window)
    assert palette.query.hasFocus()
    QTest.keyClick(palette.query, Qt.Key.Key_Escape)
    assert bench.window.hasFocus()
    sheet.open()
    assert sheet.hasFocus()
    QTest.keyClick(sheet, Qt.Key.Key_A)
    assert bench.window.hasFocus()


def test_any_key_or_click_puts_the_sheet_away(bench: Bench) -> None:
    sheet = ShortcutSheet(bench.actions, bench.window)
    bench.window.resize(1920, 900)
    bench.window.show()
    assert sheet.isHidden()
    sheet.open()
    assert sheet.isVisible()
    off = sheet.geometry().center() - bench.window.rect().center()
    assert max(abs(off.x()), abs(off.y())) <= 1
    grid: Any = sheet.findChild(QGridLayout)

    def text(row: int, column: int) -> str:
        return str(grid.itemAtPosition(row, column).widget().text())

    rows = [(keys, words.removesuffix("…")) for keys, words in sheet.shortcut_rows()]
    assert rows[0] == ("Space", "Run")
    assert len(rows) > 20
    columns = -(-len(rows) // 14)  # at most fourteen in each, where the window is wide
    high = -(-len(rows) // columns)
    for place, row in enumerate(rows):
        at = place % high + 1, 2 * (place // high)
        assert (text(*at), text(at[0], at[1] + 1)) == row
    assert "Branch from here" in dict(rows).values()  # without its dots
    count = grid.count()
    QTest.keyClick(sheet, Qt.Key.Key_A)
    assert not sheet.isVisible()
    sheet.open()
    assert grid.count() == count == 1 + 2 * len(rows)
    QTest.mouseClick(sheet.findChildren(QScrollArea)[0].viewport(), Qt.MouseButton.LeftButton)
    assert not sheet.isVisible()
    bench.window.resize(800, 500)
    sheet.open()
    assert bench.window.rect().contains(sheet.geometry())
    QApplication.sendEvent(sheet, QFocusEvent(QEvent.Type.FocusOut))
    assert not sheet.isVisible()
    override = QKeyEvent(
        QEvent.Type.ShortcutOverride, Qt.Key.Key_Space, Qt.KeyboardModifier.NoModifier
    )
    override.ignore()
    QApplication.sendEvent(sheet, override)
    assert override.isAccepted()


@pytest.mark.discovery
def test_every_action_is_declared_whole_and_stands_in_a_menu(viewer: Viewer) -> None:
    """Facts of one window, which none of them changes."""
    registry = viewer.window.registry
    for spec in registry.rows:
        assert spec.title, spec.id
        assert registry.menu_title(spec.id), spec.id
        if spec.icon:
            assert not stylesheet.themed_icon(spec.icon, LIGHT).isNull()
    keys = Counter(
        QKeySequence(shortcut).toString() for spec in registry.rows for shortcut in spec.keys
    )
    assert [key for key, count in keys.items() if count > 1] == [], "no two share a shortcut"
    assert "" not in keys
    families = [entry for _, entry in walk_menus(registry.menus) if isinstance(entry, Family)]
    only_in_palette = {
        row.id
        for family in families
        if not family.listed
        for row in registry.rows_matching(family.pattern)
    }
    assert {spec.id for spec in registry.rows} - only_in_palette <= in_menus(viewer)
    assert not only_in_palette & in_menus(viewer)
    catalogue = viewer.window.run_state.catalogue
    assert catalogue is not None
    for entry in catalogue.regimes:
        assert f"regime.{entry.id}" in registry
    for name in all_panels():
        assert f"panel.{name}" in registry
    regimes = [spec.id for spec in registry.rows if spec.id.startswith("regime.")]
    assert [one for one in regimes if registry[one].isChecked()] == ["regime.DL"]


def in_menus(viewer: Viewer) -> set[str]:
    """The ids of all actions in menus, at any depth."""
    found = set()
    for top in viewer.window.menuBar().actions():
        stack = list(top.menu().actions())  # type: ignore[attr-defined]  # stub: QObject
        while stack:
            action = stack.pop()
            found.add(action.objectName())
            if action.menu() is not None:
                stack += action.menu().actions()  # type: ignore[attr-defined]  # stub: QObject
    return found


def test_keys_and_the_palette_act_on_the_run_a_second_time_too_and_refusals_are_told(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window, registry = viewer.window, viewer.window.registry
    palette = window.action_views.palette
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    qtbot.waitUntil(lambda: window.run_state.is_running)
    for _ in range(2):
        QTest.keyClick(window, Qt.Key.Key_Space)
        qtbot.waitUntil(lambda: window.run_state.phase == "paused")
        assert registry["run.toggle"].text() == "Run"
        QTest.keyClick(window, Qt.Key.Key_Space)
        qtbot.waitUntil(lambda: window.run_state.is_running)
        assert registry["run.toggle"].text() == "Pause"

    said = len(window.notices.recent_notices)
    assert not registry["edit.redo"].isEnabled()
    QTest.keyClick(window, Qt.Key.Key_Z, both)
    shown = window.notices.notice_on_show()
    assert shown is not None
    assert shown.notice.kind == "info"
    assert "Redo" in shown.notice.text
    assert len(window.notices.recent_notices) == said  # shown once, not kept

    palette.open()
    QTest.keyClicks(palette.query, "one step")  # the space is a letter there
    assert palette.shown_action_ids()[0] == "run.step"  # titles come before tips
    QTest.keyClick(palette.query, Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert window.run_state.is_running
    QTest.keyClick(window, Qt.Key.Key_P, both)
    assert palette.isVisible()
    visible = {spec.id for spec in registry.rows if registry[spec.id].isVisible()}
    assert set(palette.shown_action_ids()) == visible - {"view.palette"}
    QTest.keyClicks(palette.query, "pau")
    assert "run.toggle" in palette.shown_action_ids()
    QTest.keyClick(palette.query, Qt.Key.Key_Return)
    assert not palette.isVisible()
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
    step = window.run_state.step
    palette.open()
    QTest.keyClicks(palette.query, "one step")
    QTest.keyClick(palette.query, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.run_state.step == step + 1)

    swapped: list[str] = []
    for regime in ("FR-II", "ReLU"):
        swapped.append(regime)
        registry[f"regime.{regime}"].trigger()
        qtbot.waitUntil(lambda regime=regime: window.run_state.regime == regime)
        assert registry[f"regime.{regime}"].isChecked()
        assert not registry["regime.DL"].isChecked()
        assert [mark.label for mark in window.history.view({}).marks] == swapped
        assert f"→ {regime}" in window.notices.recent_notices[-1].text
