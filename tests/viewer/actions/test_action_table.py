"""Every action is declared once and whole; what it does comes back from the engine."""

from __future__ import annotations

from collections import Counter

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.scene.theme import LIGHT
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


def test_space_pauses_and_goes_on_a_second_time_too(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    qtbot.waitUntil(lambda: window.run_state.running)
    toggle = window.registry["run.toggle"]
    for _ in range(2):
        QTest.keyClick(window, Qt.Key.Key_Space)
        qtbot.waitUntil(lambda: window.run_state.phase == "paused")
        assert toggle.text() == "Run"
        QTest.keyClick(window, Qt.Key.Key_Space)
        qtbot.waitUntil(lambda: window.run_state.running)
        assert toggle.text() == "Pause"


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


def test_the_palette_finds_and_does_an_action_and_another_one_after_it(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    qtbot.waitUntil(lambda: window.run_state.running)
    window.action_views.palette.open()
    QTest.keyClicks(window.action_views.palette.query, "one step")  # the space is a letter there
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
    assert "run.toggle" in palette.shown()
    QTest.keyClick(palette.query, Qt.Key.Key_Return)
    assert not palette.isVisible()
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
    step = window.run_state.step
    palette.open()
    QTest.keyClicks(palette.query, "one step")
    QTest.keyClick(palette.query, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.run_state.step == step + 1)
