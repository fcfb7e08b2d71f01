"""The theme of the whole application: which one was chosen, and putting it on."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QApplication

from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.style import stylesheet
from dgn_viewer.style.chosen_numbers import choose_numbers

BASE_PIXELS = 13


def resolve(choice: str, numbers: str = LIGHT.numbers) -> Theme:
    """The theme of 'light', 'dark' or 'system' (what the desktop prefers; light if it is mute),
    with numbers written as in this example.
    """
    dark = choice == "dark"
    if choice == "system":
        dark = QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark
    theme = DARK if dark else LIGHT
    return theme if theme.numbers == numbers else replace(theme, numbers=numbers)


def apply(application: QApplication, theme: Theme) -> None:
    """Palette, style sheet and style of numbers of everything that is not painted by hand."""
    choose_numbers(application, theme.numbers)
    application.setPalette(stylesheet.palette(theme))
    sheet = stylesheet.stylesheet()
    if application.styleSheet() != sheet:
        application.setStyleSheet(sheet)
        return
    # The sheet refers to the palette, and Qt keeps the colours that it has looked up there.
    # Polishing drops them; setting the sheet again would lay out every widget, too: 0.6 s.
    for widget in application.allWidgets():
        widget.style().polish(widget)
        widget.update()


def set_base_font(application: QApplication) -> None:
    """The platform's UI font at 13 px, numbers in tabular figures."""
    font = QFont(application.font())
    font.setPixelSize(BASE_PIXELS)
    font.setFeature(QFont.Tag("tnum"), 1)
    application.setFont(font)
