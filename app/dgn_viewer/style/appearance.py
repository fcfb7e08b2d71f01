"""The theme of the whole application: which one was chosen, and putting it on."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QApplication

from dgn_viewer.style import stylesheet
from dgn_viewer.style.theme import DARK, LIGHT, Theme

BASE_PIXELS = 13


def resolve(choice: str) -> Theme:
    """The theme of 'light', 'dark' or 'system' (what the desktop prefers; light if it is mute)."""
    if choice == "system":
        dark = QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark
        return DARK if dark else LIGHT
    return DARK if choice == "dark" else LIGHT


def apply(application: QApplication, theme: Theme) -> None:
    """Palette and style sheet of everything that is not painted by hand."""
    application.setPalette(stylesheet.palette(theme))
    application.setStyleSheet(stylesheet.stylesheet(theme))


def set_base_font(application: QApplication) -> None:
    """The platform's UI font at 13 px, numbers in tabular figures."""
    font = QFont(application.font())
    font.setPixelSize(BASE_PIXELS)
    font.setFeature(QFont.Tag("tnum"), 1)
    application.setFont(font)
