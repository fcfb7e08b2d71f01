"""Two lines a row: what a run is, and its status."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from dgn_viewer.style.stylesheet import mixed
from dgn_viewer.style.theme import Theme

HEADLINE = int(Qt.ItemDataRole.UserRole)
ABOUT = HEADLINE + 1
_HEIGHT = 48
_SIDE = 8


class RunRows(QStyledItemDelegate):
    """Paints plain text only."""

    def __init__(self, theme: Theme, parent: QObject) -> None:
        super().__init__(parent)
        self._theme = theme

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        return QSize(0, _HEIGHT)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        theme = self._theme
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        painter.save()
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, QColor(mixed(theme.panel, theme.accent, 0.16)))
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(rect, QColor(mixed(theme.panel, theme.line, 0.5)))
        inner = rect.adjusted(_SIDE, 6, -_SIDE, -6)
        left = Qt.AlignmentFlag.AlignLeft
        font = painter.font()
        painter.setPen(QColor(theme.text))
        self._line(painter, inner, left | Qt.AlignmentFlag.AlignTop, str(index.data(HEADLINE)))
        font.setPixelSize(12)
        painter.setFont(font)
        painter.setPen(QColor(mixed(theme.muted, theme.text, 0.25)))
        self._line(painter, inner, left | Qt.AlignmentFlag.AlignBottom, str(index.data(ABOUT)))
        painter.restore()

    @staticmethod
    def _line(painter: QPainter, room: QRect, where: Qt.AlignmentFlag, text: str) -> None:
        metrics = painter.fontMetrics()
        short = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, where, short)
