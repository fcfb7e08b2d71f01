"""Python's cyclic garbage collector, kept in the GUI thread."""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

INTERVAL = 1000  # milliseconds between two looks at what has gathered


class GuiGarbageCollector(QObject):
    """Runs Python's cyclic collector in the GUI thread only, while its parent lives.

    Otherwise a training thread may be the one that destroys Qt objects, which crashes.
    Source: Erik Janssens, pydev.blogspot.com/2014/03/should-python-garbage-collector-be.html; as
    `pyqtgraph.util.garbage_collector`, without importing pyqtgraph.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._timer = QTimer(self)
        self._timer.timeout.connect(collect)
        gc.disable()
        self._timer.start(INTERVAL)
        self.destroyed.connect(_enable_collection)

    def spare_what_is_there(self) -> None:
        """Look at nothing that exists by now: torch alone is hundreds of thousands of objects, and
        looking through them would hold up the window, and the run, for a fifth of a second."""
        gc.freeze()

    def stop(self) -> None:
        """Give collection back to the interpreter."""
        self._timer.stop()
        gc.enable()


def collect() -> None:
    """Collect each generation that the interpreter would have collected, from the youngest up."""
    counts, limits = gc.get_count(), gc.get_threshold()
    for generation, (count, limit) in enumerate(zip(counts, limits, strict=True)):
        if count <= limit:
            return
        gc.collect(generation)


def _enable_collection() -> None:
    gc.enable()


def install_gui_garbage_collector(parent: QObject) -> GuiGarbageCollector:
    """Collect garbage in the GUI thread until `parent` goes or `stop` is called."""
    return GuiGarbageCollector(parent)
