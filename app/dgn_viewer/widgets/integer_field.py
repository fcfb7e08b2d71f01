"""A field for whole numbers that a passing wheel does not change."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QSpinBox


class IntegerField(QSpinBox):
    """A whole number; `zero` is the word that stands for 0."""

    def __init__(self, least: int, most: int, zero: str = "") -> None:
        super().__init__()
        self.setRange(least, most)
        self.setSpecialValueText(zero)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.lineEdit().setTextMargins(4, 0, 0, 0)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Only with the focus."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()
