"""The overlay that follows the mouse above the charts.

Moving it repaints no chart: where the overlay has moved away, a saved picture of the charts is
painted instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import pyqtgraph as pg
from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPixmap, QRegion
from PySide6.QtWidgets import QWidget

_AROUND = 3  # pixels that a part may paint outside of its bounds


@dataclass(frozen=True)
class PointerPart:
    """An element of the overlay; elements with the same `key` look the same."""

    key: Hashable
    bounds: QRectF
    paint: Callable[[QPainter], None] = field(compare=False)

    def painted_rect(self) -> QRect:
        return self.bounds.toAlignedRect().adjusted(-_AROUND, -_AROUND, _AROUND, _AROUND)


class ChartCanvas(pg.GraphicsView):  # type: ignore[misc]  # pyqtgraph is untyped
    """A canvas that measures its painting time.

    If only the overlay changes (see `expect_overlay_change`), it paints a saved picture of the
    charts instead of the charts themselves.
    """

    def __init__(self, parent: QWidget, background: str) -> None:
        super().__init__(parent, background=background)
        self.setCentralItem(None)  # no chart is laid out in it; its layout has a hidden widget
        self.centralLayout = None
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.painting = 0.0  # total CPU time in seconds
        self.painted = 0  # number of repaints of the charts
        self._picture = QPixmap()
        self._above = QRegion()
        self._is_current = False  # the charts are painted as they are

    def expect_overlay_change(self, region: QRegion) -> None:
        """Paint this region from the saved picture: only the overlay changes in it.

        Charts that have changed are painted first: to render a picture of them before would make Qt
        forget where they were, and leave their old pixels there.
        """
        if not self._is_current:
            return
        if self._picture.isNull() or self._picture.size() != self._pixel_size():
            self._above = QRegion()
            self._picture = self._grab_picture()
        self._above += region

    def discard_picture(self) -> None:
        """Discard the saved picture, before the charts change."""
        self._picture, self._above = QPixmap(), QRegion()
        self._is_current = False

    def paintEvent(self, event: QPaintEvent) -> None:
        began = time.thread_time()
        if event.region().subtracted(self._above).isEmpty() and not self._picture.isNull():
            self._paint_saved_picture(event.region())
        else:
            self.discard_picture()
            self.painted += 1
            super().paintEvent(event)
            self._is_current = True
        self.painting += time.thread_time() - began

    def _pixel_size(self) -> QSize:
        viewport: QWidget = self.viewport()
        return viewport.size() * viewport.devicePixelRatioF()

    def _grab_picture(self) -> QPixmap:
        """Return a picture of the charts without the overlay."""
        viewport = self.viewport()
        picture = QPixmap(self._pixel_size())
        picture.setDevicePixelRatio(viewport.devicePixelRatioF())
        flags = QWidget.RenderFlag.DrawWindowBackground
        viewport.render(picture, QPoint(), QRegion(viewport.rect()), flags)
        return picture

    def _paint_saved_picture(self, region: QRegion) -> None:
        painter = QPainter(self.viewport())
        painter.setClipRegion(region)
        painter.drawPixmap(0, 0, self._picture)
        painter.end()
        self._above -= region


class PointerOverlay(QWidget):
    """A transparent widget above a canvas that ignores the mouse."""

    def __init__(self, canvas: ChartCanvas) -> None:
        super().__init__(canvas.viewport())
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self._canvas = canvas
        self._parts: tuple[PointerPart, ...] = ()

    def show_parts(self, parts: tuple[PointerPart, ...]) -> None:
        """Replace the elements, and repaint only where they differ."""
        before = {part.key: part for part in self._parts}
        after = {part.key: part for part in parts}
        if [*before] == [*after]:
            return
        self._parts = tuple(after.values())
        region = QRegion()
        for key in before.keys() ^ after.keys():
            region += (before.get(key) or after[key]).painted_rect()
        region &= self.rect()
        if not region.isEmpty():
            self._canvas.expect_overlay_change(region)
            self.update(region)

    def paintEvent(self, event: QPaintEvent) -> None:
        damaged_parts = [
            part for part in self._parts if event.region().intersects(part.painted_rect())
        ]
        if damaged_parts:
            painter = QPainter(self)
            for part in damaged_parts:
                painter.save()
                part.paint(painter)
                painter.restore()
            painter.end()
