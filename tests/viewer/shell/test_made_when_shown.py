"""Parts of the window that are made when they are first shown, as if they had always been there."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.scene.theme import DARK
from dgn_viewer.application import Viewer
from dgn_viewer.window import Window

LATE = {  # action: the part that it opens
    "help.guide": "guides.help",
    "help.log": "guides.log",
    "help.console": "guides.console",
    "help.shortcuts": "action_views.sheet",
    "view.palette": "action_views.palette",
    "view.notices": "notice_views.list",
    "help.tour": "guides.tour.callout",
    "file.new_run": "start_card.pages",
    "experiments.list": "experiments.results.panel",
}


def _is_made(window: Window, part: str) -> bool:
    owner, _, name = part.rpartition(".")
    return name in vars(attrgetter(owner)(window))


def test_a_window_that_opens_has_only_what_is_in_sight(viewer: Viewer) -> None:
    window = viewer.window
    made = tuple(name for name, host in window.docks.hosts.items() if host.is_made)
    assert made == window.docks.visible_panels()
    assert [part for part in LATE.values() if _is_made(window, part)] == []
    hidden = [host for host in window.docks.hosts.values() if not host.is_made]
    assert hidden
    assert not any(host.findChildren(QWidget) for host in hidden)


@pytest.mark.parametrize("action", LATE)
def test_an_action_makes_the_part_that_it_opens_and_later_uses_it_again(
    viewer: Viewer, qtbot: QtBot, action: str
) -> None:
    window, part = viewer.window, LATE[action]
    qtbot.waitUntil(window.registry[action].isEnabled)
    window.registry[action].trigger()
    assert _is_made(window, part)
    made: QWidget = attrgetter(part)(window)
    assert made.isVisible()
    window.registry[action].trigger()
    assert attrgetter(part)(window) is made


def test_panels_made_late_have_the_theme_and_choices_of_before_and_draw_the_run(
    viewer: Viewer, qtbot: QtBot, choose_late: Callable[[Window], dict[str, str]]
) -> None:
    window, docks = viewer.window, viewer.window.docks
    chosen = choose_late(window)
    window.context.theme.select_theme("dark", keep=False)
    assert not any(docks.hosts[name].is_made for name in chosen)
    for name, value in chosen.items():
        docks.show_panel(name)
        host = docks.hosts[name]
        qtbot.waitUntil(lambda host=host: host.panel_state() in ("live", "unavailable", "reading"))  # type: ignore[misc]  # as it is now
        assert value in host.drawn.choices.values()
        assert host.palette().color(host.backgroundRole()) == QColor(DARK.panel)
    window.context.theme.select_theme("light", keep=False)
    assert docks.hosts["drift"].palette().color(host.backgroundRole()) != QColor(DARK.panel)


def test_panels_keep_their_background_when_the_style_sheet_is_applied_again(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window, docks = viewer.window, viewer.window.docks
    docks.show_panel("drift")
    window.context.theme.select_theme("dark", keep=False)
    host = docks.hosts["drift"]
    for again in (lambda: window.setStyleSheet("QDial { margin: 1px; }"), host.ensurePolished):
        host.style().polish(host)
        again()
        assert host.palette().color(host.backgroundRole()) == QColor(DARK.panel)
        assert host.grab().toImage().pixelColor(1, host.height() // 2) == QColor(DARK.panel)
    window.setStyleSheet("")


def test_a_picture_of_the_window_makes_nothing_and_hides_nothing(viewer: Viewer) -> None:
    window = viewer.window
    window.grab()  # Qt sends hidden widgets their pending changes of size, with painting disabled
    assert [part for part in LATE.values() if _is_made(window, part)] == []
    window.registry["file.new_run"].trigger()
    assert window.start_card.pages.updatesEnabled()


def test_the_experiments_are_made_whoever_shows_their_dock(viewer: Viewer) -> None:
    results = viewer.window.experiments.results
    results.toggleViewAction().trigger()  # an entry of the menu that Qt opens on a title bar
    assert results.panel.isVisible()
    assert results.widget() is results.panel


@pytest.fixture
def choose_late() -> Callable[[Window], dict[str, str]]:
    """Chooses an option of each hidden panel that has one, and returns the values by panel."""

    def choose(window: Window) -> dict[str, str]:
        chosen = {}
        for name in ("drift", "updates"):
            host = window.docks.hosts[name]
            option = host.spec.options[0]
            values = [value for value, _ in option.values(window.history.view({}))]
            host.set_choice(option.id, chosen.setdefault(name, values[-1]))
        return chosen

    return choose
