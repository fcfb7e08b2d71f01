"""How much stands in the window: entries of menus, one dial, five regimes, short captions."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from dgn_viewer.application import Viewer
from dgn_viewer.timeline.probe_examples_dial import ProbeExamplesDial
from dgn_viewer.widgets.grouped_box import GroupedBox, parse_swap
from dgn_viewer.window import Window

FIVE = ["ReLU", "DL", "FL", "FR-II", "DLN"]


@pytest.fixture
def window(shared_viewer: Viewer) -> Window:
    return shared_viewer.window


def menu_of(window: Window, title: str) -> QMenu:
    menus = [action.menu() for action in window.menuBar().actions()]
    return next(menu for menu in menus if isinstance(menu, QMenu) and menu.title() == title)


def entries(menu: QMenu) -> list[QAction]:
    return [action for action in menu.actions() if not action.isSeparator()]


@pytest.mark.parametrize("title", ["File", "View"])
def test_a_menu_has_at_most_ten_entries(window: Window, title: str) -> None:
    assert 1 <= len(entries(menu_of(window, title))) <= 10


def test_the_number_of_examples_is_chosen_in_the_time_bar_alone(window: Window) -> None:
    assert window.findChildren(ProbeExamplesDial) == [window.time.bar.dial]
    assert window.time.bar.dial.isVisible()
    for host in window.docks.hosts.values():
        assert host.findChildren(ProbeExamplesDial) == []


def test_every_chooser_of_regimes_lists_the_same_five_and_the_same_others(window: Window) -> None:
    window.inspector.show_run_settings()
    form = window.inspector.run_page.form.fields["gating.regime"]
    window.pages.open_differences()
    page = window.inspector.page
    branch = getattr(page, "regime", None)
    toolbar, gates = window.run_views.toolbar.regime, menu_of(window, "Gates")
    assert isinstance(form, GroupedBox)
    assert isinstance(branch, GroupedBox)

    def names(menu: QMenu) -> list[tuple[str, str]]:
        return [(action.text(), action.toolTip()) for action in entries(menu)]

    def texts(menu: QMenu) -> list[str]:
        return [action.text() for action in entries(menu)]

    (more,) = (menu for action in entries(gates) if isinstance(menu := action.menu(), QMenu))
    assert [action.objectName() for action in entries(gates)[:-1]] == [f"regime.{n}" for n in FIVE]
    assert [texts(menu) for menu in toolbar.menus] == [texts(gates), texts(more)]
    assert names(branch.menus[0])[1:] == names(form.menus[0])
    assert names(branch.menus[1]) == names(form.menus[1])
    assert texts(form.menus[0]) == texts(gates)
    only_swapped = [text for text in texts(more) if text not in texts(form.menus[1])]
    assert only_swapped == ["FL, value network kept"]
    window.inspector.close_page()


def test_a_caption_says_step_and_number_of_examples_and_hover_the_rest(
    window: Window, qtbot: QtBot
) -> None:
    host = window.docks.hosts["spectrum"]
    examples = window.run_state.probe_examples
    qtbot.waitUntil(lambda: host.caption_text().endswith(f"· n {examples}"))
    assert host.caption_text().startswith("step ")
    assert "scaled to trace 1" in host.footer_text()
    assert "scaled to trace 1" not in host.caption_text()


def test_the_values_of_swaps_are_read_back() -> None:
    assert parse_swap("FL, kept") == ("FL", True)
    assert parse_swap("FL") == ("FL", False)
