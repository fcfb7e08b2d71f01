"""Announcements to screen readers that do not depend on the focus."""

from __future__ import annotations

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget


def announce_text(widget: QWidget, words: str, urgent: bool) -> None:
    """Have screen readers say this text; `urgent`: interrupt what they are saying."""
    event = QAccessibleAnnouncementEvent(widget, words)
    polite = QAccessible.AnnouncementPoliteness
    event.setPoliteness(polite.Assertive if urgent else polite.Polite)
    QAccessible.updateAccessibility(event)
