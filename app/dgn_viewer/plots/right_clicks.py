"""Right clicks on a widget, told apart from right drags; no menu of anybody else appears there."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QWidget


class RightClicks(QObject):
    """Watches one widget; the events go on to it, as a right drag zooms."""

    clicked = Signal(QPoint)  # in pixels of the widget

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._pressed: QPoint | None = None
        widget.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QMouseEvent) and event.button() == Qt.MouseButton.RightButton:
            place = event.position().toPoint()
            if event.type() == QEvent.Type.MouseButtonPress:
                self._pressed = place
            elif event.type() == QEvent.Type.MouseButtonRelease:
                before, self._pressed = self._pressed, None
                if before is not None and _near(before, place):
                    self.clicked.emit(place)
        return False


def _near(one: QPoint, other: QPoint) -> bool:
    return (one - other).manhattanLength() < QApplication.startDragDistance()
