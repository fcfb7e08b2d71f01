"""The row of the window that holds the layers strip."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolBar, QWidget


class StripBar(QToolBar):
    """A toolbar that cannot be moved, so that the strip stays where it is."""

    def __init__(self, strip: QWidget, window: QWidget) -> None:
        super().__init__("Layers strip", window)
        self.setObjectName("bar.strip")
        self.setMovable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.setStyleSheet("QToolBar { padding: 0; border: none; }")
        self.addWidget(strip)
