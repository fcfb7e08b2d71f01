"""Undo and redo in the real window: what a drop did, a swap, an order; in menu and by key."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.training import Rewire, SetLearningRate
from dgn_viewer.application import Viewer
from tests.viewer.gestures import LEFT, opened_file

CONTROL = Qt.KeyboardModifier.ControlModifier


def entries(viewer: Viewer) -> list[tuple[str, bool]]:
    """Undo and Redo as the menu Edit has them."""
    bar = viewer.window.menuBar()
    menus = {action.text(): action.menu() for action in bar.actions()}
    menu = menus["Edit"]
    assert isinstance(menu, QMenu)
    return [(action.text(), action.isEnabled()) for action in menu.actions()[:2]]


@pytest.mark.parametrize(("use", "what"), [("gates", "gates"), ("weights", "weights")])
def test_what_a_drop_did_is_undone_by_ctrl_z_and_redone(
    viewer: Viewer,
    qtbot: QtBot,
    saved_weights: Path,
    use: str,
    what: str,
) -> None:
    window = viewer.window
    assert entries(viewer) == [("Undo", False), ("Redo", False)]
    page = opened_file(viewer, qtbot, saved_weights, use)
    QTest.mouseClick(page.go, LEFT)
    change = f"{what} of {saved_weights.name}"
    qtbot.waitUntil(lambda: window.run_state.undo == change)
    assert entries(viewer) == [(f"Undo {change}", True), ("Redo", False)]
    assert window.run_state.regime == ("FL" if use == "gates" else "DL")
    QTest.keyClick(window, Qt.Key.Key_Z, CONTROL)
    qtbot.waitUntil(lambda: window.run_state.redo == change)
    assert window.run_state.regime == "DL"
    assert entries(viewer) == [("Undo", False), (f"Redo {change}", True)]
    assert window.notices.recent[-1].text.startswith(f"Undo {change}")
    assert [mark.label for mark in window.history.view({}).marks][-1] == "undo"
    QTest.keyClick(window, Qt.Key.Key_Y, CONTROL)
    qtbot.waitUntil(lambda: window.run_state.undo == change)
    assert window.run_state.regime == ("FL" if use == "gates" else "DL")
    assert window.run_state.running  # it trained all the while


def test_an_order_is_undone_before_the_regime_that_was_chosen_earlier(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    window.registry["regime.FR-II"].trigger()
    qtbot.waitUntil(lambda: window.run_state.undo == "regime FR-II")
    window.context.send(Rewire((1, 0, 2)))
    qtbot.waitUntil(lambda: window.run_state.wiring == (1, 0, 2))
    window.registry["edit.undo"].trigger()
    qtbot.waitUntil(lambda: window.run_state.wiring == (0, 1, 2))
    qtbot.waitUntil(lambda: window.run_state.undo == "regime FR-II")
    assert window.run_state.regime == "FR-II"
    window.registry["edit.undo"].trigger()
    qtbot.waitUntil(lambda: window.run_state.regime == "DL")
    qtbot.waitUntil(lambda: window.run_state.undo == "")
    assert window.run_views.toolbar.regime.currentText().startswith("DL ")
    window.registry["run.reset"].trigger()
    qtbot.waitUntil(lambda: window.run_state.redo == "")  # another run


def test_a_run_that_diverged_by_a_dial_goes_back_with_it(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    window.context.send(SetLearningRate(1e30))
    qtbot.waitUntil(lambda: window.run_state.back_to is not None)
    window.registry["run.go_back"].trigger()
    qtbot.waitUntil(lambda: window.run_state.diverged is None)
    settings = window.run_state.settings
    assert settings is not None
    assert settings.learning_rate < 1.0
