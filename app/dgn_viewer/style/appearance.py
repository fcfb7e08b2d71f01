"""Selection and application of the theme."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QApplication

from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.style import stylesheet
from dgn_viewer.style.chosen_numbers import choose_numbers
from dgn_viewer.style.type_scale import BASE_PIXELS


def resolve_theme(choice: str, numbers: str = LIGHT.numbers, scale: float = 1.0) -> Theme:
    """Return the theme for 'light', 'dark' or 'system', with numbers written like `numbers`.

    'system' follows the desktop, or is light if the desktop has no preference.
    """
    dark = choice == "dark"
    if choice == "system":
        dark = QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark
    theme = DARK if dark else LIGHT
    same = (theme.numbers, theme.scale) == (numbers, scale)
    return theme if same else replace(theme, numbers=numbers, scale=scale)


def style_application(application: QApplication, theme: Theme) -> None:
    """Set palette, style sheet, type size and number style of the application."""
    choose_numbers(application, theme.numbers)
    sheet = stylesheet.application_stylesheet(theme.scale)
    palette = stylesheet.theme_palette(theme)
    same_palette = application.palette() == palette
    application.setPalette(palette)
    set_base_font(application, theme.scale)
    if application.styleSheet() != sheet:
        application.setStyleSheet(sheet)
        return
    if same_palette:
        return
    # Qt caches the palette colours that the sheet refers to. Polishing clears that cache; setting
    # the sheet again would also lay out every widget, which takes 0.6 s.
    for widget in application.allWidgets():
        widget.style().polish(widget)
        widget.update()


def set_base_font(application: QApplication, scale: float = 1.0) -> None:
    """Use the platform's UI font at 13 px times `scale`, with tabular figures."""
    pixels = round(BASE_PIXELS * scale)
    if application.font().pixelSize() == pixels:
        return
    font = QFont(application.font())
    font.setPixelSize(pixels)
    font.setFeature(QFont.Tag("tnum"), 1)
    application.setFont(font)
