"""Space and Enter press the button that has the focus, before they are keys of the window."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractButton, QApplication

_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_PLAIN = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)


def press_focused_button(event: QEvent) -> bool:
    """Let a key that came up to this part of the window act on the focused button.

    Qt gives a shortcut of the window its key before a button, and Enter to buttons of dialogs only.

    Returns:
        Whether the event is dealt with: nobody else is to have it.
    """
    if not isinstance(event, QKeyEvent) or event.modifiers() not in _PLAIN:
        return False
    kind, key = event.type(), event.key()
    if not isinstance(button := QApplication.focusWidget(), QAbstractButton):
        return False
    if kind == QEvent.Type.ShortcutOverride and key in (*_ENTER, Qt.Key.Key_Space):
        event.accept()  # it comes again as a key
        return True
    if kind == QEvent.Type.KeyPress and key in _ENTER:
        event.accept()
        if not event.isAutoRepeat():
            button.click()
        return True
    return False
