"""One panel that fills the window for a while, and the layout that comes back afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QByteArray
from PySide6.QtWidgets import QDockWidget, QMainWindow, QToolBar

from dgn_viewer.docks.dock_layout import described


class MaximisedPanel:
    """Hides the other panels; what else the window shows stays as it is."""

    def __init__(self, window: QMainWindow, docks: Mapping[str, QDockWidget]) -> None:
        self._window = window
        self._docks = docks
        self._state = QByteArray()
        self.name = ""  # the panel; '' while none is maximised
        self.open: frozenset[str] = frozenset()  # panels that the layout before has
        self.layout: dict[str, Any] = {}  # as `described` gave it

    def enter(self, name: str) -> None:
        """Fill the window with this panel alone, docked."""
        self.leave()
        self.open = frozenset(n for n, dock in self._docks.items() if not dock.isHidden())
        self.layout = described(self._window, self._docks)
        self._state = self._window.saveState()
        self.name = name
        for other, dock in self._docks.items():
            if other != name:
                dock.hide()
        self._docks[name].setFloating(False)
        self._docks[name].show()

    def leave(self) -> None:
        """The layout before, to the pixel; what was opened beside the panels meanwhile stays."""
        if not self.name:
            return
        self.name = ""
        panels = set(self._docks.values())
        others = [
            part
            for kind in (QDockWidget, QToolBar)
            for part in self._window.findChildren(kind)
            if part not in panels
        ]
        hidden = [(part, part.isHidden()) for part in others]
        self._window.restoreState(self._state)
        for part, was in hidden:
            part.setHidden(was)
