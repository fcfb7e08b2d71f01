"""A small non-modal popup for entering a range."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QWidget

from dgn_engine.errors import UserError
from dgn_engine.scene.axes import Range
from dgn_engine.scene.chart_choices import parse_range
from dgn_viewer.widgets.layouts import make_column, make_row, plain_label, push_button
from dgn_viewer.widgets.message_line import MessageLine

_FIELD = 84  # pixels wide


class RangePopup(QFrame):
    """A popup with two fields; Enter or 'Apply' accepts a valid range, Escape closes it."""

    def __init__(
        self, title: str, reach: Range, log: bool, take: Callable[[Range], object], over: QWidget
    ) -> None:
        super().__init__(over)
        self.setObjectName("sheet")
        self.setAccessibleName(title)
        self._over = over
        self._log = log
        self._take = take
        self.low, self.high = (QLineEdit(f"{end:.6g}") for end in reach)
        for field, name in ((self.low, "Lower limit"), (self.high, "Upper limit")):
            field.setAccessibleName(name)
            field.setFixedWidth(_FIELD)
        self.refusal = MessageLine()
        self.refusal.end_with(self.low.textEdited, self.high.textEdited)
        self.refusal.changed.connect(self._make_room)
        heading = plain_label(title, role="heading")
        apply = push_button("Apply", self.apply, role="primary")
        close = push_button("Cancel", self.close)
        fields = make_row(self.low, plain_label("to"), self.high, spacing=8)
        buttons = make_row(1, close, apply, spacing=8)
        parts = (heading, fields, self.refusal, buttons)
        self._layout = make_column(*parts, into=self, margins=(12, 8, 12, 8), spacing=8)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)

    def open_at(self, place: QPoint) -> None:
        """Show the popup near a screen position, inside the window."""
        self._fit_size()
        over = self._over
        self.move(over.mapFromGlobal(place))
        self._keep_inside()
        self.show()
        self.raise_()
        self.low.setFocus(Qt.FocusReason.PopupFocusReason)
        self.low.selectAll()

    def apply(self) -> None:
        try:
            reach = parse_range(self.low.text(), self.high.text(), self._log)
        except UserError as refusal:
            self.refusal.show_refusal(str(refusal))
            return
        self.close()
        self._take(reach)

    def event(self, event: QEvent) -> bool:
        """Keep typed keys from triggering shortcuts of the window."""
        if event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        match event.key():
            case Qt.Key.Key_Escape:
                self.close()
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self.apply()

    def _make_room(self) -> None:
        if self.isVisible():
            self._fit_size()
            self._keep_inside()

    def _keep_inside(self) -> None:
        """Move the popup back inside the window."""
        max_position = self._over.width() - self.width(), self._over.height() - self.height()
        self.move(max(min(self.x(), max_position[0]), 0), max(min(self.y(), max_position[1]), 0))

    def _fit_size(self) -> None:
        self.setFixedWidth(2 * _FIELD + 72)
        self._layout.activate()
        self.setFixedHeight(self._layout.totalHeightForWidth(self.width()))
