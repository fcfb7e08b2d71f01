"""A narrow window shows the results or a page of the inspector, and does not grow."""

from __future__ import annotations

from collections.abc import Callable

from pytestqt.qtbot import QtBot

from dgn_viewer.application import Viewer


def test_results_and_a_page_take_turns_where_both_have_no_room(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    window = make_viewer(paused=True).window
    window.resize(1024, 700)
    qtbot.waitUntil(lambda: window.width() == 1024)
    window.experiments.results.open()
    qtbot.wait(1)  # layout requests are handled
    assert window.width() == 1024
    window.pages.settings()
    qtbot.wait(1)
    assert window.columns.page.isVisible()
    assert not window.experiments.results.isVisible()
    window.inspector.leave()
    assert window.experiments.results.isVisible()
    window.pages.settings()
    window.experiments.results.open()
    qtbot.wait(1)
    assert window.experiments.results.isVisible()
    assert not window.columns.page.isVisible()
    assert window.width() == 1024
    window.resize(1920, 700)
    window.pages.settings()
    qtbot.wait(1)
    assert window.experiments.results.isVisible()
    assert window.columns.page.isVisible()
