"""Keyboard shortcuts of all actions: the defaults, or the keys that the user has assigned."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QKeySequence

from dgn_viewer.actions.action_rows import ActionRow
from dgn_viewer.settings import Settings
from dgn_viewer.style.stylesheet import plain_tip

RESERVED = frozenset(
    ("Esc", "Tab", "Shift+Tab", "Return", "Enter", "Left", "Right", "Up", "Down", "Backspace")
)


class ShortcutKeys(QObject):
    """Shortcuts, unique across actions. `changed`: the user has reassigned some."""

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._actions: dict[str, tuple[ActionRow, QAction]] = {}
        self._own: dict[str, str] = {}

    @property
    def user_keys(self) -> dict[str, str]:
        """Keys of the actions that the user has reassigned, by id; '' for none."""
        return dict(self._own)

    def add_action(self, row: ActionRow, action: QAction) -> None:
        self._actions[row.id] = row, action
        self._apply_keys(row.id)

    def set_user_keys(self, keys: Mapping[str, str]) -> None:
        """Restore saved user keys, including those of actions that are added later."""
        self._own = dict(keys)
        for name in self._actions:
            self._apply_keys(name)

    def sync_with_settings(self, settings: Settings) -> None:
        """Load the user's keys from the settings, and save changes there."""

        def store_user_keys() -> None:
            settings.shortcuts = self.user_keys

        self.set_user_keys(settings.shortcuts)
        self.changed.connect(store_user_keys)

    def key_rows(self) -> tuple[tuple[str, str, str], ...]:
        """Return (id, title, keys) of each permanent action, keys as the platform writes them."""
        native = QKeySequence.SequenceFormat.NativeText
        return tuple(
            (row.id, row.title.removesuffix("…"), action.shortcut().toString(native))
            for row, action in self._actions.values()
            if row.fixed
        )

    def assign_keys(self, name: str, keys: str) -> str:
        """Assign keys to an action ('' for none); return why that is not possible, or ''."""
        if name not in self._actions:
            return ""
        sequence = QKeySequence(keys)
        if keys and (sequence.isEmpty() or sequence.toString() in RESERVED):
            return f"{keys} is reserved for navigation; choose other keys."
        owner = self._action_using(name, sequence) if keys else None
        if owner is not None:
            native = sequence.toString(QKeySequence.SequenceFormat.NativeText)
            return (
                f"{native} is already used by '{owner.title.removesuffix('…')}'; choose other keys."
            )
        self._own[name] = sequence.toString() if keys else ""
        self._apply_and_emit(name)
        return ""

    def reset_keys(self, name: str) -> str:
        """Restore an action's default keys, or all ('*'); return why that is not possible, or
        ''."""
        if name == "*":
            self.set_user_keys({})
            self.changed.emit()
            return ""
        if name not in self._actions or name not in self._own:
            return ""
        for keys in self._actions[name][0].keys:
            owner = self._action_using(name, QKeySequence(keys))
            if owner is not None:
                title = owner.title.removesuffix("…")
                return f"{keys} is now used by '{title}'; change that shortcut first."
        del self._own[name]
        self._apply_and_emit(name)
        return ""

    def tip_with_keys(self, row: ActionRow) -> str:
        text, keys = row.tip or row.title.removesuffix("…"), self._key_sequences(row)
        if not keys:
            return text
        return f"{text} ({keys[0].toString(QKeySequence.SequenceFormat.NativeText)})"

    def _action_using(self, name: str, sequence: QKeySequence) -> ActionRow | None:
        others = (pair for pair in self._actions.values() if pair[0].id != name)
        return next((row for row, action in others if sequence in action.shortcuts()), None)

    def _apply_and_emit(self, name: str) -> None:
        self._apply_keys(name)
        self.changed.emit()

    def _apply_keys(self, name: str) -> None:
        row, action = self._actions[name]
        action.setShortcuts(self._key_sequences(row))
        action.setToolTip(plain_tip(self.tip_with_keys(row)))

    def _key_sequences(self, row: ActionRow) -> list[QKeySequence]:
        own = self._own.get(row.id)
        keys = row.keys if own is None else (own,) if own else ()
        return [QKeySequence(sequence) for sequence in keys]
