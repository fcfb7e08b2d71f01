"""Painting and measuring of a chart's frame: title, axes, grid, colour bar."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from PySide6.QtCore import QLineF, QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPixmap

from dgn_engine.scene import ramps
from dgn_engine.scene.axes import Range
from dgn_engine.scene.chart_layout import Margins
from dgn_engine.scene.elements import Axis, Chart
from dgn_engine.scene.mark_labels import LANE
from dgn_engine.scene.theme import Theme
from dgn_engine.scene.ticks import axis_label, axis_ticks, bar_ticks, select_spaced
from dgn_viewer.plots.example_image import example_image
from dgn_viewer.plots.rich_text import TextStyle

BAR = 8.0  # pixels; width of a colour bar
_DETAIL = re.compile(", | of | over ")  # the part of a label after this may be dropped
PAD = 4.0
PICTURE = 20.0  # pixels; side of an example's picture next to its row
State = tuple[object, ...]  # everything that a frame depends on
CutText = tuple[QRectF, str]  # rectangle and full text of an elided label


def drawn_values(values: Any, axis: Axis) -> Any:
    """Return drawn coordinates: log10 on a logarithmic axis, with NaN for values ≤ 0."""
    if not axis.log:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log10(values), np.nan)


def drawn_at(value: float, axis: Axis) -> float:
    """Return the drawn coordinate of one value; NaN for a value ≤ 0 on a logarithmic axis."""
    return float(drawn_values(np.float64(value), axis))


def drawn_range(reach: Range, axis: Axis) -> Range:
    """Return a range (positive on a logarithmic axis) in drawn coordinates."""
    return (math.log10(reach[0]), math.log10(reach[1])) if axis.log else reach


def data_from_drawn(value: float, axis: Axis) -> float:
    """Return the value at a drawn coordinate, the inverse of `drawn_at`."""
    # Clamped, because 10**x overflows float64 beyond 308.
    return float(10.0 ** max(min(value, 300.0), -300.0)) if axis.log else value


@dataclass(frozen=True)
class ChartStyle:
    """The colours and fonts of all charts."""

    theme: Theme
    family: str = ""

    @cached_property
    def title(self) -> TextStyle:
        return TextStyle(self.family, 12 * self.theme.scale, True, self.theme.numbers)

    @cached_property
    def label(self) -> TextStyle:
        return TextStyle(self.family, 11 * self.theme.scale, numbers=self.theme.numbers)

    @property
    def lane(self) -> float:
        """The height of the lane of events."""
        return LANE * self.theme.scale

    @cached_property
    def tab(self) -> TextStyle:
        return TextStyle(self.family, 12 * self.theme.scale)

    def colour(self, token: str, alpha: float = 1.0) -> QColor:
        """Return a colour of the theme by its token ('line', 'muted', …)."""
        known = self._colours.get((token, alpha))
        if known is None:
            known = self._colours[token, alpha] = QColor(getattr(self.theme, token))
            known.setAlphaF(alpha)
        return known

    @cached_property
    def _colours(self) -> dict[tuple[str, float], QColor]:
        return {}


@dataclass(frozen=True)
class PlotArea:
    """The map from drawn coordinates to pixels: `box` shows the ranges `x` and `y`.

    On a logarithmic axis the drawn coordinate is log10 of the value. If `down`, y grows downwards.
    """

    box: QRectF
    x: Range
    y: Range
    down: bool = False

    def pixel_x(self, value: float) -> float:
        """Return the pixel position of a drawn x."""
        low, high = self.x
        return self.box.left() + (value - low) / ((high - low) or 1.0) * self.box.width()

    def pixel_y(self, value: float) -> float:
        """Return the pixel position of a drawn y."""
        low, high = self.y
        fraction = (value - low) / ((high - low) or 1.0)
        return self.box.top() + (fraction if self.down else 1.0 - fraction) * self.box.height()


def measure_margins(chart: Chart, style: ChartStyle, x: Range, y: Range) -> Margins:
    """Return the margins around the data of a chart.

    Args:
        chart: The chart.
        style: Its colours and fonts.
        x: The range of the x axis in drawn coordinates.
        y: The range of the y axis in drawn coordinates.
    """
    line = style.label.height
    if chart.small:
        top = style.label.height + 4.0 if chart.title else 4.0
        return Margins(2.0, top, 2.0, 2.0)
    left = right = PAD
    # With fewer ticks, as in a low chart, labels may be longer.
    labels = [
        style.label.width(text)
        for max_ticks in (3, 5)
        for _, text in axis_ticks(chart.y, y, max_ticks)
    ]
    if labels:
        left += max(*labels, style.label.width("0.00") if chart.y.ticks is None else 0.0) + PAD
    if chart.y.label:
        left += line + 2.0
    left += _row_pictures_width(chart)
    top = style.title.height + 8.0 if chart.title else 6.0
    bottom = line + PAD if axis_ticks(chart.x, x, 5) else PAD
    if chart.x.label and not _is_label_inline(chart):
        bottom += line
    if chart.matrix is not None and chart.matrix.bar:
        widest = max((style.label.width(text) for _, text in bar_ticks(chart)), default=0.0)
        right += PAD + BAR + PAD + widest + PAD + line
    if chart.matrix is None:
        # The right margin has the names of the curves and, below them, of the x axis.
        names = [axis_label(chart.x), *(curve.name for curve in chart.curves)]
        right += max(style.label.width(name) for name in names) + 2 * PAD
    return Margins(left, top, right, bottom, style.lane if chart.has_step_axis else 0.0)


def _is_label_inline(chart: Chart) -> bool:
    """Return whether the label of the x axis is at its end, to save a line.

    It is for curves and for the matrices of a comparison, which are side by side in a low row.
    """
    return chart.matrix is None or chart.matrix.sides is not None


def paint_frame(
    painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea, room: Margins
) -> tuple[CutText, ...]:
    """Paint title, grid, axes and colour bar, before the data.

    Returns:
        The labels that did not fit and end in an ellipsis.
    """
    box = plot_area.box
    cut = _paint_title(painter, chart, style, box, room)
    if chart.small:
        return cut
    cut += _paint_rows(painter, chart, style, plot_area, room)
    cut += _paint_columns(painter, chart, style, plot_area)
    painter.setPen(QPen(style.colour("line"), 1))
    if chart.matrix is None:
        painter.drawLine(box.bottomLeft(), box.bottomRight())
        return cut
    painter.drawRect(box.adjusted(-1, -1, 0, 0))
    if chart.matrix.bar:
        cut += _paint_colour_bar(painter, chart, style, box)
    _paint_row_pictures(painter, chart, style, plot_area)
    return cut


def _cut_text(displayed: str, full_text: str, box: QRectF) -> tuple[CutText, ...]:
    return ((box, full_text),) if displayed != full_text else ()


def _paint_title(
    painter: QPainter, chart: Chart, style: ChartStyle, box: QRectF, room: Margins
) -> tuple[CutText, ...]:
    """Paint the title above the data; a long one extends to the left, above the row labels."""
    type_ = style.label if chart.small else style.title
    colour = style.colour("accent" if chart.small and chart.chosen else "text")
    if chart.small and not chart.chosen:
        colour = style.colour("muted")
    right = box.right() + room.right
    left = max(min(box.left(), right - type_.width(chart.title)), box.left() - room.left)
    title = type_.shorten_label(chart.title, right - left)
    top = box.top() - room.top + (0.0 if chart.small else 2.0)
    type_.paint(painter, QPointF(left, top + type_.ascent), title, colour)
    return _cut_text(title, chart.title, QRectF(left, top, right - left, type_.height))


def _paint_rows(
    painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea, room: Margins
) -> tuple[CutText, ...]:
    type_, box = style.label, plot_area.box
    max_ticks = 5 if box.height() > 90 else 3
    ticks = axis_ticks(chart.y, plot_area.y, max_ticks)
    positions = [plot_area.pixel_y(value) for value, _ in ticks]
    for index in select_spaced(ticks, positions, [type_.height * 0.5] * len(ticks)):
        row_y, text = positions[index], ticks[index][1]
        if chart.matrix is None:
            painter.setPen(QPen(style.colour("line", 0.7), 1))
            painter.drawLine(QPointF(box.left(), row_y), QPointF(box.right(), row_y))
        base = row_y + type_.ascent / 2 - 1.0
        x = box.left() - PAD - type_.width(text) - _row_pictures_width(chart)
        type_.paint(painter, QPointF(x, base), text, style.colour("muted"))
    if not chart.y.label:
        return ()
    full_label = axis_label(chart.y)
    label, left = type_.shorten_label(full_label, box.height() + 20), box.left() - room.left + 2.0
    _paint_vertical_label(painter, type_, label, left, box, style)
    return _cut_text(
        label, full_label, QRectF(left, box.top() - 10, type_.height, box.height() + 20)
    )


def _row_pictures_width(chart: Chart) -> float:
    """Return the width of the example pictures next to the rows, in pixels."""
    has_images = chart.pictures is not None and chart.pictures.images is not None
    return PICTURE + PAD if has_images else 0.0


def _paint_row_pictures(
    painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea
) -> None:
    """Paint as many example pictures as fit left of their rows, each with a tick to its row."""
    matrix, pictures = chart.matrix, chart.pictures
    if matrix is None or pictures is None or (images := pictures.images) is None:
        return
    box, probe_set = plot_area.box, pictures.probe_set
    left = box.left() - PAD - PICTURE
    dataset_count = len(probe_set.labels) - probe_set.drawn
    # Hand-drawn examples, which come last in the probe set, get their pictures first.
    rows = sorted(enumerate(matrix.row_examples), key=lambda row: row[1] < dataset_count)
    tops: list[float] = []
    for row, example in rows:
        middle = plot_area.pixel_y(row)
        top = min(max(middle - PICTURE / 2, box.top()), box.bottom() - PICTURE)
        is_free = all(abs(top - taken_top) >= PICTURE + 1.0 for taken_top in tops)
        if is_free and box.top() <= middle <= box.bottom():
            painter.drawImage(QRectF(left, top, PICTURE, PICTURE), example_image(images[example]))
            painter.setPen(QPen(style.colour("muted"), 1))
            painter.drawLine(QLineF(left + PICTURE, middle, box.left() - 1, middle))
            tops.append(top)


def _paint_columns(
    painter: QPainter, chart: Chart, style: ChartStyle, plot_area: PlotArea
) -> tuple[CutText, ...]:
    type_, box = style.label, plot_area.box
    max_ticks = max(2, min(5, int(box.width() / 56)))
    ticks = axis_ticks(chart.x, plot_area.x, max_ticks)
    base = box.bottom() + PAD + type_.ascent
    # Keep labels inside their chart, clear of its neighbour's.
    left_limit, right_limit = box.left() - PAD, box.right() + PAD
    full_label = axis_label(chart.x)
    label = type_.shorten_label(full_label, box.width() + 40)
    x = box.center().x() - type_.width(label) / 2
    label_point = QPointF(x, base + (type_.height if ticks else 0.0))
    if label and _is_label_inline(chart):
        if chart.matrix is not None and not chart.matrix.bar:  # its neighbour has it
            label = full_label = ""
        label_point = QPointF(box.right() + PAD + 2, base)
        right_limit = box.right() if label else right_limit
    type_.paint(painter, label_point, label, style.colour("muted"))
    widths = [type_.width(text) for _, text in ticks]
    positions = [
        min(max(plot_area.pixel_x(value), left_limit + width / 2), right_limit - width / 2)
        for (value, _), width in zip(ticks, widths, strict=True)
    ]
    for index in select_spaced(ticks, positions, [width / 2 + PAD for width in widths]):
        point = QPointF(positions[index] - widths[index] / 2, base)
        type_.paint(painter, point, ticks[index][1], style.colour("muted"))
    around = QRectF(
        label_point.x(), label_point.y() - type_.ascent, type_.width(label), type_.height
    )
    return _cut_text(label, full_label, around)


def _paint_colour_bar(
    painter: QPainter, chart: Chart, style: ChartStyle, box: QRectF
) -> tuple[CutText, ...]:
    matrix, type_ = chart.matrix, style.label
    if matrix is None:
        return ()
    bar = QRectF(box.right() + 2 * PAD, box.top(), BAR, box.height())
    below, above = matrix.beyond
    bar = bar.adjusted(0, BAR if above else 0, 0, -BAR if below else 0)
    table = ramps.rgba_table(matrix.ramp, style.theme)
    painter.drawImage(bar, _ramp_image(table.tobytes()))
    painter.setPen(QPen(style.colour("line"), 1))
    painter.drawRect(bar)
    if above:
        _paint_arrow(painter, bar.topLeft(), bar.topRight(), -BAR, table[ramps.EMPTY - 1])
    if below:
        _paint_arrow(painter, bar.bottomLeft(), bar.bottomRight(), BAR, table[0])
    plot_area = PlotArea(bar, (0.0, 1.0), (matrix.low, matrix.high))
    ticks = bar_ticks(chart)
    widest = 0.0
    positions = [
        min(max(plot_area.pixel_y(value), bar.top() + 4), bar.bottom() - 3) for value, _ in ticks
    ]
    for index in _labels_with_room(positions, type_.height * 0.9):
        text = ticks[index][1]
        point = QPointF(bar.right() + PAD, positions[index] + type_.ascent / 2 - 1.0)
        type_.paint(painter, point, text, style.colour("muted"))
        widest = max(widest, type_.width(text))
    left = bar.right() + PAD + widest + PAD
    label = bar_label(type_, matrix.bar, box.height())
    _paint_vertical_label(painter, type_, label, left, box, style)
    bar_box = QRectF(bar.left(), box.top(), left + type_.height - bar.left(), box.height())
    return _cut_text(label, matrix.bar, bar_box)


def bar_label(type_: TextStyle, full_label: str, height: float) -> str:
    """Return the label of a colour bar, shortened to its height in pixels.

    'overlap, normalised' becomes 'overlap' first, then is elided; if hardly any of it would remain,
    the label is ''.
    """
    for label in (full_label, _DETAIL.split(full_label)[0]):
        if type_.width(label) <= height + 8:
            return label
    return (
        type_.shorten_label(full_label, height + 8)
        if type_.width(full_label) <= 1.5 * height
        else ""
    )


def _paint_arrow(
    painter: QPainter, left: QPointF, right: QPointF, height: float, colour: Any
) -> None:
    """Paint the arrow for values beyond the end of a colour bar, in their colour."""
    tip = QPointF((left.x() + right.x()) / 2, left.y() + height)
    painter.setBrush(QColor(*(int(channel) for channel in colour[:3])))
    painter.drawPolygon([left, tip, right])
    painter.setBrush(Qt.BrushStyle.NoBrush)


def _labels_with_room(positions: Sequence[float], min_distance: float) -> list[int]:
    """Return the indices of the labels that fit: all, the first and last, or the first."""
    chosen = list(range(len(positions)))
    for subset in (chosen, chosen[:1] + chosen[-1:]):
        pairs = pairwise(positions[index] for index in subset)
        if all(abs(lower - upper) >= min_distance for lower, upper in pairs):
            return sorted(set(subset))
    return chosen[:1]


@lru_cache(maxsize=16)
def _ramp_image(table: bytes) -> QImage:
    """Return the colour ramp as an image of one column, high values at the top."""
    rows = table[: 4 * ramps.EMPTY]
    image = QImage(rows, 1, ramps.EMPTY, 4, QImage.Format.Format_RGBA8888)
    return image.flipped(Qt.Orientation.Vertical)


def _paint_vertical_label(
    painter: QPainter, type_: TextStyle, label: str, left: float, box: QRectF, style: ChartStyle
) -> None:
    """Paint a label rotated by 90°, centred on the box, with its left edge at `left`."""
    painter.save()
    painter.translate(left + type_.ascent, box.center().y() + type_.width(label) / 2)
    painter.rotate(-90)
    type_.paint(painter, QPointF(0, 0), label, style.colour("muted"))
    painter.restore()


def frame_state(chart: Chart, style: ChartStyle, plot_area: PlotArea, room: Margins) -> State:
    """Return everything `paint_frame` depends on, for comparison with an earlier state."""
    matrix = chart.matrix
    bar = (matrix.ramp, matrix.low, matrix.high, matrix.bar, matrix.beyond) if matrix else None
    rows = (chart.pictures, matrix.row_examples) if matrix and chart.pictures else None
    frame = (chart.title, chart.small, chart.chosen, chart.x, chart.y, bar, rows)
    return (*frame, style, plot_area, room)


class FramePicture:
    """A frame painted from cached pixels while its state is unchanged."""

    def __init__(self) -> None:
        self._state: State = ()
        self._pixmap = QPixmap()
        self.cut: tuple[CutText, ...] = ()  # labels elided in the last painting

    def paint(
        self,
        painter: QPainter,
        area: QRect,
        chart: Chart,
        style: ChartStyle,
        plot_area: PlotArea,
        room: Margins,
    ) -> None:
        """Paint the frame inside `area`, in whole pixels of the scene."""
        state = (*frame_state(chart, style, plot_area, room), area)
        ratio = painter.device().devicePixelRatioF()
        size = area.size() * ratio
        if state != self._state or self._pixmap.size() != size:
            self._state = state
            self._pixmap = QPixmap(size)
            self._pixmap.setDevicePixelRatio(ratio)
            self._pixmap.fill(Qt.GlobalColor.transparent)
            inner = QPainter(self._pixmap)
            inner.translate(QPoint(0, 0) - area.topLeft())
            self.cut = paint_frame(inner, chart, style, plot_area, room)
            inner.end()
        painter.drawPixmap(area.topLeft(), self._pixmap)
