"""The lane of events below a chart over steps: chips that say what happened and lead there."""

from __future__ import annotations

from PySide6.QtCore import QLineF, QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPen

from dgn_engine.scene.elements import Chart, Mark
from dgn_engine.scene.mark_labels import LANE, Chip, EpochTick, epoch_ticks, lane_chips
from dgn_viewer.plots.chart_frame import ChartStyle, PlotArea, drawn_at, undrawn

_CHIP = 15.0  # height


class EventLane:
    """What the lane of one chart shows in one place; made anew when chart or place change."""

    def __init__(self, chart: Chart, style: ChartStyle, plot_area: PlotArea, below: float) -> None:
        """`below`: from the frame down to the end of the lane."""
        box = plot_area.box
        self.box = QRectF(box.left(), box.bottom() + below - LANE, box.width(), LANE)
        self._style, self._chart, self._area = style, chart, plot_area
        width_of = style.label.width
        placed = [(self._place(mark.x), mark) for mark in chart.marks]
        inside: list[tuple[float, Mark]] = [
            (place, mark) for place, mark in placed if -0.5 <= place <= box.width() + 0.5
        ]
        self.chips: tuple[Chip, ...] = tuple(lane_chips(inside, width_of, box.width()))
        low, high = (undrawn(value, chart.x) for value in plot_area.x)
        self.epochs: tuple[EpochTick, ...] = tuple(
            epoch_ticks(
                chart.x.epoch or 0, (low, high), self._place, self.chips, width_of, box.width()
            )
        )

    def chip_at(self, place: QPointF) -> Chip | None:
        """The chip under a place of the scene."""
        if not self.box.adjusted(0, -1, 0, 1).contains(place):
            return None
        x = place.x() - self.box.left()
        return next((chip for chip in self.chips if chip.left <= x <= chip.right), None)

    def chip_box(self, chip: Chip) -> QRectF:
        """The rectangle of a chip in the scene."""
        top = self.box.center().y() - _CHIP / 2
        return QRectF(self.box.left() + chip.left, top, chip.width, _CHIP)

    def paint(self, painter: QPainter, pointed: tuple[float, float] | None) -> None:
        """Epochs as light ticks, chips over them; `pointed`: the steps of the one pointed at."""
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
            self._paint_chip(painter, chip, chip.steps == pointed)

    def _paint_chip(self, painter: QPainter, chip: Chip, pointed: bool) -> None:
        style, box = self._style, self.chip_box(chip)
        colour = style.colour(_token(chip))
        painter.setPen(QPen(colour, 1))
        painter.setBrush(style.colour("panel"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        tint = QColor(colour)
        tint.setAlphaF(0.28 if pointed else 0.10)
        painter.setBrush(tint)
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        text = style.label
        place = QPointF(
            box.center().x() - text.width(chip.text) / 2, box.center().y() + text.ascent / 2 - 1.0
        )
        text.paint(painter, place, chip.text, style.colour("text"))

    def _place(self, step: float) -> float:
        """Where a step lies, from the lane's left edge; NaN where the axis cannot show it."""
        return self._area.across(drawn_at(step, self._chart.x)) - self._area.box.left()


def _token(chip: Chip) -> str:
    """The colour of a chip: what went wrong, what the user changed in the network, dials."""
    kinds = {mark.kind for mark in chip.marks}
    if "diverged" in kinds:
        return "refused"
    return "muted" if kinds <= {"dial", "run"} else "accent"
