"""A matrix as a picture: one entry, one rectangle, by a table of 256 colours."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QGraphicsObject, QStyleOptionGraphicsItem, QWidget

from dgn_viewer.scene.elements import Array, Matrix
from dgn_viewer.style import ramps
from dgn_viewer.style.theme import Theme


class PictureItem(QGraphicsObject):
    """Entry (row, column) is centred on (column, row); cheaper than pyqtgraph's image by half."""

    def __init__(self) -> None:
        super().__init__()
        self._indices: Array = np.zeros((0, 0), dtype=np.uint8)  # QImage does not own its pixels
        self._image = QImage()

    def show_matrix(self, matrix: Matrix, theme: Theme) -> None:
        """Show these values."""
        rows, columns = matrix.values.shape
        if self._indices.shape != (rows, columns):
            self.prepareGeometryChange()
        indices = np.ascontiguousarray(ramps.indices(matrix))
        image = QImage(indices.data, columns, rows, columns, QImage.Format.Format_Indexed8)
        image.setColorTable(ramps.colour_table(matrix.ramp, theme))
        self._indices, self._image = indices, image
        self.update()

    def boundingRect(self) -> QRectF:
        """In columns and rows."""
        rows, columns = self._indices.shape
        return QRectF(-0.5, -0.5, columns, rows)

    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        """Unblurred."""
        if not self._image.isNull():
            painter.drawImage(self.boundingRect(), self._image)
