"""Stateless painting of the layer strip: rows, arrows, links, slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen, QPixmap

from dgn_engine.protocol.training import LayerInfo
from dgn_engine.scene.theme import Theme
from dgn_engine.views.strip_state import StripState
from dgn_viewer.layer_strip.geometry import LABELS, TERMINAL, StripGrid
from dgn_viewer.style.stylesheet import mix_colours

_CENTRE = Qt.AlignmentFlag.AlignCenter
# The part of matplotlib's 'plasma' with a contrast of at least 3:1 against the panel.
_STOPS = {
    "light": ("#0D0887", "#5601A4", "#900DA4", "#BF3984", "#DD5E66"),
    "dark": ("#C5407E", "#DE6164", "#F1844B", "#FCAA36", "#F0F921"),
}


def gate_colour(theme: Theme, index: int, count: int) -> str:
    """Return the colour of gate layer `index` of `count`, independent of its wiring."""
    stops = _STOPS[theme.name]
    position = index / max(count - 1, 1) * (len(stops) - 1)
    lower = min(int(position), len(stops) - 2)
    return mix_colours(stops[lower], stops[lower + 1], position - lower)


@dataclass(frozen=True)
class Brushes:
    """Theme, fonts and icon for painting."""

    theme: Theme
    font: QFont
    small: QFont
    bold: QFont
    lock: QPixmap


def paint_rows(painter: QPainter, grid: StripGrid, state: StripState, brushes: Brushes) -> None:
    _paint_row_names(painter, grid, state, brushes)
    if state.own_gates:
        _paint_own_gates(painter, grid, state, brushes)
    else:
        _paint_feature_network(painter, grid, state, brushes)
    _paint_value_network(painter, grid, state, brushes)


def paint_waiting(painter: QPainter, room: QRectF, brushes: Brushes) -> None:
    """Paint the hint shown before the first run."""
    painter.setFont(brushes.small)
    painter.setPen(QColor(brushes.theme.muted))
    text = "Layers and their gates appear here once the first run starts."
    painter.drawText(room, _CENTRE, text)


def paint_link(
    painter: QPainter, start: QRectF, end: QPointF, colour: str, pending: bool, strong: bool
) -> None:
    """Paint the line from a feature layer to the chip of its gates."""
    path = QPainterPath(QPointF(start.center().x(), start.bottom()))
    middle = (start.bottom() + end.y()) / 2
    path.cubicTo(QPointF(start.center().x(), middle + 2), QPointF(end.x(), middle - 2), end)
    pen = QPen(QColor(colour), 2.0 if strong else 1.5)
    if pending:
        pen.setDashPattern([3, 2])
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(path)


def paint_slot(painter: QPainter, area: QRectF, brushes: Brushes, legal: bool, under: bool) -> None:
    """Paint a slot during a drag: outlined if the chip may be dropped there, else faded."""
    theme = brushes.theme
    if legal:
        colour = QColor(theme.accent)
        background = QColor(theme.accent)
        background.setAlphaF(0.14 if under else 0.05)
        pen = QPen(colour, 1.5 if under else 1)
        if not under:
            pen.setStyle(Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.setBrush(background)
    else:
        fade = QColor(theme.window)
        fade.setAlphaF(0.6)
        painter.setPen(QPen(QColor(theme.refused), 1.5) if under else Qt.PenStyle.NoPen)
        painter.setBrush(fade)
    painter.drawRoundedRect(area, 6, 6)


def paint_highlight(painter: QPainter, area: QRectF, brushes: Brushes) -> None:
    """Paint the outline of the layer that is selected in a panel, in the same colour."""
    background = QColor(brushes.theme.accent)
    background.setAlphaF(0.18)
    painter.setPen(QPen(QColor(brushes.theme.accent), 2))
    painter.setBrush(background)
    painter.drawRoundedRect(area, 6, 6)


def paint_origin(painter: QPainter, area: QRectF, colour: str) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(colour), 1, Qt.PenStyle.DashLine))
    painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)


def paint_reason(
    painter: QPainter, middle: float, room: QRectF, text: str, brushes: Brushes
) -> QRectF:
    """Paint the reason why a chip cannot be dropped above its slot; return the box."""
    theme = brushes.theme
    width = QFontMetricsF(brushes.small).horizontalAdvance(text) + 16
    left = max(room.left() + 4, min(middle - width / 2, room.right() - width - 4))
    box = QRectF(left, 20, width, 22)
    painter.setPen(QPen(QColor(theme.refused), 1))
    painter.setBrush(QColor(theme.panel))
    painter.drawRoundedRect(box, 4, 4)
    painter.setFont(brushes.small)
    painter.drawText(box, _CENTRE, text)
    return box


def _paint_row_names(
    painter: QPainter, grid: StripGrid, state: StripState, brushes: Brushes
) -> None:
    painter.setFont(brushes.small)
    painter.setPen(QColor(brushes.theme.muted))
    left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
    rows = {"gates": grid.chip_rect(0), "value": grid.value_rect(0)}
    if not state.own_gates:
        rows["random" if state.drawn_gates else "feature"] = grid.node_rect(0)
    for name, area in rows.items():
        painter.drawText(QRectF(12, area.y(), LABELS - 12, area.height()), left, name)
    frozen = {
        "feature": state.has_frozen_gates,
        "random": state.has_frozen_gates,
        "value": state.value_frozen,
    }
    for name, area in rows.items():
        if frozen.get(name):
            end = 12 + QFontMetricsF(brushes.small).horizontalAdvance(name) + 4
            painter.drawPixmap(QPointF(end, area.center().y() - 7), brushes.lock)


def _paint_own_gates(
    painter: QPainter, grid: StripGrid, state: StripState, brushes: Brushes
) -> None:
    painter.setFont(brushes.small)
    painter.setPen(QColor(brushes.theme.muted))
    area = QRectF(grid.chip_rect(0).left(), 12, grid.width - grid.chip_rect(0).left(), 22)
    description = "uses its own pre-activations as gates"
    description = "keeps every gate open" if state.open_gates else description
    text = f"{state.regime} {description}; there is no feature network."
    left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
    painter.drawText(area, left, text)
    painter.setPen(QPen(QColor(mix_colours(brushes.theme.muted, brushes.theme.line, 0.4)), 1))
    for column in range(grid.count):
        chip, value = grid.chip_rect(column), grid.value_rect(column)
        x = round(chip.center().x()) + 0.5
        painter.drawLine(QLineF(x, chip.bottom(), x, value.top()))


def _paint_feature_network(
    painter: QPainter, grid: StripGrid, state: StripState, brushes: Brushes
) -> None:
    """Paint the feature layers: a chain from x, or each from x; without x if gates are drawn."""
    theme, drawn = brushes.theme, state.drawn_gates
    middle = round(grid.node_rect(0).center().y()) + 0.5
    start = LABELS + TERMINAL - 24.0
    right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
    for column in range(grid.count):
        node = grid.node_rect(column)
        if column and state.parallel:
            start = max(node.left() - 22.0, start + 12.0)
        if not drawn and (state.parallel or not column):
            painter.setFont(brushes.bold)
            painter.setPen(QColor(theme.text))
            painter.drawText(QRectF(start - 20, middle - 11, 20, 20), right, "x")
        if not drawn and start + 4 < node.left() - 3:
            _paint_flow_arrow(painter, start + 4, node.left() - 3, middle, theme)
        colour = gate_colour(theme, column, grid.count)
        painter.setPen(QPen(QColor(colour), 1.5))
        painter.setBrush(QColor(theme.panel))
        painter.drawRoundedRect(node, 4, 4)
        painter.setPen(QColor(theme.text))
        painter.setFont(brushes.small)
        painter.drawText(node, _CENTRE, str(column + 1))
        start = node.right()


def _paint_value_network(
    painter: QPainter, grid: StripGrid, state: StripState, brushes: Brushes
) -> None:
    theme = brushes.theme
    middle = round(grid.value_rect(0).center().y()) + 0.5
    painter.setFont(brushes.bold)
    painter.setPen(QColor(theme.text))
    right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
    entry = QRectF(LABELS - 8, middle - 11, TERMINAL - 16, 20)
    if state.input_name != "x":
        painter.setFont(brushes.small)
    painter.drawText(entry, right, state.input_name)
    start = entry.right()
    for column, name in enumerate(_layer_names(state.layers, grid.box_width - 12, brushes)):
        box = grid.value_rect(column)
        _paint_flow_arrow(painter, start + 4, box.left() - 3, middle, theme)
        _paint_value_layer(painter, box, name, brushes)
        start = box.right()
    out = min(start + max(grid.pitch - grid.box_width, 24), grid.output_end().x() + 24)
    _paint_flow_arrow(painter, start + 4, out, middle, theme)
    painter.setFont(brushes.bold)
    painter.setPen(QColor(theme.text))
    painter.drawText(QRectF(out + 3, middle - 11, 16, 20), _CENTRE, "ŷ")


def _paint_value_layer(painter: QPainter, box: QRectF, text: str, brushes: Brushes) -> None:
    theme = brushes.theme
    painter.setPen(QPen(QColor(mix_colours(theme.line, theme.muted, 0.45)), 1))
    painter.setBrush(QColor(theme.panel))
    painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
    painter.setFont(brushes.font)
    painter.setPen(QColor(theme.text))
    painter.drawText(box, _CENTRE, text)


def _layer_names(layers: Sequence[LayerInfo], room: float, brushes: Brushes) -> list[str]:
    """Return the names of the value layers, in the longest form that fits all of them."""
    metrics = QFontMetricsF(brushes.font)
    numbers = [str(layer.index + 1) for layer in layers]
    short = [f"{n} · {layer.shape[0]}" for n, layer in zip(numbers, layers, strict=True)]
    full = [f"{n} · {_shape_text(layer.shape)}" for n, layer in zip(numbers, layers, strict=True)]
    for names in (full, short):
        if all(metrics.horizontalAdvance(name) <= room for name in names):
            return names
    return numbers


def _shape_text(shape: Sequence[int]) -> str:
    return f"{shape[0]} units" if len(shape) == 1 else "×".join(str(side) for side in shape)


def _paint_flow_arrow(painter: QPainter, start: float, end: float, y: float, theme: Theme) -> None:
    if end - start < 6:
        return
    painter.setPen(QPen(QColor(mix_colours(theme.muted, theme.line, 0.3)), 1))
    painter.drawLine(QLineF(start, y, end, y))
    painter.drawLine(QLineF(end - 4, y - 3, end, y))
    painter.drawLine(QLineF(end - 4, y + 3, end, y))
