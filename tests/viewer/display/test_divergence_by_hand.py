"""A run that diverges in the window: its notice, its pictures, and the way back."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.training import Resume, SetLearningRate
from dgn_engine.scene.theme import DIMMED
from dgn_viewer.application import Viewer
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display


def test_a_run_that_diverged_keeps_its_pictures_and_goes_back_by_button_and_by_key(
    on_display: Viewer, user: XUser, qtbot: QtBot
) -> None:
    window, line = on_display.window, on_display.window.notice_views.line
    panel = window.docks.hosts["spectrum"]
    qtbot.waitUntil(lambda: window.history.step > 20 and panel.state() == "live")

    def diverge(rate: float) -> str:
        window.context.send(SetLearningRate(rate))
        window.context.send(Resume())
        qtbot.waitUntil(lambda: window.run_state.diverged is not None)
        step, back = window.run_state.diverged, window.run_state.back_to
        assert step is not None
        assert back is not None
        entry = line.entry
        assert entry is not None
        assert f"step {step:,}" in entry.notice.text
        qtbot.waitUntil(lambda: panel.footer().startswith(f"diverged at step {step:,} · step "))
        assert {item.opacity() for item in panel.charts.view.charts.items.values()} == {DIMMED}
        return f"Go back to step {back:,}"

    words = diverge(1e30)
    buttons = [one for one in line.findChildren(QAbstractButton) if one.text() == words]
    user.press(buttons[0])
    qtbot.waitUntil(lambda: window.run_state.diverged is None)
    qtbot.waitUntil(lambda: not panel.footer().startswith("diverged"))
    assert {item.opacity() for item in panel.charts.view.charts.items.values()} == {1.0}
    assert not window.run_state.running
    settings = window.run_state.settings
    assert settings is not None
    assert settings.learning_rate < 1.0
    assert words not in [
        one.text() for one in line.findChildren(QAbstractButton) if one.isVisible()
    ]

    words = diverge(1e31)
    action = window.registry["run.go_back"]
    assert (action.text(), action.isEnabled()) == (words, True)
    user.key(action.shortcut().toString().lower())
    qtbot.waitUntil(lambda: window.run_state.diverged is None)
    assert not action.isEnabled()
