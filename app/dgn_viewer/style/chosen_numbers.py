"""The style of numbers that is chosen in the settings, for all texts of the window."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from dgn_engine.scene.number_style import written

_STYLE = "number_style"  # a property of the application: an example of the style


def choose_numbers(application: QApplication, example: str) -> None:
    """Write the numbers of all texts as in this example, also of those that are shown now."""
    if application.property(_STYLE) != example:
        application.setProperty(_STYLE, example)
        for window in application.topLevelWidgets():  # each passes it on to what it contains
            QApplication.sendEvent(window, QEvent(QEvent.Type.LanguageChange))


def with_chosen_numbers(text: str) -> str:
    """Return the text with its numbers in the style that is chosen."""
    application = QApplication.instance()
    return text if application is None else written(text, application.property(_STYLE) or "")
