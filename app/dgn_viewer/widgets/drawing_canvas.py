"""A small grid of pixels to draw on with the mouse or the keyboard."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from dgn_engine.scene.elements import Array
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.text.written_numbers import format_percent
from dgn_viewer.plots.example_image import example_image

SIDE = 192  # screen pixels
_BRUSH = 1 / 16  # brush radius as a share of the side …
_LEAST = 0.7  # … and its minimum, in image pixels
_ARROWS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}


class DrawingCanvas(QWidget):
    """Canvas, white on black: the left button draws, the right one erases.

    With the keyboard: arrow keys move a cursor, Space draws, Delete erases.
    """

    drawn = Signal()  # a stroke ended, or a key drew

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self._levels = np.zeros((rows, columns))
        self._theme: Theme = LIGHT
        self._last: QPointF | None = None
        self._cursor = (rows // 2, columns // 2)
        self._by_keys = False  # show the cursor only while the keyboard is used
        self.setFixedSize(self.sizeHint())
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self._update_accessible_name()

    def pixels(self) -> Array:
        """Return the drawing, (H, W) uint8, from 0 (black) to 255 (white)."""
        return np.rint(255 * self._levels).astype(np.uint8)

    def show_pixels(self, pixels: Array) -> None:
        self._levels = pixels.astype(np.float64) / 255
        self.update()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    # Qt

    def sizeHint(self) -> QSize:
        rows, columns = self._levels.shape
        scale = SIDE / max(rows, columns)
        return QSize(round(columns * scale), round(rows * scale))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._last, self._by_keys = event.position(), False
        self._draw_stroke(event.position(), bool(event.buttons() & Qt.MouseButton.RightButton))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._last is not None:
            self._draw_stroke(event.position(), bool(event.buttons() & Qt.MouseButton.RightButton))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._last is not None:
            self._last = None
            self.drawn.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, (row, column), self._by_keys = event.key(), self._cursor, True
        rows, columns = self._levels.shape
        if key in _ARROWS:
            down, right = _ARROWS[Qt.Key(key)]
            self._cursor = (row + down) % rows, (column + right) % columns
            self._update_accessible_name()
        elif key in (Qt.Key.Key_Space, Qt.Key.Key_Delete):
            self._levels[row, column] = float(key == Qt.Key.Key_Space)
            self.drawn.emit()
        else:
            super().keyPressEvent(event)
            return
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.drawImage(QRectF(self.rect()), example_image(self.pixels()))
        painter.setPen(QPen(QColor(self._theme.line), 1))
        painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        if self.hasFocus() and self._by_keys:
            rows, columns = self._levels.shape
            cell_width, cell_height = self.width() / columns, self.height() / rows
            row, column = self._cursor
            painter.setPen(QPen(QColor(self._theme.accent), 2))
            painter.drawRect(
                QRectF(column * cell_width, row * cell_height, cell_width, cell_height)
            )
        painter.end()

    # Internal

    def _draw_stroke(self, to: QPointF, erase: bool) -> None:
        """Draw a line of soft dots from the last position of the mouse."""
        start = self._last or to
        rows, columns = self._levels.shape
        pixel = self.width() / columns
        radius = max(_BRUSH * max(rows, columns), _LEAST)
        steps = max(int(np.hypot(to.x() - start.x(), to.y() - start.y()) / (pixel / 2)), 1)
        y, x = np.mgrid[:rows, :columns] + 0.5
        for share in np.linspace(0.0, 1.0, steps + 1):
            across = (start.x() + share * (to.x() - start.x())) / pixel
            along = (start.y() + share * (to.y() - start.y())) / pixel
            ink = np.clip(1.5 - np.hypot(x - across, y - along) / radius, 0.0, 1.0)
            self._levels = (
                np.maximum(self._levels, ink) if not erase else np.minimum(self._levels, 1.0 - ink)
            )
        self._last = to
        self.update()

    def _update_accessible_name(self) -> None:
        row, column = self._cursor
        level = format_percent(self._levels[row, column], 0)
        self.setAccessibleName(
            f"Drawing, row {row + 1}, column {column + 1}: {level}. Space draws, Delete erases"
        )
