"""Undo and redo of the window layout and the linked zoom, independent of the run's history."""

from __future__ import annotations

from typing import Any, NamedTuple

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QApplication, QMainWindow

from dgn_viewer.docks.linked_steps import StepZoom
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.event_filter import EventFilter

MOST = 100  # layouts in the history
QUIET = 400  # milliseconds without a change before a layout is recorded
_NEAR = 0.02  # shares that differ by less come from resizing the window, not from the user
_MOVES = (QEvent.Type.Resize, QEvent.Type.Move, QEvent.Type.Show, QEvent.Type.Hide)


class _Arrangement(NamedTuple):
    """A layout, the name of its preset ('' for none), and the linked zoom."""

    layout: dict[str, Any]
    preset: str
    zoom: StepZoom


class LayoutHistory(QObject):
    """The undo history of the layout.

    Changes in quick succession, or while a mouse button is down, count as one. Each entry is a
    `PanelArrangement.current_layout`, which `PanelArrangement.restore_layout` applies.
    """

    changed = Signal()  # can_undo or can_redo may have changed

    def __init__(self, docks: PanelDocks, window: QMainWindow, most: int = MOST) -> None:
        """`most`: the maximum length of the history."""
        super().__init__(window)
        self._most = most
        self._docks, self._window = docks, window
        self._now: _Arrangement | None = None
        # Of the layout before the Compare layout, which has a history of its own.
        self._outside: tuple[_Arrangement | None, list[_Arrangement], list[_Arrangement]] | None
        self._outside = None
        self._done: list[_Arrangement] = []
        self._undone: list[_Arrangement] = []
        self._putting = False
        self._quiet = QTimer(self, singleShot=True, interval=QUIET)
        self._quiet.timeout.connect(self.record_layout)
        docks.changed.connect(self._schedule_record)
        docks.arrangement.arranged.connect(self._schedule_record)
        docks.steps.changed.connect(self._schedule_record)
        docks.steps.zoomed.connect(self._schedule_record)
        on_event = {kind: lambda _event: self._schedule_record() for kind in _MOVES}
        self._filter = EventFilter(self, on_event, *docks.dock_frames())

    @property
    def can_undo(self) -> bool:
        return bool(self._done)

    @property
    def can_redo(self) -> bool:
        return bool(self._undone)

    def undo(self) -> None:
        self.record_layout()
        self._step_history(self._done, self._undone)

    def redo(self) -> None:
        self.record_layout()
        self._step_history(self._undone, self._done)

    def record_layout(self) -> None:
        """Record the current layout if it has changed.

        Entering and leaving the Compare layout and maximising a panel do not count as changes.
        """
        self._quiet.stop()
        if QApplication.mouseButtons() != Qt.MouseButton.NoButton:
            self._schedule_record()  # still dragging
            return
        if not self._window.isVisible() or self._docks.arrangement.maximised_name:
            return
        layout = self._docks.arrangement.current_layout()
        if layout["tree"] is None:
            return
        zoom = self._docks.steps.zoom
        before, self._now = self._now, _Arrangement(layout, self._docks.arrangement.preset, zoom)
        inside = self._docks.arrangement.is_showing_comparison
        if inside and self._outside is None:
            self._outside = before, self._done, self._undone
            self._done, self._undone = [], []
            self.changed.emit()
            return
        if not inside and self._outside is not None:
            before, self._done, self._undone = self._outside
            self._outside = None
            self.changed.emit()
        if before is None:
            return
        if is_same(before.layout, layout) and before.zoom == zoom:
            return
        self._done.append(before)
        del self._done[: -self._most]
        self._undone.clear()
        self.changed.emit()

    def stop(self) -> None:
        """Stop recording, when the window closes."""
        self._quiet.stop()
        self._filter.stop_watching()

    def _schedule_record(self) -> None:
        if not self._putting:
            self._quiet.start()

    def _step_history(self, source: list[_Arrangement], target: list[_Arrangement]) -> None:
        if not source or self._now is None:
            return
        self._putting = True
        try:
            target.append(self._now)
            self._now = source.pop()
            if not is_same(self._now.layout, target[-1].layout):
                self._docks.arrangement.restore_layout(self._now.layout, self._now.preset)
                QTimer.singleShot(0, self, self._restore_sizes)
            self._docks.steps.restore_zoom(self._now.zoom)
        finally:
            self._putting = False
        self.changed.emit()

    def _restore_sizes(self) -> None:
        """Resize again once all panels are shown: closed ones accept no size before that."""
        if self._now is not None and self._window.isVisible():
            self._docks.arrangement.sizes.apply_layout_shares(self._now.layout)


def is_same(one: Any, other: Any) -> bool:
    """Return whether two layouts agree, up to small differences of the shares."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, float) and isinstance(other, (int, float)):
        return abs(one - other) < _NEAR
    return bool(one == other)
