"""A combo box that shrinks: its text is elided in the middle, with the full text as tooltip."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QComboBox,
    QSizePolicy,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QWidget,
)

from dgn_viewer.style.stylesheet import wrapping_tip
from dgn_viewer.style.type_scale import scaled

_MOST = 176  # maximum width, pixels
_LEFT, _RIGHT = 7, 18  # padding and arrow of the role 'slim' in the style sheet
_AROUND = _LEFT + _RIGHT + 2


class ElidedBox(QComboBox):
    """Combo box as wide as its longest entry, up to `_MOST` pixels."""

    LEAST = 88  # minimum width, pixels: 'whol…work' is still recognisable

    def __init__(self, about: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._about = about
        self.setProperty("role", "slim")
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.currentTextChanged.connect(self._update_tip)
        self._update_tip()

    def set_about(self, about: str) -> None:
        """Set what the tooltip says before the chosen entry."""
        if about != self._about:
            self._about = about
            self._update_tip()

    def sizeHint(self) -> QSize:
        texts = [self.itemText(index) for index in range(self.count())]
        width = max((self.fontMetrics().horizontalAdvance(text) for text in texts), default=0)
        wide = width + scaled(_AROUND) + 2
        return QSize(min(wide, scaled(_MOST)), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        hint = self.sizeHint()
        return QSize(min(hint.width(), self.LEAST), hint.height())

    def showPopup(self) -> None:
        """Show full entries in the list, however narrow the closed box is."""
        view = self.view()
        view.setMinimumWidth(min(view.sizeHintForColumn(0) + 32, self.screen().size().width() // 2))
        super().showPopup()

    def shown_text(self) -> str:
        width = self.width() - scaled(_AROUND)
        middle = Qt.TextElideMode.ElideMiddle
        return self.fontMetrics().elidedText(self.currentText(), middle, width)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        group = QPalette.ColorGroup.Normal if self.isEnabled() else QPalette.ColorGroup.Disabled
        painter.setPen(self.palette().color(group, QPalette.ColorRole.Text))
        text_rect = self.rect().adjusted(scaled(_LEFT), 0, -scaled(_RIGHT), 0)
        along = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(text_rect, along, self.shown_text())
        painter.end()

    def _update_tip(self) -> None:
        parts = [part for part in (self._about, self.currentText()) if part]
        self.setToolTip(wrapping_tip(": ".join(parts)) if parts else "")
