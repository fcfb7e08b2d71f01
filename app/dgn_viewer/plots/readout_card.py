"""The card that shows the values under the cursor."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QPointF, QRectF, QSizeF
from PySide6.QtGui import QPainter, QPen

from dgn_engine.scene.example_readout import ExampleReadout
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.example_card import card_size, paint_card
from dgn_viewer.plots.pointer_overlay import PointerPart

_PAD = 6  # pixels left and right of the text


class ReadoutCard:
    """A card next to the cursor, invisible while it is empty."""

    def __init__(self) -> None:
        self.style = ChartStyle(LIGHT)
        self.room = QRectF()
        self.place = QPointF()
        self.lines: tuple[str, ...] = ()
        self.examples: ExampleReadout | None = None
        self.pinned = False

    def show_examples(self, place: QPointF, readout: ExampleReadout, pinned: bool) -> None:
        """Show one or two examples next to a point, instead of text."""
        self.place, self.lines, self.pinned = place, readout.lines, pinned
        self.examples = readout

    def show_lines(self, place: QPointF, lines: tuple[str, ...]) -> None:
        """Show lines of text next to a point; an empty tuple hides the card."""
        self.place, self.lines, self.examples, self.pinned = place, lines, None, False

    @property
    def letters_per_line(self) -> int:
        """The approximate number of letters that fit in a line."""
        return int((self.room.width() - 2 * _PAD) // self.style.label.width("n"))

    def pointer_parts(self) -> list[PointerPart]:
        style, room, examples, pinned = self.style, self.room, self.examples, self.pinned
        if examples is not None:
            size = card_size(style, examples, pinned).boundedTo(room.size())
            card = _place_card(self.place, size, room)
            state = ("examples", card.getRect(), id(examples), pinned, style)
            paint = partial(_paint_examples, style, card, examples, pinned)
            return [PointerPart(state, card, paint)]
        if self.lines:
            lines = _fit_lines(self.lines, int((room.height() - 8) // style.label.height))
            text_width = room.width() - 2 * _PAD  # a wider card would cut the start of its lines
            lines = tuple(style.label.shorten_label(line, text_width) for line in lines)
            card = _place_card(self.place, _lines_size(style, lines), room)
            key = ("lines", card.getRect(), lines, style)
            return [PointerPart(key, card, partial(_paint_lines, style, card, lines))]
        return []


def _fit_lines(lines: tuple[str, ...], most: int) -> tuple[str, ...]:
    """Return the lines that fit, with the number of the omitted ones in the last line."""
    if len(lines) <= most or most < 2:
        return lines
    return (*lines[: most - 1], f"… {len(lines) - most + 1} more lines: click to zoom in")


def _place_card(place: QPointF, size: QSizeF, room: QRectF) -> QRectF:
    """Place the card right of and below a point, or on the other side if it does not fit."""
    x, y = place.x() + 12, place.y() + 12
    x = place.x() - 12 - size.width() if x + size.width() > room.right() else x
    y = place.y() - 12 - size.height() if y + size.height() > room.bottom() else y
    x, y = max(x, room.left()), max(y, room.top())
    x, y = min(x, room.right() - size.width()), min(y, room.bottom() - size.height())
    return QRectF(QPointF(x, y), size)


def _lines_size(style: ChartStyle, lines: tuple[str, ...]) -> QSizeF:
    width = max(style.label.width(line) for line in lines) + 2 * _PAD
    return QSizeF(width, style.label.height * len(lines) + 8)


def _paint_examples(
    style: ChartStyle, card: QRectF, examples: ExampleReadout, pinned: bool, painter: QPainter
) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    paint_card(painter, style, card, examples, pinned)


def _paint_lines(
    style: ChartStyle, card: QRectF, lines: tuple[str, ...], painter: QPainter
) -> None:
    type_ = style.label
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(style.colour("line"), 1))
    painter.setBrush(style.colour("window", 0.96))
    painter.drawRoundedRect(card, 4, 4)
    for index, line in enumerate(lines):
        base = QPointF(card.left() + _PAD, card.top() + 4 + type_.ascent + index * type_.height)
        emphasised = index == len(lines) - 1 or len(lines) > 3
        type_.paint(painter, base, line, style.colour("text" if emphasised else "muted"))
