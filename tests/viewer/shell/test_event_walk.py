"""Events by keyboard: each is shown on the time axes and said; then all is followed again."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.training import Rewire, SetBeta, SwapRegime
from dgn_viewer.application import Viewer
from tests.viewer.seen_charts import visible_range

ALT = Qt.KeyboardModifier.AltModifier


def said(viewer: Viewer) -> str:
    entry = viewer.window.notices.shown()
    return entry.notice.text if entry is not None else ""


def test_every_event_is_reached_by_keyboard_and_said(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    view = window.docks.hosts["training"].charts.view
    QTest.keyClick(window, Qt.Key.Key_PageDown, ALT)
    assert said(viewer).startswith("No event yet")
    changes = (SwapRegime("FR-II"), SetBeta(4.0), Rewire((1, 0, 2)))
    for count, change in enumerate(changes, start=1):
        qtbot.waitUntil(lambda count=count: window.run_state.step > 40 * count)
        window.context.send(change)
        qtbot.waitUntil(
            lambda count=count: len({m.x for m in window.history.view({}).marks}) == count
        )
    marks = window.history.view({}).marks
    qtbot.waitUntil(lambda: view.charts.shown_keys() != ())
    listed = len(window.notices.recent)
    for number, mark in enumerate(marks, start=1):
        QTest.keyClick(window, Qt.Key.Key_PageDown, ALT)
        assert f"Event {number} of 3, step {int(mark.x):,}" in said(viewer)
        assert mark.sentence in said(viewer)
        low, high = visible_range(view, view.charts.shown_keys()[0])[0]
        assert low <= mark.x <= high
        assert not view.charts.items[view.charts.shown_keys()[0]].following
    QTest.keyClick(window, Qt.Key.Key_PageDown, ALT)
    assert "It is the last one." in said(viewer)
    QTest.keyClick(window, Qt.Key.Key_PageUp, ALT)
    assert "Event 2 of 3" in said(viewer)
    assert len(window.notices.recent) == listed, "what is only said again is not listed again"
    QTest.keyClick(window, Qt.Key.Key_End, ALT)
    assert view.charts.items[view.charts.shown_keys()[0]].following
    QTest.keyClick(window, Qt.Key.Key_PageUp, ALT)
    assert "Event 3 of 3" in said(viewer)
