"""Painting of the card of one or two probe examples: images, text, and gates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QPainter, QPen

from dgn_engine.scene import ramps
from dgn_engine.scene.elements import Array
from dgn_engine.scene.example_readout import ExampleReadout, GateRows, ShownExample
from dgn_engine.scene.predictions import WRONG
from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.example_image import example_image

SIDE = 48.0  # pixels; side of an image
PINNED = "pinned: Esc or click to unpin"
_PAD, _GAP = 8.0, 6.0
_STRIP, _AGREE = 5.0, 3.0  # pixels; heights of an example's gates and of the agreement of two
_TAG = 24.0  # pixels; width of a layer's name
_LEAST_STRIP = 120.0  # pixels; minimum width of the gates


def paint_example(painter: QPainter, style: ChartStyle, box: QRectF, example: ShownExample) -> None:
    """Paint an example in a square: its image, its point, or the reason why it has neither."""
    painter.setPen(QPen(style.colour("line"), 1))
    painter.setBrush(style.colour("panel"))
    painter.drawRect(box)
    if example.image is not None:
        image = example_image(example.image)
        size = QSizeF(image.size()).scaled(box.size(), Qt.AspectRatioMode.KeepAspectRatio)
        target = QRectF(QPointF(), size)
        target.moveCenter(box.center())
        painter.drawImage(target, image)
    elif example.point is not None and example.points is not None:
        _paint_point(painter, style, box.adjusted(4, 4, -4, -4), example.points, example.point)
    else:
        reason = style.label.shorten_label(example.why, box.width() - 4)
        base = QPointF(box.left() + 2, box.center().y() + style.label.ascent / 2)
        style.label.paint(painter, base, reason, style.colour("muted"))


def _paint_point(
    painter: QPainter, style: ChartStyle, box: QRectF, points: Array, point: tuple[float, float]
) -> None:
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.where(high > low, high - low, 1.0)

    def point_position(coordinates: Array) -> QPointF:
        x, y = (coordinates - low) / span
        return QPointF(box.left() + x * box.width(), box.bottom() - y * box.height())

    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(style.colour("muted", 0.6))
    for background_point in points[:: max(len(points) // 128, 1)]:
        painter.drawEllipse(point_position(background_point), 1.0, 1.0)
    painter.setBrush(style.colour("accent"))
    painter.drawEllipse(point_position(np.array(point)), 3.0, 3.0)


def card_size(style: ChartStyle, readout: ExampleReadout, pinned: bool) -> QSizeF:
    """Return the size of the card if space is not limited."""
    type_ = style.label
    pictures_width = _pictures_width(readout)
    text_width = max(_LEAST_STRIP, *(type_.width(line) for line in _card_lines(readout, pinned)))
    text_width += 1.0  # rounded places would leave the longest line a little less than it needs
    gates = [_TAG + _LEAST_STRIP + 8.0 + type_.width(rows.words) for rows in readout.gates]
    text_height = len(_card_lines(readout, pinned)) * type_.height
    height = max(SIDE, text_height) + sum(
        _gates_height(rows, type_.height) for rows in readout.gates
    )
    if readout.gates:
        height += _GAP
    return QSizeF(
        2 * _PAD + max(pictures_width + _GAP + text_width, *gates, 0.0), 2 * _PAD + height
    )


def paint_card(
    painter: QPainter, style: ChartStyle, card: QRectF, readout: ExampleReadout, pinned: bool
) -> None:
    """Paint the card, with as many gate layers as fit."""
    type_ = style.label
    painter.setPen(QPen(style.colour("accent" if pinned else "line"), 1))
    painter.setBrush(style.colour("window", 0.97))
    painter.drawRoundedRect(card, 4, 4)
    inner = card.adjusted(_PAD, _PAD, -_PAD, -_PAD)
    for index, example in enumerate(readout.examples):
        left = inner.left() + index * (SIDE + 4.0)
        paint_example(painter, style, QRectF(left, inner.top(), SIDE, SIDE), example)
    left = inner.left() + _pictures_width(readout) + _GAP
    name_count = sum(1 + len(example.answers) for example in readout.examples)
    wrong = {line for example in readout.examples for line in example.answers if WRONG in line}
    lines = _card_lines(readout, pinned)
    for index, line in enumerate(lines):
        base = QPointF(left, inner.top() + type_.ascent + index * type_.height)
        colour = style.colour("text" if index < name_count + len(readout.lines) else "muted")
        colour = style.colour("refused") if line in wrong else colour
        type_.paint(painter, base, type_.shorten_label(line, inner.right() - left), colour)
    top = inner.top() + max(SIDE, len(lines) * type_.height) + _GAP
    _paint_gates(
        painter,
        style,
        QRectF(inner.left(), top, inner.width(), inner.bottom() - top),
        readout.gates,
    )


def _card_lines(readout: ExampleReadout, pinned: bool) -> tuple[str, ...]:
    names = tuple(line for example in readout.examples for line in (example.name, *example.answers))
    pin_hint = (PINNED,) if pinned else ()
    details = (readout.examples[0].detail,) if len(readout.examples) == 1 else ()
    return (*names, *readout.lines, *details, *pin_hint)


def _pictures_width(readout: ExampleReadout) -> float:
    return len(readout.examples) * (SIDE + 4.0) - 4.0


def _gates_height(rows: GateRows, line: float) -> float:
    agree = _AGREE + 1.0 if rows.agree is not None else 0.0
    return max(len(rows.rows) * _STRIP + agree, line) + 3.0


def _paint_gates(
    painter: QPainter, style: ChartStyle, box: QRectF, gates: Sequence[GateRows]
) -> None:
    """Paint a line per layer: name, a strip per example, their agreement, and a summary."""
    type_, top = style.label, box.top()
    words_width = max((type_.width(rows.words) for rows in gates), default=0.0) + 8.0
    strip_width = max(box.width() - _TAG - words_width, 1.0)
    for index, rows in enumerate(gates):
        height = _gates_height(rows, type_.height)
        last = index == len(gates) - 1
        if top + height + (0.0 if last else type_.height) > box.bottom() + 3.0:
            more = f"… {len(gates) - index} more layers in Gate maps"
            base = QPointF(box.left(), top + type_.ascent)
            if base.y() <= box.bottom() + 3.0:
                type_.paint(painter, base, more, style.colour("muted"))
            return
        base = QPointF(box.left(), top + type_.ascent)
        type_.paint(painter, base, rows.name, style.colour("muted"))
        base = QPointF(box.right() - words_width + 8.0, top + type_.ascent)
        type_.paint(painter, base, rows.words, style.colour("muted"))
        _paint_rows(painter, style, QRectF(box.left() + _TAG, top + 1.0, strip_width, height), rows)
        top += height


def _paint_rows(painter: QPainter, style: ChartStyle, box: QRectF, rows: GateRows) -> None:
    table = ramps.rgba_table("gates", style.theme)
    for index, row in enumerate(rows.rows):
        target = QRectF(box.left(), box.top() + index * _STRIP, box.width(), _STRIP - 1.0)
        shades = np.clip(np.rint(row * (ramps.EMPTY - 1)), 0, ramps.EMPTY - 1).astype(np.intp)
        painter.drawImage(target, example_image(table[shades][None, :, :3].astype(np.uint8)))
    if rows.agree is not None:
        accent, panel = style.colour("accent"), style.colour("window")
        channels = [(colour.red(), colour.green(), colour.blue()) for colour in (panel, accent)]
        colours = np.array(channels, dtype=np.uint8)
        top = box.top() + len(rows.rows) * _STRIP
        target = QRectF(box.left(), top, box.width(), _AGREE)
        painter.drawImage(target, example_image(colours[rows.agree.astype(np.intp)][None]))
