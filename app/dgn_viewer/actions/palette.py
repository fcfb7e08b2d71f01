"""The command palette: all actions in one searchable list."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHeaderView, QLineEdit, QTreeWidget, QTreeWidgetItem, QWidget

from dgn_viewer.actions.action_rows import ActionRow
from dgn_viewer.actions.registry import Actions
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.style.stylesheet import plain_tip
from dgn_viewer.widgets.layouts import make_column

_WIDTH = 480
_ROWS = 12
_ID = Qt.ItemDataRole.UserRole


def matches_query(query: str, text: str) -> bool:
    """Return whether every word of the query occurs in the text, in any order and case."""
    return all(word in text.casefold() for word in query.casefold().split())


class Palette(QFrame):
    """Frame over the window: type to search, arrow keys select, Enter runs, Escape closes."""

    def __init__(self, actions: Actions, window: QWidget) -> None:
        super().__init__(window)
        self.setObjectName("palette")
        self._window = window
        self._actions = actions
        self.query = QLineEdit(self)
        self.query.setPlaceholderText("Find an action")
        self.query.setAccessibleName("Find an action")
        self.query.textChanged.connect(self._fill_list)
        on_event = {
            QEvent.Type.FocusOut: lambda _event: self.hide(),
            QEvent.Type.KeyPress: self._on_key,
        }
        EventFilter(self, on_event, self.query)
        self.list = self._make_list()
        make_column(self.query, self.list, into=self, margins=(8, 8, 8, 8), spacing=8)
        self.hide()

    def open(self) -> None:
        window = self._window
        self.setFixedWidth(min(_WIDTH, window.width() - 32))
        self.move((window.width() - self.width()) // 2, 72)
        self.query.clear()
        self._fill_list("")
        self.show()
        self.raise_()
        self.query.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def shown_action_ids(self) -> tuple[str, ...]:
        """Return the ids of the listed actions."""
        return tuple(str(item.data(0, _ID)) for item in self._list_items())

    def _make_list(self) -> QTreeWidget:
        result = QTreeWidget(self)
        result.setAccessibleName("Matching actions")
        result.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        result.setColumnCount(2)
        result.setHeaderHidden(True)
        result.setRootIsDecorated(False)
        result.setUniformRowHeights(True)
        result.header().setStretchLastSection(False)
        result.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        result.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        result.itemClicked.connect(lambda item: self._trigger_item(item))
        return result

    def _fill_list(self, query: str) -> None:
        """List matching actions; matches in the title come before matches in the tooltip."""
        self.list.clear()
        ranked: list[tuple[int, ActionRow]] = []
        for row in self._actions.rows:
            if row.id == "view.palette" or not self._actions[row.id].isVisible():
                continue
            text = self._action_text(row)
            if matches_query(query, text):
                ranked.append((0, row))
            elif matches_query(query, f"{text} {row.tip}"):
                ranked.append((1, row))
        for _, row in sorted(ranked, key=lambda pair: pair[0]):
            self.list.addTopLevelItem(self._make_item(row))
        self._select_from(0, 1)
        height = max(24, self.list.sizeHintForRow(0))
        count = max(1, min(_ROWS, len(ranked)))
        self.list.setFixedHeight(min(count * height + 4, self._window.height() - 160))
        self.adjustSize()

    def _action_text(self, row: ActionRow) -> str:
        menu, title = self._actions.menu_title(row.id), self._actions[row.id].text()
        is_named = title.startswith((f"{menu}:", f"{menu} "))
        return title if is_named else f"{menu}: {title}"

    def _make_item(self, row: ActionRow) -> QTreeWidgetItem:
        action = self._actions[row.id]
        keys = action.shortcut().toString(action.shortcut().SequenceFormat.NativeText)
        item = QTreeWidgetItem([self._action_text(row), keys])
        item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        item.setData(0, _ID, row.id)
        item.setToolTip(0, plain_tip(action.toolTip()))
        item.setDisabled(not action.isEnabled())
        return item

    def _list_items(self) -> list[QTreeWidgetItem]:
        items = (self.list.topLevelItem(row) for row in range(self.list.topLevelItemCount()))
        return [item for item in items if item is not None]

    def _select_from(self, row: int, direction: int) -> None:
        """Select the first enabled row, starting at `row`, in this direction."""
        items = self._list_items()
        while 0 <= row < len(items):
            if not items[row].isDisabled():
                self.list.setCurrentItem(items[row])
                return
            row += direction

    def hide_and_refocus(self) -> None:
        """Hide the palette and return the focus to the window."""
        if self.isVisible():
            self.hide()
            self._window.setFocus(Qt.FocusReason.OtherFocusReason)

    def _trigger_item(self, item: QTreeWidgetItem | None) -> None:
        self.hide_and_refocus()
        if item is not None:
            action = self._actions[str(item.data(0, _ID))]
            if action.isEnabled():
                action.trigger()

    def _on_key(self, event: QKeyEvent) -> bool:
        current = self.list.currentItem()
        row = self.list.indexOfTopLevelItem(current) if current is not None else -1
        match event.key():
            case Qt.Key.Key_Down:
                self._select_from(row + 1, 1)
            case Qt.Key.Key_Up:
                self._select_from(row - 1, -1)
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self._trigger_item(current)
            case Qt.Key.Key_Escape:
                self.hide_and_refocus()
            case _:
                return False
        return True
