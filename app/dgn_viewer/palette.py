"""The command palette: every action in one list that is filtered while one types."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from dgn_viewer.actions import Actions

_WIDTH = 480
_ROWS = 12
_ID = Qt.ItemDataRole.UserRole


def matches(query: str, text: str) -> bool:
    """Every word of the query occurs in the text, in any order and case."""
    return all(word in text.casefold() for word in query.casefold().split())


class Palette(QFrame):
    """A frame over the window: type, choose with the arrows, Enter does it, Escape leaves."""

    def __init__(self, actions: Actions, window: QWidget) -> None:
        super().__init__(window)
        self.setObjectName("palette")
        self._window = window
        self._actions = actions
        self.query = QLineEdit(self)
        self.query.setPlaceholderText("Find an action")
        self.query.setAccessibleName("Find an action")
        self.query.textChanged.connect(self._fill)
        self.query.installEventFilter(self)
        self.list = QListWidget(self)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setUniformItemSizes(True)
        self.list.itemClicked.connect(self._perform)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 8, 8, 8)
        column.setSpacing(8)
        column.addWidget(self.query)
        column.addWidget(self.list)
        self.hide()

    def open(self) -> None:
        """Show all actions and take the keyboard."""
        window = self._window
        self.query.clear()
        self._fill("")
        self.setFixedWidth(min(_WIDTH, window.width() - 32))
        row = max(24, self.list.sizeHintForRow(0))
        self.list.setFixedHeight(min(_ROWS * row + 12, window.height() - 160))
        self.adjustSize()
        self.move((window.width() - self.width()) // 2, 72)
        self.show()
        self.raise_()
        self.query.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def shown(self) -> tuple[str, ...]:
        """Ids of the actions in the list."""
        return tuple(str(self.list.item(row).data(_ID)) for row in range(self.list.count()))

    def _fill(self, query: str) -> None:
        self.list.clear()
        for spec in self._actions.specs:
            action = self._actions[spec.id]
            place = spec.submenu or spec.menu
            text = f"{place}: {action.text()}"
            if spec.id == "view.palette" or not matches(query, f"{text} {spec.tip}"):
                continue
            keys = action.shortcut().toString(action.shortcut().SequenceFormat.NativeText)
            item = QListWidgetItem(f"{text}    {keys}" if keys else text)
            item.setData(_ID, spec.id)
            item.setToolTip(action.toolTip())
            if not action.isEnabled():
                item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsEnabled)
            self.list.addItem(item)
        self._select(0, 1)

    def _select(self, row: int, direction: int) -> None:
        """Select the first enabled row from `row` on in this direction."""
        while 0 <= row < self.list.count():
            if self.list.item(row).flags() & Qt.ItemFlag.ItemIsEnabled:
                self.list.setCurrentRow(row)
                return
            row += direction

    def _perform(self, item: QListWidgetItem | None) -> None:
        self.hide()
        if item is not None:
            action = self._actions[str(item.data(_ID))]
            if action.isEnabled():
                action.trigger()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Arrows move in the list, Enter does, Escape and a lost focus close."""
        if event.type() == QEvent.Type.FocusOut:
            self.hide()
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.KeyPress:
            return False
        row = self.list.currentRow()
        match event.key():
            case Qt.Key.Key_Down:
                self._select(row + 1, 1)
            case Qt.Key.Key_Up:
                self._select(row - 1, -1)
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self._perform(self.list.currentItem())
            case Qt.Key.Key_Escape:
                self.hide()
            case _:
                return False
        return True
