"""Geometry of the layer strip: a column per layer, rows for features, gates and values."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF

HEIGHT = 98  # pixels, as all lengths here, before the scale of type
LABELS = 76  # pixels; width of the row names
TERMINAL = 56  # pixels; width of 'x' and of 'ŷ'
LEAST_PITCH = 40
_WIDEST_BOX = 176


@dataclass(frozen=True)
class StripGrid:
    """The positions of `count` layers in a canvas of this width, in pixels."""

    count: int
    width: float

    @property
    def pitch(self) -> float:
        """The distance between the centres of neighbouring columns."""
        room = self.width - LABELS - 2 * TERMINAL
        return max(room / max(self.count, 1), LEAST_PITCH)

    @property
    def box_width(self) -> float:
        between = 28 if self.pitch > 100 else 14 if self.pitch >= 48 else 7
        return min(self.pitch - between, _WIDEST_BOX)

    def middle_x(self, column: int) -> float:
        return LABELS + TERMINAL + self.pitch * (column + 0.5)

    def node_rect(self, column: int) -> QRectF:
        return QRectF(self.middle_x(column) - 12, 6, 24, 18)

    def chip_rect(self, column: int) -> QRectF:
        return QRectF(self.middle_x(column) - self.box_width / 2, 40, self.box_width, 24)

    def value_rect(self, column: int) -> QRectF:
        return QRectF(self.middle_x(column) - self.box_width / 2, 69, self.box_width, 24)

    def slot_rect(self, column: int) -> QRectF:
        """Return the drop area of a column: its gate and its value layer."""
        return self.chip_rect(column).united(self.value_rect(column)).adjusted(-4, -4, 4, 4)

    def column_at(self, point: QPointF) -> int | None:
        """Return the column that contains a chip's centre, with a margin above and below."""
        for column in range(self.count):
            area = QRectF(self.middle_x(column) - self.pitch / 2, 26, self.pitch, HEIGHT - 26)
            if area.contains(point):
                return column
        return None

    def output_end(self) -> QPointF:
        return QPointF(LABELS + TERMINAL + self.pitch * self.count, self.value_rect(0).center().y())

    @property
    def least_width(self) -> float:
        """The width below which the canvas scrolls."""
        return LABELS + 2 * TERMINAL + self.count * LEAST_PITCH
