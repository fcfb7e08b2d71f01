"""The page of settings in the real window: what is changed holds at once, and at the next start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import StartRun
from dgn_engine.protocol.watching import SetWatchShare
from dgn_engine.session.engine import Engine
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.settings_page import SettingsPage
from dgn_viewer.settings import DEFAULT_BUDGET, Settings
from tests.viewer.conftest import small_run

Open = Callable[..., Viewer]
START = StartRun(small_run(), paused=True)


@pytest.fixture
def page(viewer: Viewer) -> SettingsPage:
    viewer.window.registry["edit.settings"].trigger()
    page = viewer.window.inspector.page
    assert isinstance(page, SettingsPage)
    return page


def press(page: SettingsPage, keys: str) -> None:
    page.keys.setKeySequence(QKeySequence(keys))
    page.keys.editingFinished.emit()


def test_other_keys_act_and_stand_in_tips_the_list_and_the_next_start(
    make_viewer: Open, qtbot: QtBot
) -> None:
    viewer = make_viewer(home="home", paused=True)
    window = viewer.window
    window.registry["edit.settings"].trigger()
    page = window.inspector.page
    assert isinstance(page, SettingsPage)
    page.choose("run.step")
    press(page, "Ctrl+T")
    assert page.message.isHidden()
    assert window.registry["run.step"].toolTip().endswith("(Ctrl+T)")
    assert ("Ctrl+T", "One step") in window.action_views.sheet.rows()
    step = window.run_state.step
    window.setFocus()
    QTest.keyClick(window, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: window.run_state.step == step + 1)
    page.choose("run.epoch")
    page.no_keys.click()
    assert window.registry["run.epoch"].shortcuts() == []
    assert viewer.close()
    window = make_viewer(home="home", paused=True).window
    assert window.registry["run.step"].shortcut() == QKeySequence("Ctrl+T")
    assert window.registry["run.epoch"].shortcuts() == []
    window.registry["edit.settings"].trigger()
    page = window.inspector.page
    assert isinstance(page, SettingsPage)
    page.all_own.click()
    assert window.registry["run.step"].shortcut() == QKeySequence(".")
    assert window.context.settings.shortcuts == {}


def test_keys_of_another_action_and_keys_that_move_are_refused_in_a_sentence(
    viewer: Viewer, page: SettingsPage
) -> None:
    registry = viewer.window.registry
    page.choose("run.step")
    press(page, "Ctrl+E")
    assert page.message.text() == "Ctrl+E belongs to 'Export panel'; nothing was changed."
    press(page, "Esc")
    assert "cannot be given to an action" in page.message.text()
    assert registry["run.step"].shortcut() == QKeySequence(".")
    assert registry.keys.own == {}
    press(page, "Ctrl+T")
    page.choose("run.epoch")
    press(page, ".")  # free now
    assert page.message.isHidden()
    page.choose("run.step")
    page.own_keys.click()
    assert page.message.text() == ". belongs to 'One epoch' now: change that first."
    page.choose("run.epoch")
    page.own_keys.click()
    page.choose("run.step")
    page.own_keys.click()
    assert registry.keys.own == {}


def test_keys_of_a_regime_that_comes_later_are_kept_too(make_viewer: Open) -> None:
    viewer = make_viewer(home="home", paused=True)
    assert viewer.window.registry.keys.assign("regime.FL", "Ctrl+Alt+F") == ""
    assert viewer.close()
    window = make_viewer(home="home", paused=True).window
    assert window.registry["regime.FL"].shortcut() == QKeySequence("Ctrl+Alt+F")


def test_theme_start_and_budget_hold_at_once(
    viewer: Viewer, page: SettingsPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = viewer.window
    asked: list[Command] = []
    send = window.context.send

    def send_both(command: Command) -> None:
        asked.append(command)
        send(command)

    monkeypatch.setattr(window.pages, "_context", replace(window.context, send=send_both))
    page.theme.pick("dark")
    assert window.context.theme.now.name == "dark"
    page.start.pick("last")
    assert window.context.settings.start == "last"
    assert page.budget.value() == DEFAULT_BUDGET
    assert page.budget.text().endswith("% of the step rate")
    page.budget.setValue(20)
    assert asked == [SetWatchShare(0.2)]
    assert window.context.settings.budget == 20


def test_the_budget_of_a_new_run_is_that_of_the_session() -> None:
    engine = Engine(lambda _event: None, lambda _frame: None)
    engine.obey(START)
    assert engine.run is not None
    assert engine.run.budget.share == 0.05
    engine.obey(SetWatchShare(0.2))
    assert engine.run.budget.share == 0.2
    engine.obey(START)
    assert engine.run.budget.share == 0.2
    engine.obey(SetWatchShare(0.0))  # refused
    assert engine.run.budget.share == 0.2
    engine.close()


def test_nonsense_in_the_settings_file_is_as_if_it_were_not_set(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "settings.ini")
    for key, value in (
        ("start/run", "never"),
        ("watching/budget", "900"),
        ("window/shortcuts", "[1]"),
    ):
        settings.store.setValue(key, value)
    assert (settings.start, settings.budget, settings.shortcuts) == ("default", 0, {})
    settings.store.setValue("window/shortcuts", '{"a": 3, "b": "Ctrl+B"}')
    assert settings.shortcuts == {"b": "Ctrl+B"}


def test_numbers_are_written_as_chosen_in_panels_and_status_bar(
    viewer: Viewer, page: SettingsPage, qtbot: QtBot
) -> None:
    window = viewer.window
    page.numbers.pick("1 234,5")
    assert window.context.settings.numbers == "1 234,5"
    assert window.context.theme.now.numbers == "1 234,5"
    qtbot.waitUntil(lambda: "epoch" in window.run_views.status.text("epoch"))
    window.run_views.status.catch_up()
    said = window.run_views.status.text("epoch").removeprefix("epoch ")
    labels = [label.text() for label in window.run_views.status.findChildren(QLabel)]
    assert any(f"epoch {said.replace('.', ',')}" in text for text in labels)
    page.numbers.pick("1,234.5")
    assert window.context.theme.now.numbers == "1,234.5"
