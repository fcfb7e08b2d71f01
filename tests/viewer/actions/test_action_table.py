"""Every action is declared once and whole; what it does comes back from the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.actions.palette import matches
from dgn_viewer.application import Viewer
from dgn_viewer.style import stylesheet


@pytest.mark.discovery
def test_every_action_is_declared_whole_and_stands_in_a_menu(viewer: Viewer) -> None:
    """Facts of one window, which none of them changes."""
    registry = viewer.window.registry
    for spec in registry.rows:
        assert spec.title, spec.id
        assert registry.menu_title(spec.id), spec.id
        if spec.icon:
            assert not stylesheet.icon(spec.icon, LIGHT).isNull()
    keys = Counter(
        QKeySequence(shortcut).toString() for spec in registry.rows for shortcut in spec.keys
    )
    assert [key for key, count in keys.items() if count > 1] == [], "no two share a shortcut"
    assert "" not in keys
    assert {spec.id for spec in registry.rows} <= in_menus(viewer)
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


def test_space_pauses_and_goes_on(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    qtbot.waitUntil(lambda: window.run_state.running)
    QTest.keyClick(window, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
    assert window.registry["run.toggle"].text() == "Run"
    QTest.keyClick(window, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: window.run_state.running)
    assert window.registry["run.toggle"].text() == "Pause"


def test_keys_of_what_cannot_be_done_now_are_answered(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    qtbot.waitUntil(lambda: window.run_state.running)
    said = len(window.notices.recent)
    assert not window.registry["edit.redo"].isEnabled()
    QTest.keyClick(
        window,
        Qt.Key.Key_Z,
        Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier,
    )
    shown = window.notices.shown()
    assert shown is not None
    assert shown.notice.kind == "info"
    assert "Redo" in shown.notice.text
    assert len(window.notices.recent) == said  # shown once, not kept


def test_a_regime_action_swaps_the_regime(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    swapped: list[str] = []
    for regime in ("FR-II", "ReLU"):
        swapped.append(regime)
        window.registry[f"regime.{regime}"].trigger()
        qtbot.waitUntil(lambda regime=regime: window.run_state.regime == regime)
        assert window.registry[f"regime.{regime}"].isChecked()
        assert not window.registry["regime.DL"].isChecked()
        assert [mark.label for mark in window.history.view({}).marks] == swapped
        assert f"→ {regime}" in window.notices.recent[-1].text


def test_one_step_and_one_epoch(make_viewer: Callable[..., Viewer], qtbot: QtBot) -> None:
    window = make_viewer(paused=True).window
    QTest.keyClick(window, Qt.Key.Key_Period)
    qtbot.waitUntil(lambda: window.run_state.step == 1 and window.run_state.phase == "paused")
    QTest.keyClick(window, Qt.Key.Key_Period, Qt.KeyboardModifier.ShiftModifier)
    run = window.run_state.run
    assert run is not None
    qtbot.waitUntil(lambda: window.run_state.step >= run.steps_per_epoch)
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")  # its scores may come before
    assert window.run_state.step == run.steps_per_epoch


def test_reset_begins_again_with_the_same_seed(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    first = window.run_state.run
    assert first is not None
    qtbot.waitUntil(lambda: window.history.step > 20)
    window.registry["run.reset"].trigger()
    qtbot.waitUntil(lambda: window.run_state.run is not first)
    second = window.run_state.run
    assert second is not None
    assert second.config == first.config
    assert second.probe_set.digest == first.probe_set.digest


def test_the_palette_finds_and_does_an_action(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    qtbot.waitUntil(lambda: window.run_state.running)
    window.action_views.palette.open()
    QTest.keyClicks(window.action_views.palette.query, "one step")  # the space is a letter there
    assert window.action_views.palette.query.text() == "one step"
    assert window.action_views.palette.shown() == ("run.step",)
    QTest.keyClick(window.action_views.palette.query, Qt.Key.Key_Escape)
    assert not window.action_views.palette.isVisible()
    assert window.run_state.running
    QTest.keyClick(
        window,
        Qt.Key.Key_P,
        Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier,
    )
    palette = window.action_views.palette
    assert palette.isVisible()
    visible = {spec.id for spec in window.registry.rows if window.registry[spec.id].isVisible()}
    assert set(palette.shown()) == visible - {"view.palette"}
    QTest.keyClicks(palette.query, "pau")
    assert palette.shown() == ("run.toggle",) or "run.toggle" in palette.shown()
    QTest.keyClick(palette.query, Qt.Key.Key_Return)
    assert not palette.isVisible()
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [("", "Run", True), ("all export", "Export all panels", True), ("xyz", "Run", False)],
)
def test_the_words_of_a_query_match_in_any_order(query: str, text: str, found: bool) -> None:
    assert matches(query, text) is found


def test_the_shortcut_sheet_lists_every_shortcut(viewer: Viewer) -> None:
    window = viewer.window
    QTest.keyClick(window, Qt.Key.Key_Question)
    assert window.action_views.sheet.isVisible()
    listed = {text for _, text in window.action_views.sheet.rows()}
    assert {"Pause", "One step", "One epoch", "Reset", "New run…"} <= listed
    QTest.keyClick(window.action_views.sheet, Qt.Key.Key_Escape)
    assert not window.action_views.sheet.isVisible()
