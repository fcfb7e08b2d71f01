"""Undo and redo in the real window: what a drop did, a swap, an order; in menu and by key."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.training import Resume, Rewire, SetBeta, SetLearningRate, SwapRegime
from dgn_engine.scene.theme import DIMMED
from dgn_viewer.application import Viewer
from tests.daily import nightly
from tests.viewer.gestures import LEFT, open_file_page
from tests.viewer.seen_charts import visible_range

CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    return shared_viewer


def entries(viewer: Viewer) -> list[tuple[str, bool]]:
    """Undo and Redo as the menu Edit has them."""
    bar = viewer.window.menuBar()
    menus = {action.text(): action.menu() for action in bar.actions()}
    menu = menus["Edit"]
    assert isinstance(menu, QMenu)
    return [(action.text(), action.isEnabled()) for action in menu.actions()[:2]]


@pytest.mark.parametrize("use", ["gates", *nightly("weights")])
def test_what_a_drop_did_is_undone_by_ctrl_z_and_redone(
    viewer: Viewer,
    qtbot: QtBot,
    saved_weights: Path,
    use: str,
) -> None:
    window = viewer.window
    assert entries(viewer) == [("Undo", False), ("Redo", False)]
    page = open_file_page(viewer, qtbot, saved_weights, use)
    QTest.mouseClick(page.go, LEFT)
    change = f"{use} of {saved_weights.name}"
    qtbot.waitUntil(lambda: window.run_state.undo == change)
    assert entries(viewer) == [(f"Undo {change}", True), ("Redo", False)]
    assert window.run_state.regime == ("FL" if use == "gates" else "DL")
    QTest.keyClick(window, Qt.Key.Key_Z, CONTROL)
    qtbot.waitUntil(lambda: window.run_state.redo == change)
    assert window.run_state.regime == "DL"
    assert entries(viewer) == [("Undo", False), (f"Redo {change}", True)]
    assert window.notices.recent_notices[-1].text.startswith(f"Undo {change}")
    assert [mark.label for mark in window.history.view({}).marks][-1] == "undo"
    QTest.keyClick(window, Qt.Key.Key_Y, CONTROL)
    qtbot.waitUntil(lambda: window.run_state.undo == change)
    assert window.run_state.regime == ("FL" if use == "gates" else "DL")
    assert window.run_state.is_running  # it trained all the while


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
    window.registry["edit.undo"].trigger()  # an undo after an undo
    qtbot.waitUntil(lambda: window.run_state.regime == "DL")
    qtbot.waitUntil(lambda: window.run_state.undo == "")
    assert window.run_state.redo == "regime FR-II"
    window.registry["edit.redo"].trigger()
    qtbot.waitUntil(lambda: window.run_state.undo == "regime FR-II")
    assert (window.run_state.regime, window.run_state.wiring) == ("FR-II", (0, 1, 2))
    window.registry["edit.undo"].trigger()
    qtbot.waitUntil(lambda: window.run_state.regime == "DL")
    assert window.run_views.toolbar.regime.currentText().startswith("DL ")
    window.registry["run.reset"].trigger()
    qtbot.waitUntil(lambda: window.run_state.redo == "")  # another run


def test_a_run_that_diverged_by_a_dial_goes_back_with_it_and_once_more(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    panel = window.docks.hosts["spectrum"]
    qtbot.waitUntil(lambda: window.history.step > 20 and panel.panel_state() == "live")

    def opacities() -> set[float]:
        return {item.opacity() for item in panel.charts.view.charts.items.values()}

    for rate in (1e30, 1e31):
        window.context.send(SetLearningRate(rate))
        window.context.send(Resume())
        qtbot.waitUntil(lambda: window.run_state.back_to is not None)
        step, back = window.run_state.diverged, window.run_state.back_to
        assert step is not None
        entry = window.notices.notice_on_show()
        assert entry is not None
        assert f"step {step:,}" in entry.notice.text
        qtbot.waitUntil(lambda: opacities() == {DIMMED})
        action = window.registry["run.go_back"]
        assert action.text().endswith(f"step {back:,}")
        window.registry["run.go_back"].trigger()
        qtbot.waitUntil(lambda: window.run_state.diverged is None)
        qtbot.waitUntil(lambda: opacities() == {1.0})
        settings = window.run_state.settings
        assert settings is not None
        assert settings.learning_rate < 1.0
        assert not action.isEnabled()


ALT = Qt.KeyboardModifier.AltModifier


def said(viewer: Viewer) -> str:
    entry = viewer.window.notices.notice_on_show()
    return entry.notice.text if entry is not None else ""


def test_every_event_is_reached_by_keyboard_and_said(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    view = window.docks.hosts["training"].charts.view
    QTest.keyClick(window, Qt.Key.Key_PageDown, ALT)
    assert said(viewer).startswith("No events yet")
    changes = (SwapRegime("FR-II"), SetBeta(4.0), Rewire((1, 0, 2)))
    for count, change in enumerate(changes, start=1):
        qtbot.waitUntil(lambda count=count: window.run_state.step > 40 * count)
        window.context.send(change)
        qtbot.waitUntil(
            lambda count=count: len({m.x for m in window.history.view({}).marks}) == count
        )
    marks = window.history.view({}).marks
    qtbot.waitUntil(lambda: view.charts.shown_keys() != ())
    listed = len(window.notices.recent_notices)
    for number, mark in enumerate(marks, start=1):
        QTest.keyClick(window, Qt.Key.Key_PageDown, ALT)
        assert f"Event {number} of 3, step {int(mark.x):,}" in said(viewer)
        assert mark.sentence in said(viewer)
        low, high = visible_range(view, view.charts.shown_keys()[0])[0]
        assert low <= mark.x <= high
        assert not view.charts.items[view.charts.shown_keys()[0]].following
    QTest.keyClick(window, Qt.Key.Key_PageDown, ALT)
    assert "This is the last one." in said(viewer)
    QTest.keyClick(window, Qt.Key.Key_PageUp, ALT)
    assert "Event 2 of 3" in said(viewer)
    assert len(window.notices.recent_notices) == listed, (
        "what is only said again is not listed again"
    )
    QTest.keyClick(window, Qt.Key.Key_End, ALT)
    assert view.charts.items[view.charts.shown_keys()[0]].following
    QTest.keyClick(window, Qt.Key.Key_PageUp, ALT)
    assert "Event 3 of 3" in said(viewer)
