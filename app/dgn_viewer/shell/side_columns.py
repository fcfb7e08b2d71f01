"""The Results panel and the inspector's page take turns in a window with no room for both."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QDockWidget, QMainWindow

from dgn_viewer.experiments.results_panel import ResultsDock
from dgn_viewer.inspector.inspector_column import Inspector, InspectorDock

_SEPARATOR = 4  # pixels between two columns


class SideColumns(QObject):
    """Keeps the window from growing beyond its screen, which Qt does where a column is shown that
    has no room: the column that is opened last stays, and results come back once the page is
    closed."""

    def __init__(
        self, window: QMainWindow, inspector: Inspector, page: InspectorDock, results: ResultsDock
    ) -> None:
        super().__init__(window)
        self._window, self._inspector, self._page, self._results = window, inspector, page, results
        self._waiting = False  # the results, for the page to be closed
        page.opening.connect(self._on_page_opening)
        results.opening.connect(self._on_results_opening)
        inspector.closed.connect(self._on_page_closed)

    def _on_page_opening(self) -> None:
        if not self._results.isFloating() and not self._has_room(self._results, self._page):
            self._waiting = True
            self._results.hide()

    def _on_results_opening(self) -> None:
        self._waiting = False
        if not self._results.isFloating() and not self._has_room(self._page, self._results):
            self._inspector.leave()

    def _on_page_closed(self) -> None:
        if self._waiting:
            self._waiting = False
            self._results.open()

    def _has_room(self, shown: QDockWidget, opened: QDockWidget) -> bool:
        """Whether a column can be opened beside the one that may be shown."""
        if shown.isHidden():
            return True
        least = max(opened.minimumSizeHint().width(), opened.minimumWidth())
        return self._window.minimumSizeHint().width() + _SEPARATOR + least <= self._window.width()
