"""Python's cyclic garbage collector, kept in the GUI thread."""

from __future__ import annotations

import gc

from pyqtgraph.util.garbage_collector import GarbageCollector
from PySide6.QtCore import QObject


class GuiGarbageCollector(QObject):
    """Runs Python's cyclic collector in the GUI thread only, while its parent lives.

    Otherwise a training thread may be the one that destroys Qt objects, which crashes.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._collector = GarbageCollector(interval=1.0)
        self._collector.timer.setParent(self)
        self.destroyed.connect(_enable_collection)

    def stop(self) -> None:
        """Give collection back to the interpreter."""
        self._collector.timer.stop()
        gc.enable()


def _enable_collection() -> None:
    gc.enable()


def install_gui_garbage_collector(parent: QObject) -> GuiGarbageCollector:
    """Collect garbage in the GUI thread until `parent` goes or `stop` is called."""
    return GuiGarbageCollector(parent)
