"""Bars of time above each other, whose sliders begin and end at the same x."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QToolBar, QWidget


class AlignedSides(QObject):
    """Gives what is left of the sliders, and what is right of them, one width in all bars that are
    shown: then equal steps of runs of equal length stand above each other."""

    def __init__(self, *bars: tuple[QToolBar, QWidget, QWidget]) -> None:
        """`bars`: each with what is left and what is right of its slider."""
        super().__init__(bars[0][0])
        self._bars = bars
        for watched in (part for bar in bars for part in bar):
            watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Align the bars when one comes, goes, or says something of another length."""
        if event.type() in (
            QEvent.Type.LayoutRequest,
            QEvent.Type.ShowToParent,
            QEvent.Type.HideToParent,
        ):
            shown = [bar for bar in self._bars if not bar[0].isHidden()]
            _align(left for _, left, _ in shown)
            _align(right for _, _, right in shown)
        return super().eventFilter(watched, event)


def _align(sides: Iterable[QWidget]) -> None:
    sides = list(sides)
    layouts = (side.layout() for side in sides)
    width = max((layout.sizeHint().width() for layout in layouts if layout is not None), default=0)
    for side in sides:
        if side.minimumWidth() != width:
            side.setMinimumWidth(width)
