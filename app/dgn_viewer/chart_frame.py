"""Paints what stands around a chart's data: title, axes, grid, colour bar, and measures it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter, QPen

from dgn_viewer import ramps
from dgn_viewer.arrangement import Margins
from dgn_viewer.limits import Range
from dgn_viewer.rich_text import Type
from dgn_viewer.scene import Axis, Chart
from dgn_viewer.theme import Theme
from dgn_viewer.ticks import Tick, linear_ticks, log_ticks, spaced

BAR = 8.0  # width of a colour bar
PAD = 4.0


@dataclass(frozen=True)
class Look:
    """Colours and type sizes of every chart."""

    theme: Theme
    family: str = ""

    @property
    def title(self) -> Type:
        """Type of a chart's title."""
        return Type(self.family, 12, bold=True)

    @property
    def small_title(self) -> Type:
        """Type of an overview's title."""
        return Type(self.family, 11)

    @property
    def label(self) -> Type:
        """Type of ticks, axis labels and line ends."""
        return Type(self.family, 11)

    def colour(self, token: str, alpha: float = 1.0) -> QColor:
        """A token of the theme ('line', 'muted', …) as a colour."""
        colour = QColor(getattr(self.theme, token))
        colour.setAlphaF(alpha)
        return colour


@dataclass(frozen=True)
class Ground:
    """Where data land on the screen: `box` in pixels shows `x` and `y` (drawn coordinates).

    On a logarithmic axis drawn coordinates are powers of ten. `down`: y grows downwards.
    """

    box: QRectF
    x: Range
    y: Range
    down: bool = False

    def across(self, value: float) -> float:
        """Pixel of a drawn x."""
        low, high = self.x
        return self.box.left() + (value - low) / ((high - low) or 1.0) * self.box.width()

    def along(self, value: float) -> float:
        """Pixel of a drawn y."""
        low, high = self.y
        share = (value - low) / ((high - low) or 1.0)
        return self.box.top() + (share if self.down else 1.0 - share) * self.box.height()


def axis_label(axis: Axis) -> str:
    """'loss' or 'time (s)'."""
    return f"{axis.label} ({axis.unit})" if axis.unit else axis.label


def axis_ticks(axis: Axis, drawn: Range, most: int) -> tuple[Tick, ...]:
    """Ticks of the visible part in drawn coordinates."""
    low, high = min(drawn), max(drawn)
    if axis.ticks is not None:
        inside = [(value, text) for value, text in axis.ticks if value > 0 or not axis.log]
        placed = [(math.log10(v) if axis.log else v, text) for v, text in inside]
        return tuple(tick for tick in placed if low <= tick[0] <= high)
    if axis.log:
        low, high = 10.0 ** max(low, -300.0), 10.0 ** min(high, 300.0)
        return tuple((math.log10(v), text) for v, text in log_ticks(low, high, most))
    return linear_ticks(low, high, most)


def bar_ticks(chart: Chart) -> tuple[Tick, ...]:
    """Ticks of a colour bar."""
    matrix = chart.matrix
    if matrix is None or not matrix.bar:
        return ()
    return linear_ticks(matrix.low, matrix.high, 3)


def margins(chart: Chart, look: Look, x: Range, y: Range) -> Margins:
    """Room around the data of a chart that shows the drawn ranges `x` and `y`."""
    line = look.label.height
    if chart.small:
        top = look.small_title.height + 4.0 if chart.title else 4.0
        return Margins(2.0, top, 2.0, 2.0)
    left = right = PAD
    labels = [look.label.width(text) for _, text in axis_ticks(chart.y, y, 5)]
    if labels:
        left += max(*labels, look.label.width("0.00") if chart.y.ticks is None else 0.0) + PAD
    if chart.y.label:
        left += line + 2.0
    top = look.title.height + 8.0 if chart.title else 8.0
    top += line if chart.marks else 0.0
    bottom = line + PAD if axis_ticks(chart.x, x, 5) else PAD
    bottom += line if chart.x.label else 0.0
    if chart.matrix is not None and chart.matrix.bar:
        widest = max((look.label.width(text) for _, text in bar_ticks(chart)), default=0.0)
        right += PAD + BAR + PAD + widest + PAD + line
    names = [curve.name for curve in chart.curves if curve.name]
    if names:
        right += max(look.label.width(name) for name in names) + 2 * PAD
    elif chart.curves:
        right += 2 * PAD
    return Margins(left, top, right, bottom)


def paint_frame(painter: QPainter, chart: Chart, look: Look, ground: Ground, room: Margins) -> None:
    """Title, grid, axes and colour bar; the data are painted over it."""
    box = ground.box
    _paint_title(painter, chart, look, box, room)
    if chart.small:
        return
    _paint_rows(painter, chart, look, ground, room)
    _paint_columns(painter, chart, look, ground)
    painter.setPen(QPen(look.colour("line"), 1))
    if chart.matrix is None:
        painter.drawLine(box.bottomLeft(), box.bottomRight())
        return
    painter.drawRect(box.adjusted(-1, -1, 0, 0))
    if chart.matrix.bar:
        _paint_bar(painter, chart, look, box)


