"""The number style chosen in the settings, applied to all texts of the window."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from dgn_engine.scene.number_style import rewrite_numbers

_STYLE = "number_style"  # application property: an example of the style


def choose_numbers(application: QApplication, example: str) -> None:
    """Write the numbers of all texts like this example, including those already on screen."""
    if application.property(_STYLE) != example:
        application.setProperty(_STYLE, example)
        for window in application.topLevelWidgets():  # Qt forwards it to the children
            QApplication.sendEvent(window, QEvent(QEvent.Type.LanguageChange))


def with_chosen_numbers(text: str) -> str:
    """Return the text with its numbers in the chosen style."""
    application = QApplication.instance()
    return (
        text if application is None else rewrite_numbers(text, application.property(_STYLE) or "")
    )
