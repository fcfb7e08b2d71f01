"""A combo box that shows the engine's value until the engine has confirmed a choice."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QStyle, QStyleOptionComboBox, QStylePainter, QWidget

from dgn_viewer.widgets.grouped_box import BoxChoice, GroupedBox

_INSIDE = 2  # pixels that the style leaves free around the text


class ChoiceBox(GroupedBox):
    """Combo box that emits `asked` when the user chooses, and changes only through `show_value`.

    Neither wheel nor arrow keys choose directly, because a regime swap redraws weights.
    """

    asked = Signal(str)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = ""
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.activated.connect(self._on_activated)

    def offer_choices(self, choices: Sequence[BoxChoice]) -> None:
        super().offer_choices(choices)
        view = self.view()
        view.setMinimumWidth(view.sizeHintForColumn(0) + 32 if self._choices else 0)
        self.show_value(self._shown)
        self.updateGeometry()

    def show_value(self, value: str) -> None:
        self._shown = value
        self.setCurrentIndex(self.findData(value))
        self.update()

    @property
    def value(self) -> str:
        return self._shown

    def short_texts(self) -> tuple[str, ...]:
        return tuple(choice.short for choice in self._choices)

    def text_width(self) -> int:
        """Return the pixels available for the text of the closed box."""
        return self.width() - self._frame_width()

    def sizeHint(self) -> QSize:
        texts = self.short_texts() or ("–" * 6,)
        width = max(self.fontMetrics().horizontalAdvance(text) for text in texts)
        return QSize(width + self._frame_width() + 1, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Open the list with the arrow keys instead of choosing."""
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self.showPopup()
        elif event.text().isprintable() and event.text().strip():
            event.ignore()  # letters are shortcuts of the window
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Ignore the wheel."""
        event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        index = self.currentIndex()
        option.currentText = self._choices[index].short if index >= 0 else "–"
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()

    def _frame_width(self) -> int:
        """Return the width of padding and arrow, as the style draws them."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        option.rect = QRect(0, 0, 200, 32)  # independent of the current size
        part = QStyle.SubControl.SC_ComboBoxEditField
        kind = QStyle.ComplexControl.CC_ComboBox
        text_rect = self.style().subControlRect(kind, option, part, self)
        return option.rect.width() - text_rect.width() + _INSIDE

    def _on_activated(self, place: int) -> None:
        value = self._choices[place].value
        self.show_value(self._shown)  # until the engine has confirmed the choice
        self.asked.emit(value)
