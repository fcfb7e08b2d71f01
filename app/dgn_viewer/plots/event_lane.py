"""The lane of clickable event chips below a chart with a time axis."""

from __future__ import annotations

from PySide6.QtCore import QLineF, QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPen

from dgn_engine.scene.elements import Chart, Mark
from dgn_engine.scene.mark_labels import Chip, EpochTick, epoch_ticks, lane_chips
from dgn_viewer.plots.chart_frame import ChartStyle, PlotArea, data_from_drawn, drawn_at

_CHIP = 15.0  # height


class EventLane:
    """The event lane of a chart for one plot area; recreated when either changes."""

    def __init__(self, chart: Chart, style: ChartStyle, plot_area: PlotArea, below: float) -> None:
        """`below`: the distance from the frame to the bottom of the lane, in pixels."""
        box = plot_area.box
        lane = style.lane
        self.box = QRectF(box.left(), box.bottom() + below - lane, box.width(), lane)
        self._style, self._chart, self._area = style, chart, plot_area
        width_of = style.label.width
        offset_marks = [(self._step_offset(mark.x), mark) for mark in chart.marks]
        inside: list[tuple[float, Mark]] = [
            (offset, mark) for offset, mark in offset_marks if -0.5 <= offset <= box.width() + 0.5
        ]
        self.chips: tuple[Chip, ...] = tuple(lane_chips(inside, width_of, box.width()))
        low, high = (data_from_drawn(value, chart.x) for value in plot_area.x)
        self.epochs: tuple[EpochTick, ...] = tuple(
            epoch_ticks(
                chart.x.epoch or 0,
                (low, high),
                self._step_offset,
                self.chips,
                width_of,
                box.width(),
            )
        )

    def chip_at(self, point: QPointF) -> Chip | None:
        """Return the chip at a point of the scene, or None."""
        if not self.box.adjusted(0, -1, 0, 1).contains(point):
            return None
        x = point.x() - self.box.left()
        return next((chip for chip in self.chips if chip.left <= x <= chip.right), None)

    def chip_box(self, chip: Chip) -> QRectF:
        """Return the rectangle of a chip in scene coordinates."""
        height = _CHIP * self._style.theme.scale
        top = self.box.center().y() - height / 2
        return QRectF(self.box.left() + chip.left, top, chip.width, height)

    def paint(self, painter: QPainter, pointed: tuple[float, float] | None) -> None:
        """Paint epoch ticks and chips; `pointed` has the steps of the hovered chip."""
        style, box = self._style, self.box
        painter.setPen(QPen(style.colour("line"), 1))
        painter.drawLine(QLineF(box.topLeft(), box.topRight()))
        base = box.center().y() + style.label.ascent / 2 - 1.0
        for tick in self.epochs:
            x = box.left() + round(tick.place)
            painter.setPen(QPen(style.colour("muted", 0.45), 1))
            painter.drawLine(QLineF(x, box.top(), x, box.top() + (8.0 if tick.text else 4.0)))
            if tick.text:
                point = QPointF(x + 3.0, base)
                style.label.paint(painter, point, tick.text, style.colour("muted"))
        for chip in self.chips:
            self._paint_chip(painter, chip, chip.step_range == pointed)

    def _paint_chip(self, painter: QPainter, chip: Chip, pointed: bool) -> None:
        style, box = self._style, self.chip_box(chip)
        colour = style.colour(_chip_token(chip))
        painter.setPen(QPen(colour, 1))
        painter.setBrush(style.colour("panel"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        tint = QColor(colour)
        tint.setAlphaF(0.28 if pointed else 0.10)
        painter.setBrush(tint)
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        text = style.label
        base = QPointF(
            box.center().x() - text.width(chip.text) / 2, box.center().y() + text.ascent / 2 - 1.0
        )
        text.paint(painter, base, chip.text, style.colour("text"))

    def _step_offset(self, step: float) -> float:
        """Return a step's distance from the lane's left edge; NaN if it is not on the axis."""
        return self._area.pixel_x(drawn_at(step, self._chart.x)) - self._area.box.left()


def _chip_token(chip: Chip) -> str:
    """Return the colour token of a chip by what it marks: divergence, dials, other changes."""
    kinds = {mark.kind for mark in chip.marks}
    if "diverged" in kinds:
        return "refused"
    return "muted" if kinds <= {"dial", "run"} else "accent"
