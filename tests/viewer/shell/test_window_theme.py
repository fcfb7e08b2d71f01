"""The theme of a window: what is chosen, what it means, who is to know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.settings import Settings
from dgn_viewer.shell.window_theme import WindowTheme


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "settings.ini")


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> Iterator[QWidget]:
    before = QPalette(qapp.palette())
    window = QWidget()
    qtbot.addWidget(window)
    yield window
    qapp.setPalette(before)
    qapp.setStyleSheet("")


def test_a_choice_is_told_and_kept_unless_it_is_that_of_a_session(
    window: QWidget, settings: Settings
) -> None:
    theme, told = WindowTheme(settings, "", window), list[Theme]()
    theme.changed.connect(told.append)
    settings.theme = "light"
    theme.choose("dark")
    assert (theme.choice, theme.now, settings.theme, told) == ("dark", DARK, "dark", [DARK])
    theme.choose("light", keep=False)
    assert (theme.choice, theme.now, settings.theme, told[1:]) == ("light", LIGHT, "dark", [LIGHT])


def test_a_choice_at_start_stands_before_that_of_the_settings(
    window: QWidget, settings: Settings
) -> None:
    settings.theme = "dark"
    assert WindowTheme(settings, "", window).now == DARK
    assert WindowTheme(settings, "light", window).now == LIGHT


def test_numbers_are_written_as_the_settings_have_them_once_it_is_applied(
    window: QWidget, settings: Settings
) -> None:
    theme = WindowTheme(settings, "light", window)
    settings.numbers = "1 234,5"
    theme.apply()
    assert theme.now.numbers == settings.numbers
    settings.numbers = LIGHT.numbers
    theme.apply()
    assert theme.now == LIGHT
