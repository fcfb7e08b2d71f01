"""The card with the values under the cursor, above all charts."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QGraphicsObject, QStyleOptionGraphicsItem, QWidget

from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.example_card import card_size, paint_card
from dgn_viewer.scene.example_readout import ExampleReadout
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
        self.examples: ExampleReadout | None = None
        self.pinned = False

    def show_examples(self, place: QPointF, readout: ExampleReadout, pinned: bool) -> None:
        """Show the pictures of one or two examples next to a place, in the place of lines."""
        now = (place, readout.lines, pinned)
        if now != (self.place, self.lines, self.pinned) or readout is not self.examples:
            self.place, self.lines, self.pinned = now
            self.examples = readout
            self.update()

    def show_lines(self, place: QPointF, lines: tuple[str, ...]) -> None:
        """Show these lines next to a place; none hides the card."""
        if (place, lines) != (self.place, self.lines) or self.examples is not None:
            self.place, self.lines, self.examples, self.pinned = place, lines, None, False
            self.update()

    def boundingRect(self) -> QRectF:
        return self.room

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        if self.examples is not None:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            size = card_size(self.style, self.examples, self.pinned).boundedTo(self.room.size())
            paint_card(painter, self.style, _beside(self.place, size, self.room), self.examples,
                       self.pinned)  # fmt: skip
        elif self.lines:
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


def _beside(place: QPointF, size: QSizeF, room: QRectF) -> QRectF:
    """Right of and below the place, or on the other side of it where that has no room."""
    x, y = place.x() + 12, place.y() + 12
    x = place.x() - 12 - size.width() if x + size.width() > room.right() else x
    y = place.y() - 12 - size.height() if y + size.height() > room.bottom() else y
    x, y = max(x, room.left()), max(y, room.top())
    x, y = min(x, room.right() - size.width()), min(y, room.bottom() - size.height())
    return QRectF(QPointF(x, y), size)


def _paint(
    painter: QPainter, style: ChartStyle, place: QPointF, lines: tuple[str, ...], room: QRectF
) -> None:
    """Paint the values in a small card next to the cursor, kept inside `room`."""
    type_ = style.label
    lines = _fitting(lines, int((room.height() - 8) // type_.height))
    wide = max(type_.width(line) for line in lines) + 12
    tall = type_.height * len(lines) + 8
    card = _beside(place, QSizeF(wide, tall), room)
    painter.setPen(QPen(style.colour("line"), 1))
    painter.setBrush(style.colour("window", 0.96))
    painter.drawRoundedRect(card, 4, 4)
    for index, line in enumerate(lines):
        base = QPointF(card.left() + 6, card.top() + 4 + type_.ascent + index * type_.height)
        strong = index == len(lines) - 1 or len(lines) > 3
        type_.paint(painter, base, line, style.colour("text" if strong else "muted"))
