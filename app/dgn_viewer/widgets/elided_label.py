"""One line of plain text that gives way: shortened where there is no room, whole in its tip."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy

from dgn_viewer.style.stylesheet import tip


class ElidedLabel(QLabel):
    """A label that never asks for more than `least` pixels."""

    def __init__(
        self,
        text: str = "",
        least: int = 40,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__()
        self._least, self._mode = least, mode
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.say(text)

    def say(self, text: str, more: str = "") -> None:
        """Show this; `more` is added to the tip."""
        self.setText(text)
        self.setToolTip(tip(f"{text}. {more}" if more else text) if text else "")

    def sizeHint(self) -> QSize:
        return QSize(self._least, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        room = self.contentsRect()
        text = self.fontMetrics().elidedText(self.text(), self._mode, room.width())
        painter.drawText(room, self.alignment(), text)
        painter.end()
