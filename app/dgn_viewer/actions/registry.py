"""The registry of actions: each one as a declaration and as the QAction that reflects its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QIcon, QKeySequence

from dgn_engine.protocol.run_state import RunState
from dgn_viewer.actions.action_rows import ActionRow, Family, Menu, walk_menus
from dgn_viewer.actions.shortcut_keys import ShortcutKeys
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.style.stylesheet import plain_tip


class Actions(QObject):
    """QActions by id. They reflect the engine's state, not the last click."""

    changed = Signal()  # an action was added

    def __init__(
        self, run_state: Callable[[], RunState], icon: Callable[[str], QIcon], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._run_state = run_state
        self._icon = icon
        self._rows: dict[str, ActionRow] = {}
        self._actions: dict[str, QAction] = {}
        self.menus: tuple[Menu, ...] = ()
        self.keys = ShortcutKeys(self)

    def __getitem__(self, name: str) -> QAction:
        return self._actions[name]

    def __contains__(self, name: object) -> bool:
        return name in self._actions

    def __iter__(self) -> Iterator[str]:
        return iter(self._actions)

    @property
    def rows(self) -> tuple[ActionRow, ...]:
        return tuple(self._rows.values())

    def rows_matching(self, pattern: str) -> tuple[ActionRow, ...]:
        """Return the rows whose id matches a pattern such as 'regime.*'."""
        return tuple(row for row in self.rows if fnmatchcase(row.id, pattern))

    def add_menus(self, *menus: Menu) -> None:
        self.menus = (*self.menus, *menus)
        entries = (entry for _, entry in walk_menus(menus))
        self.register_rows(tuple(entry for entry in entries if isinstance(entry, ActionRow)))

    def menu_title(self, name: str) -> str:
        """Return the title of the innermost menu that contains an action.

        Raises:
            KeyError: No menu contains it.
        """
        for title, entry in walk_menus(self.menus):
            pattern = entry.pattern if isinstance(entry, Family) else entry.id
            if fnmatchcase(name, pattern):
                return title
        raise KeyError(name)

    def register_rows(self, rows: tuple[ActionRow, ...]) -> None:
        """Create QActions for rows; rows with a known id are skipped."""
        new_rows = [row for row in rows if row.id not in self._rows]
        for row in new_rows:
            action = QAction(row.title, self)
            action.setObjectName(row.id)
            action.setCheckable(row.checked is not None)
            action.setStatusTip("")
            action.triggered.connect(lambda _=False, row=row: self._run_callback(row))
            self._rows[row.id] = row
            self._actions[row.id] = action
            self.keys.add_action(row, action)
            self._set_icon(row, action)
        if new_rows:
            self.changed.emit()

    def refresh(self) -> None:
        """Update every action; called after each event and each click."""
        now = self._run_state()
        for row in self._rows.values():
            action = self._actions[row.id]
            action.setEnabled(row.enabled(now))
            action.setVisible(row.visible(now))
            if row.why_not is not None:
                action.setToolTip(plain_tip(row.why_not(now) or self.keys.tip_with_keys(row)))
            if row.checked is not None:
                action.setChecked(row.checked(now))
            if row.text_now is not None:
                text = with_chosen_numbers(row.text_now(now))
                if text != action.text():
                    self._set_icon(row, action)
                    action.setText(text)

    def reason_disabled(self, keys: QKeySequence) -> str:
        """Return why the action with these keys is disabled, or '' if there is nothing to say.

        Qt silently ignores the shortcut of a disabled action.
        """
        now = self._run_state()
        for row in self._rows.values():
            action = self._actions[row.id]
            if action.isEnabled() or not action.isVisible() or keys not in action.shortcuts():
                continue
            name, why = row.title.removesuffix("…"), row.why_not(now) if row.why_not else ""
            if now.phase == "starting":
                return f"'{name}' is not available until the engine has started."
            return why or f"'{name}' is not available now."
        return ""

    def set_icons(self) -> None:
        """Reload all icons after a theme change."""
        for row in self._rows.values():
            self._set_icon(row, self._actions[row.id])

    def _set_icon(self, row: ActionRow, action: QAction) -> None:
        name = row.icon_now(self._run_state()) if row.icon_now else row.icon
        if name:
            action.setIcon(self._icon(name))

    def _run_callback(self, row: ActionRow) -> None:
        row.callback()
        self.refresh()
