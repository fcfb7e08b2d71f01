"""The title of a docked panel: its name, and buttons to float and to close it."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QDockWidget, QFrame, QHBoxLayout, QLabel, QToolButton

from dgn_viewer.style.stylesheet import icon
from dgn_viewer.style.theme import Theme

_HEIGHT = 20


class DockTitle(QFrame):
    """Drags and double clicks are left to the dock, which moves and floats itself."""

    def __init__(self, dock: QDockWidget) -> None:
        super().__init__(dock)
        self.setObjectName("dock_title")
        self.setFixedHeight(_HEIGHT)
        self._dock = dock
        name = QLabel(dock.windowTitle(), self)
        name.setProperty("role", "heading")
        self._float = self._button(f"Float {dock.windowTitle()}, or dock it again")
        self._float.clicked.connect(lambda: dock.setFloating(not dock.isFloating()))
        self._close = self._button(f"Close {dock.windowTitle()}")
        self._close.clicked.connect(dock.close)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 0, 4, 0)
        row.setSpacing(4)
        row.addWidget(name, 1)
        row.addWidget(self._float)
        row.addWidget(self._close)

    def set_theme(self, theme: Theme) -> None:
        """Recolour the buttons."""
        self._float.setIcon(icon("float", theme, colour=theme.muted))
        self._close.setIcon(icon("close", theme, colour=theme.muted))

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setIconSize(QSize(12, 12))
        return button
