"""Room for the Compare layout: the layer strip is folded in a low window."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QMainWindow, QToolBar

from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.shell.window_layout import SideColumns

TALL = 1020  # pixels; a higher window has room for the strip above two rows of 220 pixels
WIDE = 1700  # pixels; a wider window has room for a page beside three charts of 220 pixels


class CompareRoom(QObject):
    """Folds the layer strip while the Compare layout is shown, and closes an inspector page.

    The page is closed once, when a comparison begins: a page that is opened later stays.
    """

    def __init__(
        self, window: QMainWindow, docks: PanelDocks, strip: QToolBar, columns: SideColumns
    ) -> None:
        super().__init__(window)
        self._window, self._docks, self._strip, self._columns = window, docks, strip, columns
        self._folded = False
        docks.arrangement.compared.connect(self._close_page)
        docks.arrangement.arranged.connect(self._fold_strip)
        EventFilter(self, {QEvent.Type.Resize: lambda _event: self._fold_strip()}, window)

    def _close_page(self) -> None:
        if self._window.width() < WIDE:
            self._columns.inspector.close_page()

    def _fold_strip(self) -> None:
        folded = self._docks.arrangement.is_showing_comparison and self._window.height() < TALL
        if folded != self._folded:
            self._folded = folded
            self._strip.setHidden(folded)
            self._docks.arrangement.schedule_refit()
