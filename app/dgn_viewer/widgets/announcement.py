"""What a screen reader is to say, though nothing has the focus that says it."""

from __future__ import annotations

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget


def announce(widget: QWidget, words: str, urgent: bool) -> None:
    """Let screen readers say this; `urgent`: at once."""
    event = QAccessibleAnnouncementEvent(widget, words)
    polite = QAccessible.AnnouncementPoliteness
    event.setPoliteness(polite.Assertive if urgent else polite.Polite)
    QAccessible.updateAccessibility(event)
