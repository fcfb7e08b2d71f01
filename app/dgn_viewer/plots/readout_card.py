"""The card with the values under the cursor, above all charts."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QGraphicsObject, QStyleOptionGraphicsItem, QWidget

from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.chart_notes import paint_readout
from dgn_viewer.style.theme import LIGHT


class ReadoutCard(QGraphicsObject):
    """Stands beside the cursor; hidden while it has no lines."""

    def __init__(self) -> None:
        super().__init__()
        self.setZValue(100)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.look = ChartStyle(LIGHT)
        self.room = QRectF()
        self.place = QPointF()
        self.lines: tuple[str, ...] = ()

    def show_lines(self, place: QPointF, lines: tuple[str, ...]) -> None:
        """Show these lines beside a place; none hides the card."""
        if (place, lines) != (self.place, self.lines):
            self.place, self.lines = place, lines
            self.update()

    def boundingRect(self) -> QRectF:
        """The whole scene."""
        return self.room

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        """The card."""
        if self.lines:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            paint_readout(painter, self.look, self.place, self.lines, self.room)

    def resize(self, room: QRectF) -> None:
        """The scene has this size now."""
        self.prepareGeometryChange()
        self.room = room
