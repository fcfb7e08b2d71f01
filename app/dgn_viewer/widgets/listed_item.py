"""Entries of a combo box list, with group headings above and hints to the right."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QFont, QPainter, QPalette
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

HINT = Qt.ItemDataRole.UserRole + 1  # muted, to the right of the title
GROUP = Qt.ItemDataRole.UserRole + 2  # heading above the first entry of a group
_GAP = 16
_HEADING = 26  # pixels

Index = QModelIndex | QPersistentModelIndex


class ListedItem(QStyledItemDelegate):
    """Delegate that draws headings without adding entries, so that indices stay the same."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        size, hint = super().sizeHint(option, index), index.data(HINT)
        hint_width = option.fontMetrics.horizontalAdvance(hint) + _GAP if hint else 0
        return QSize(size.width() + hint_width, size.height() + self._heading_height(index))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        heading_height = self._heading_height(index)
        if heading_height:
            self._paint_heading(painter, option, index, heading_height)
            option.rect = option.rect.adjusted(0, heading_height, 0, 0)
        super().paint(painter, option, index)
        if hint := index.data(HINT):
            chosen = option.state & QStyle.StateFlag.State_Selected
            role = (
                QPalette.ColorRole.HighlightedText if chosen else QPalette.ColorRole.PlaceholderText
            )
            painter.setPen(option.palette.color(role))
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(option.rect.adjusted(0, 0, -8, 0), right, hint)

    def _heading_height(self, index: Index) -> int:
        group = index.data(GROUP)
        if not group or (index.row() and index.sibling(index.row() - 1, 0).data(GROUP) == group):
            return 0
        return _HEADING

    def _paint_heading(
        self, painter: QPainter, option: QStyleOptionViewItem, index: Index, height: int
    ) -> None:
        painter.save()
        font = QFont(option.font)
        font.setPixelSize(11)
        font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(font)
        painter.setPen(option.palette.color(QPalette.ColorRole.PlaceholderText))
        area = QRect(option.rect.left() + 8, option.rect.top(), option.rect.width() - 8, height - 3)
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom
        painter.drawText(area, left, str(index.data(GROUP)))
        painter.restore()
