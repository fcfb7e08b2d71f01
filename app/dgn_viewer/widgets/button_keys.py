"""Space and Enter press the focused button before they act as shortcuts of the window."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractButton, QApplication

_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_PLAIN = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)


def press_focused_button(event: QEvent) -> bool:
    """Let a key that was not handled elsewhere act on the focused button.

    Qt gives a window shortcut precedence over a button, and Enter presses only buttons in dialogs.

    Returns:
        Whether the event was handled.
    """
    if not isinstance(event, QKeyEvent) or event.modifiers() not in _PLAIN:
        return False
    kind, key = event.type(), event.key()
    if not isinstance(button := QApplication.focusWidget(), QAbstractButton):
        return False
    if kind == QEvent.Type.ShortcutOverride and key in (*_ENTER, Qt.Key.Key_Space):
        event.accept()  # Qt sends it again as a KeyPress
        return True
    if kind == QEvent.Type.KeyPress and key in _ENTER:
        event.accept()
        if not event.isAutoRepeat():
            button.click()
        return True
    return False
