"""What follows the mouse over the charts, painted above them: the charts themselves stay as they
are, and where the mouse has left them their picture of a moment ago is put back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import pyqtgraph as pg
from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPixmap, QRegion
from PySide6.QtWidgets import QWidget

_AROUND = 3  # pixels that a part may reach over its bounds


@dataclass(frozen=True)
class PointerPart:
    """One thing that is painted above the charts; those with the same `key` look the same."""

    key: Hashable
    bounds: QRectF
    paint: Callable[[QPainter], None] = field(compare=False)

    def area(self) -> QRect:
        return self.bounds.toAlignedRect().adjusted(-_AROUND, -_AROUND, _AROUND, _AROUND)


class ChartCanvas(pg.GraphicsView):  # type: ignore[misc]  # pyqtgraph is untyped
    """Counts the processor time that its painting takes. Where only what lies above it moves, it
    puts back its own picture (`moves_above`) and asks no chart to paint."""

    def __init__(self, parent: QWidget, background: str) -> None:
        super().__init__(parent, background=background)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.painting = 0.0  # seconds so far
        self.painted = 0  # times that charts were asked to paint
        self._picture = QPixmap()
        self._above = QRegion()

    def moves_above(self, region: QRegion) -> None:
        """What lies above it changes here, and nothing of it."""
        if self._picture.isNull() or self._picture.size() != self._pixels():
            self._above = QRegion()
            self._picture = self._taken()
        self._above += region

    def changes(self) -> None:
        """What it shows is about to be another: its picture is thrown away."""
        self._picture, self._above = QPixmap(), QRegion()

    def paintEvent(self, event: QPaintEvent) -> None:
        began = time.thread_time()
        if event.region().subtracted(self._above).isEmpty() and not self._picture.isNull():
            self._put_back(event.region())
        else:
            self.changes()
            self.painted += 1
            super().paintEvent(event)
        self.painting += time.thread_time() - began

    def _pixels(self) -> QSize:
        viewport: QWidget = self.viewport()
        return viewport.size() * viewport.devicePixelRatioF()

    def _taken(self) -> QPixmap:
        """Its picture as it is, without what lies above it."""
        viewport = self.viewport()
        picture = QPixmap(self._pixels())
        picture.setDevicePixelRatio(viewport.devicePixelRatioF())
        flags = QWidget.RenderFlag.DrawWindowBackground
        viewport.render(picture, QPoint(), QRegion(viewport.rect()), flags)
        return picture

    def _put_back(self, region: QRegion) -> None:
        painter = QPainter(self.viewport())
        painter.setClipRegion(region)
        painter.drawPixmap(0, 0, self._picture)
        painter.end()
        self._above -= region


class PointerOverlay(QWidget):
    """Lies above the charts of a canvas and takes no mouse."""

    def __init__(self, canvas: ChartCanvas) -> None:
        super().__init__(canvas.viewport())
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self._canvas = canvas
        self._parts: tuple[PointerPart, ...] = ()

    def show_parts(self, parts: tuple[PointerPart, ...]) -> None:
        """Paint these in the place of those before, and only where they differ."""
        before = {part.key: part for part in self._parts}
        now = {part.key: part for part in parts}
        if [*before] == [*now]:
            return
        self._parts = tuple(now.values())
        region = QRegion()
        for key in before.keys() ^ now.keys():
            region += (before.get(key) or now[key]).area()
        region &= self.rect()
        if not region.isEmpty():
            self._canvas.moves_above(region)
            self.update(region)

    def paintEvent(self, event: QPaintEvent) -> None:
        shown = [part for part in self._parts if event.region().intersects(part.area())]
        if shown:
            painter = QPainter(self)
            for part in shown:
                painter.save()
                part.paint(painter)
                painter.restore()
            painter.end()
