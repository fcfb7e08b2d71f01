"""Selection and application of the theme."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QApplication

from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.style import stylesheet
from dgn_viewer.style.chosen_numbers import choose_numbers

BASE_PIXELS = 13


def resolve_theme(choice: str, numbers: str = LIGHT.numbers) -> Theme:
    """Return the theme for 'light', 'dark' or 'system', with numbers written like `numbers`.

    'system' follows the desktop, or is light if the desktop has no preference.
    """
    dark = choice == "dark"
    if choice == "system":
        dark = QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark
    theme = DARK if dark else LIGHT
    return theme if theme.numbers == numbers else replace(theme, numbers=numbers)


def style_application(application: QApplication, theme: Theme) -> None:
    """Set palette, style sheet and number style of the application."""
    choose_numbers(application, theme.numbers)
    application.setPalette(stylesheet.theme_palette(theme))
    sheet = stylesheet.application_stylesheet()
    if application.styleSheet() != sheet:
        application.setStyleSheet(sheet)
        return
    # Qt caches the palette colours that the sheet refers to. Polishing clears that cache; setting
    # the sheet again would also lay out every widget, which takes 0.6 s.
    for widget in application.allWidgets():
        widget.style().polish(widget)
        widget.update()


def set_base_font(application: QApplication) -> None:
    """Use the platform's UI font at 13 px, with tabular figures."""
    font = QFont(application.font())
    font.setPixelSize(BASE_PIXELS)
    font.setFeature(QFont.Tag("tnum"), 1)
    application.setFont(font)
