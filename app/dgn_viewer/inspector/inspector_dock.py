"""The place of the inspector: a column on the right that cannot be moved."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QWidget


class InspectorDock(QDockWidget):
    """Hidden until a page is opened."""

    def __init__(self, inspector: QWidget, window: QWidget) -> None:
        super().__init__("Inspector", window)
        self.setObjectName("dock.inspector")
        self.setTitleBarWidget(QWidget(self))  # the inspector has its own
        self.setAllowedAreas(Qt.DockWidgetArea.RightDockWidgetArea)
        self.setFeatures(QDockWidget.DockWidgetFeature.NoDockWidgetFeatures)
        self.setWidget(inspector)
        self.hide()