def _paint_title(painter: QPainter, chart: Chart, look: Look, box: QRectF, room: Margins) -> None:
    type_ = look.small_title if chart.small else look.title
    colour = look.colour("accent" if chart.small and chart.chosen else "text")
    if chart.small and not chart.chosen:
        colour = look.colour("muted")
    wide = box.width() + (room.right if chart.matrix is None or chart.matrix.bar else 0.0)
    title = type_.shortened(chart.title, wide)
    gap = 4.0 if chart.small else 7.0
    gap += look.label.height if chart.marks else 0.0
    type_.paint(painter, QPointF(box.left(), box.top() - gap), title, colour)


def _paint_rows(painter: QPainter, chart: Chart, look: Look, ground: Ground, room: Margins) -> None:
    type_, box = look.label, ground.box
    most = 5 if box.height() > 90 else 3
    ticks = axis_ticks(chart.y, ground.y, most)
    places = [ground.along(value) for value, _ in ticks]
    for index in spaced(ticks, places, [type_.height * 0.5] * len(ticks)):
        place, text = places[index], ticks[index][1]
        if chart.matrix is None:
            painter.setPen(QPen(look.colour("line", 0.7), 1))
            painter.drawLine(QPointF(box.left(), place), QPointF(box.right(), place))
        base = place + type_.ascent / 2 - 1.0
        x = box.left() - PAD - type_.width(text)
        type_.paint(painter, QPointF(x, base), text, look.colour("muted"))
    if chart.y.label:
        label = type_.shortened(axis_label(chart.y), box.height() + 20)
        _paint_upright(painter, type_, label, box.left() - room.left + 2.0, box, look)


def _paint_columns(painter: QPainter, chart: Chart, look: Look, ground: Ground) -> None:
    type_, box = look.label, ground.box
    most = max(2, min(5, int(box.width() / 56)))
    ticks = axis_ticks(chart.x, ground.x, most)
    places = [ground.across(value) for value, _ in ticks]
    base = box.bottom() + PAD + type_.ascent
    for index in spaced(ticks, places, [type_.width(text) / 2 + 2.0 for _, text in ticks]):
        text = ticks[index][1]
        wide = type_.width(text)
        x = min(places[index] - wide / 2, box.right() + 2 * PAD - wide)
        type_.paint(painter, QPointF(x, base), text, look.colour("muted"))
    if chart.x.label:
        label = type_.shortened(axis_label(chart.x), box.width() + 40)
        below = type_.height if ticks else 0.0
        x = box.center().x() - type_.width(label) / 2
        type_.paint(painter, QPointF(x, base + below), label, look.colour("muted"))


def _paint_bar(painter: QPainter, chart: Chart, look: Look, box: QRectF) -> None:
    matrix, type_ = chart.matrix, look.label
    if matrix is None:
        return
    bar = QRectF(box.right() + 2 * PAD, box.top(), BAR, box.height())
    painter.drawImage(bar, _ramp_image(ramps.table(matrix.ramp, look.theme).tobytes()))
    painter.setPen(QPen(look.colour("line"), 1))
    painter.drawRect(bar)
    ground = Ground(bar, (0.0, 1.0), (matrix.low, matrix.high))
    ticks = bar_ticks(chart)
    widest = 0.0
    for value, text in ticks:
        place = min(max(ground.along(value), bar.top() + 4), bar.bottom() - 3)
        point = QPointF(bar.right() + PAD, place + type_.ascent / 2 - 1.0)
        type_.paint(painter, point, text, look.colour("muted"))
        widest = max(widest, type_.width(text))
    label = type_.shortened(matrix.bar, box.height() + 8)
    _paint_upright(painter, type_, label, bar.right() + PAD + widest + PAD, box, look)


def _ramp_image(table: bytes) -> QImage:
    """One column of colours, high at the top."""
    last = ramps.EMPTY - 1
    image = QImage(1, ramps.EMPTY, QImage.Format.Format_RGB32)
    for row in range(ramps.EMPTY):
        at = 4 * (last - row)
        image.setPixelColor(0, row, QColor(table[at], table[at + 1], table[at + 2]))
    return image


def _paint_upright(
    painter: QPainter, type_: Type, label: str, left: float, box: QRectF, look: Look
) -> None:
    """A label turned by 90°, centred on the box, its left edge at `left`."""
    painter.save()
    painter.translate(left + type_.ascent, box.center().y() + type_.width(label) / 2)
    painter.rotate(-90)
    type_.paint(painter, QPointF(0, 0), label, look.colour("muted"))
    painter.restore()
