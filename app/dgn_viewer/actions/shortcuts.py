"""The shortcut sheet over the window; any key or click closes it."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QWidget

from dgn_viewer.actions.registry import Actions
from dgn_viewer.widgets.layouts import PlainLabel, clear_layout, make_column, make_scroll_area

_ROWS = 14  # rows per column, if the window is wide enough for all columns
_AROUND = 16  # pixels of the window left visible on each side


class ShortcutSheet(QFrame):
    """Frame in the middle of the window."""

    def __init__(self, actions: Actions, window: QWidget) -> None:
        super().__init__(window)
        self.setObjectName("sheet")
        self.setAccessibleName("Keyboard shortcuts")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._window = window
        self._actions = actions
        self._sheet = QWidget()
        self._grid = QGridLayout(self._sheet)
        self._grid.setContentsMargins(24, 16, 24, 16)
        self._grid.setHorizontalSpacing(16)
        self._area = make_scroll_area(self._sheet)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        make_column(self._area, into=self)
        self.hide()

    def shortcut_rows(self) -> tuple[tuple[str, str], ...]:
        """Return (keys, title) of every action with a shortcut."""
        native = QKeySequence.SequenceFormat.NativeText
        return tuple(
            (self._actions[name].shortcut().toString(native), self._actions[name].text())
            for name in self._actions
            if not self._actions[name].shortcut().isEmpty()
        )

    def open(self) -> None:
        self.hide()  # rows added to a visible sheet are not measured
        available = self._window.size() - QSize(2 * _AROUND, 2 * _AROUND)
        rows, columns = self.shortcut_rows(), ceil(len(self.shortcut_rows()) / _ROWS)
        while self._fill_grid(rows, columns).width() > available.width() and columns > 1:
            columns -= 1
        size = self._sheet.sizeHint()
        if size.height() > available.height():  # leave room for the scroll bar
            size.setWidth(size.width() + self._area.verticalScrollBar().sizeHint().width())
        self.resize(size.grownBy(self.contentsMargins()).boundedTo(available))
        self.move(self._window.rect().center() - self.rect().center())
        self.show()
        self.raise_()
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _fill_grid(self, rows: tuple[tuple[str, str], ...], columns: int) -> QSize:
        """Lay the rows out in this many columns; return the size needed."""
        clear_layout(self._grid)
        title = PlainLabel("Keyboard shortcuts", self._sheet, role="title")
        self._grid.addWidget(title, 0, 0, 1, 2 * columns)
        row_count = ceil(len(rows) / columns)
        self._grid.setVerticalSpacing(8 if row_count <= _ROWS else 2)
        for index, (keys, text) in enumerate(rows):
            column_index, row = divmod(index, row_count)
            key_label = PlainLabel(keys, self._sheet, role="heading")
            self._grid.addWidget(key_label, row + 1, 2 * column_index)
            title_label = PlainLabel(text.removesuffix("…"), self._sheet)
            self._grid.addWidget(title_label, row + 1, 2 * column_index + 1)
        self._grid.activate()
        return self._sheet.sizeHint()

    def event(self, event: QEvent) -> bool:
        """Keep keys from reaching the window while the sheet is open."""
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
