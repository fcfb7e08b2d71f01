"""The card with the values under the cursor, above all charts."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QGraphicsObject, QStyleOptionGraphicsItem, QWidget

from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.style.theme import LIGHT


class ReadoutCard(QGraphicsObject):
    """Next to the cursor; hidden while it has no lines."""

    def __init__(self) -> None:
        super().__init__()
        self.setZValue(100)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.style = ChartStyle(LIGHT)
        self.room = QRectF()
        self.place = QPointF()
        self.lines: tuple[str, ...] = ()

    def show_lines(self, place: QPointF, lines: tuple[str, ...]) -> None:
        """Show these lines next to a place; none hides the card."""
        if (place, lines) != (self.place, self.lines):
            self.place, self.lines = place, lines
            self.update()

    def boundingRect(self) -> QRectF:
        return self.room

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        if self.lines:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            _paint(painter, self.style, self.place, self.lines, self.room)

    def resize(self, room: QRectF) -> None:
        self.prepareGeometryChange()
        self.room = room


def _fitting(lines: tuple[str, ...], most: int) -> tuple[str, ...]:
    """The first lines, and how many more there are, where not all have room."""
    if len(lines) <= most or most < 2:
        return lines
    return (*lines[: most - 1], f"… {len(lines) - most + 1} more lines: click to see them apart")


def _paint(
    painter: QPainter, style: ChartStyle, place: QPointF, lines: tuple[str, ...], room: QRectF
) -> None:
    """Paint the values in a small card next to the cursor, kept inside `room`."""
    type_ = style.label
    lines = _fitting(lines, int((room.height() - 8) // type_.height))
    wide = max(type_.width(line) for line in lines) + 12
    tall = type_.height * len(lines) + 8
    x, y = place.x() + 12, place.y() + 12
    x = place.x() - 12 - wide if x + wide > room.right() else x
    y = place.y() - 12 - tall if y + tall > room.bottom() else y
    card = QRectF(max(x, room.left()), max(y, room.top()), wide, tall)
    painter.setPen(QPen(style.colour("line"), 1))
    painter.setBrush(style.colour("window", 0.96))
    painter.drawRoundedRect(card, 4, 4)
    for index, line in enumerate(lines):
        base = QPointF(card.left() + 6, card.top() + 4 + type_.ascent + index * type_.height)
        strong = index == len(lines) - 1 or len(lines) > 3
        type_.paint(painter, base, line, style.colour("text" if strong else "muted"))
