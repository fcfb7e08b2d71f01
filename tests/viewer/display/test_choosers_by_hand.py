"""The list of regimes in the toolbar, by mouse and by keys."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from dgn_viewer.application import Viewer
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display


def test_a_regime_is_chosen_by_keys_also_under_more_and_a_press_closes_the_list(
    on_display: Viewer, user: XUser, qtbot: QtBot
) -> None:
    window = on_display.window
    box = window.run_views.toolbar.regime
    menu, more = box.menus
    user.click(box)
    qtbot.waitUntil(menu.isVisible)
    user.click(box)
    qtbot.waitUntil(lambda: not menu.isVisible())
    qtbot.wait(200)
    assert not menu.isVisible()
    user.click(box)
    qtbot.waitUntil(menu.isVisible)
    for key in ("Up", "Right"):  # the last entry is 'More'
        user.key(key)
    qtbot.waitUntil(more.isVisible)
    user.key("Return")
    qtbot.waitUntil(lambda: window.run_state.regime == "soft-ReLU")
    assert (menu.isVisible(), box.value) == (False, "soft-ReLU")
