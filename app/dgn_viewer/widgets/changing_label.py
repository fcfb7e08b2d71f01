"""A label whose words change all the time, in a room of its own."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from dgn_viewer.widgets.layouts import PlainLabel

_GRID = 16  # pixels: the room is a multiple of them …
_SPARE = 48  # … and is given back where so many are empty


class ChangingLabel(QWidget):
    """Other words lay the window out again only where they need another room: a label's own
    change of text makes the whole window arrange its docks anew."""

    def __init__(self, alignment: Qt.AlignmentFlag, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = PlainLabel("", self)
        self._label.setContentsMargins(8, 0, 8, 0)
        self._label.setAlignment(alignment | Qt.AlignmentFlag.AlignVCenter)
        self._room, self._given = 0, ""

    def text(self) -> str:
        return self._label.text()

    def setText(self, text: str) -> None:
        if text == self._given:
            return
        self._given = text
        self._label.setText(text)
        wanted = self._label.sizeHint().width()
        if not wanted <= self._room <= wanted + _SPARE:
            self._room = -(-wanted // _GRID) * _GRID
            self.updateGeometry()

    def sizeHint(self) -> QSize:
        return QSize(self._room, self._label.sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._label.setGeometry(self.rect())
