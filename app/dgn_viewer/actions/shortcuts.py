"""Every shortcut in one sheet over the window; any key or click puts it away."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QWidget

from dgn_viewer.actions.registry import Actions
from dgn_viewer.widgets.layouts import PlainLabel

_ROWS = 14  # in one column of the sheet


class ShortcutSheet(QFrame):
    """A frame in the middle of the window."""

    def __init__(self, actions: Actions, window: QWidget) -> None:
        super().__init__(window)
        self.setObjectName("sheet")
        self.setAccessibleName("Keyboard shortcuts")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._window = window
        self._actions = actions
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(24, 16, 24, 16)
        self._grid.setHorizontalSpacing(16)
        self._grid.setVerticalSpacing(8)
        self.hide()

    def rows(self) -> tuple[tuple[str, str], ...]:
        """(keys, text) of every action that has a shortcut."""
        native = QKeySequence.SequenceFormat.NativeText
        return tuple(
            (self._actions[spec.id].shortcut().toString(native), self._actions[spec.id].text())
            for spec in self._actions.specs
            if not self._actions[spec.id].shortcut().isEmpty()
        )

    def open(self) -> None:
        self._clear()
        title = PlainLabel("Keyboard shortcuts", self)
        title.setProperty("role", "title")
        self._grid.addWidget(title, 0, 0, 1, 4)
        for place, (keys, text) in enumerate(self.rows()):
            column, row = divmod(place, _ROWS)
            key_label = PlainLabel(keys, self)
            key_label.setProperty("role", "heading")
            self._grid.addWidget(key_label, row + 1, 2 * column)
            self._grid.addWidget(PlainLabel(text.removesuffix("…"), self), row + 1, 2 * column + 1)
        self.adjustSize()
        window = self._window
        self.move((window.width() - self.width()) // 2, (window.height() - self.height()) // 2)
        self.show()
        self.raise_()
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _clear(self) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()

    def event(self, event: QEvent) -> bool:
        """Keep keys from acting on what lies behind while the sheet is open."""
        if event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.hide()
        self._window.setFocus(Qt.FocusReason.OtherFocusReason)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.hide()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.hide()
