"""The registry: every action once, as a row of data and as the QAction that shows the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QIcon, QKeySequence

from dgn_engine.protocol.run_state import RunState
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.style.stylesheet import plain_tip

RESERVED = frozenset(
    ("Esc", "Tab", "Shift+Tab", "Return", "Enter", "Left", "Right", "Up", "Down", "Backspace")
)


@dataclass(frozen=True)
class ActionSpec:
    """One action; the first shortcut is the one that is shown."""

    id: str
    text: str
    do: Callable[[], object]
    shortcuts: tuple[str, ...] = ()
    icon: str = ""
    tip: str = ""
    enabled: Callable[[RunState], bool] = lambda _: True
    visible: Callable[[RunState], bool] = lambda _: True
    checked: Callable[[RunState], bool] | None = None  # None: not checkable
    why_not: Callable[[RunState], str] | None = None  # why it cannot be done now; '' where it can
    text_now: Callable[[RunState], str] | None = None
    icon_now: Callable[[RunState], str] | None = None
    fixed: bool = True  # False: its text comes and goes, as that of a recent file
    group: str = ""  # within a family ('regime.*'), a separator lies between groups


class Actions(QObject):
    """QActions by id. An action shows the engine's state, not the last click."""

    changed = Signal()  # an action was added
    keys_changed = Signal()  # the user gave an action other keys

    def __init__(
        self, run_state: Callable[[], RunState], icon: Callable[[str], QIcon], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._run_state = run_state
        self._icon = icon
        self._specs: dict[str, ActionSpec] = {}
        self._actions: dict[str, QAction] = {}
        self._own_keys: dict[str, str] = {}

    def __getitem__(self, name: str) -> QAction:
        return self._actions[name]

    def __contains__(self, name: object) -> bool:
        return name in self._actions

    def __iter__(self) -> Iterator[str]:
        return iter(self._actions)

    @property
    def specs(self) -> tuple[ActionSpec, ...]:
        return tuple(self._specs.values())

    def family(self, entry: str) -> tuple[ActionSpec, ...]:
        """The rows that an entry of a menu stands for: one, or all of 'regime.*'."""
        return tuple(spec for spec in self.specs if fnmatchcase(spec.id, entry))

    def add(self, specs: tuple[ActionSpec, ...]) -> None:
        """Make QActions of rows; an id that exists already is left as it is."""
        fresh = [spec for spec in specs if spec.id not in self._specs]
        for spec in fresh:
            action = QAction(spec.text, self)
            action.setObjectName(spec.id)
            action.setCheckable(spec.checked is not None)
            action.setShortcuts(self._sequences(spec))
            action.setToolTip(plain_tip(self._tip(spec)))
            action.setStatusTip("")
            action.triggered.connect(lambda _=False, spec=spec: self._perform(spec))
            self._specs[spec.id] = spec
            self._actions[spec.id] = action
            self._set_icon(spec, action)
        if fresh:
            self.changed.emit()

    def refresh(self) -> None:
        """Show the state as it is now; called after every event and after every click."""
        now = self._run_state()
        for spec in self._specs.values():
            action = self._actions[spec.id]
            action.setEnabled(spec.enabled(now))
            action.setVisible(spec.visible(now))
            if spec.why_not is not None:
                action.setToolTip(plain_tip(spec.why_not(now) or self._tip(spec)))
            if spec.checked is not None:
                action.setChecked(spec.checked(now))
            if spec.text_now is not None:
                text = with_chosen_numbers(spec.text_now(now))
                if text != action.text():
                    self._set_icon(spec, action)
                    action.setText(text)

    def refusal(self, keys: QKeySequence) -> str:
        """Why the action of these keys cannot be done now, in a sentence; '' where it can, or no
        action has them: Qt lets the keys of a disabled action pass without a word."""
        now = self._run_state()
        for spec in self._specs.values():
            action = self._actions[spec.id]
            if action.isEnabled() or not action.isVisible() or keys not in action.shortcuts():
                continue
            name, why = spec.text.removesuffix("…"), spec.why_not(now) if spec.why_not else ""
            if now.phase == "starting":
                return f"'{name}' has to wait until the program has started."
            return why or f"'{name}' is not possible now."
        return ""

    # Shortcuts that the user chooses

    @property
    def own_keys(self) -> dict[str, str]:
        """Keys by id of the actions that the user has changed; '' for none."""
        return dict(self._own_keys)

    def take_keys(self, keys: Mapping[str, str]) -> None:
        """The user's keys, as they were kept; also of actions that are added later."""
        self._own_keys = dict(keys)
        for spec in self._specs.values():
            self._put_keys(spec)

    def key_rows(self) -> tuple[tuple[str, str, str], ...]:
        """(id, text, keys) of every action that is always there; keys as the platform has them."""
        native = QKeySequence.SequenceFormat.NativeText
        return tuple(
            (spec.id, spec.text.removesuffix("…"), self[spec.id].shortcut().toString(native))
            for spec in self.specs
            if spec.fixed
        )

    def assign(self, name: str, keys: str) -> str:
        """Give an action these keys ('' for none); why not, in one sentence, or ''."""
        if name not in self._specs:
            return ""
        sequence = QKeySequence(keys)
        if keys and (sequence.isEmpty() or sequence.toString() in RESERVED):
            return f"{keys} moves within the window and cannot be given to an action."
        taken = self._taken(name, sequence) if keys else None
        if taken is not None:
            native = sequence.toString(QKeySequence.SequenceFormat.NativeText)
            return f"{native} belongs to '{taken.text.removesuffix('…')}'; nothing was changed."
        self._own_keys[name] = sequence.toString() if keys else ""
        self._keep_keys(self._specs[name])
        return ""

    def reset(self, name: str) -> str:
        """Give an action its own keys again, '*' all of them; why not, in one sentence, or ''."""
        if name == "*":
            self.take_keys({})
            self.keys_changed.emit()
            return ""
        spec = self._specs.get(name)
        if spec is None or name not in self._own_keys:
            return ""
        for keys in spec.shortcuts:
            taken = self._taken(name, QKeySequence(keys))
            if taken is not None:
                return f"{keys} belongs to '{taken.text.removesuffix('…')}' now: change that first."
        del self._own_keys[name]
        self._keep_keys(spec)
        return ""

    def _taken(self, name: str, sequence: QKeySequence) -> ActionSpec | None:
        return next(
            (
                spec
                for spec in self._specs.values()
                if spec.id != name and sequence in self._actions[spec.id].shortcuts()
            ),
            None,
        )

    def _keep_keys(self, spec: ActionSpec) -> None:
        self._put_keys(spec)
        self.keys_changed.emit()

    def _put_keys(self, spec: ActionSpec) -> None:
        action = self._actions[spec.id]
        action.setShortcuts(self._sequences(spec))
        action.setToolTip(plain_tip(self._tip(spec)))

    def _sequences(self, spec: ActionSpec) -> list[QKeySequence]:
        own = self._own_keys.get(spec.id)
        keys = spec.shortcuts if own is None else (own,) if own else ()
        return [QKeySequence(one) for one in keys]

    def set_icons(self) -> None:
        """Fetch the icons again (the theme changed)."""
        for spec in self._specs.values():
            self._set_icon(spec, self._actions[spec.id])

    def _set_icon(self, spec: ActionSpec, action: QAction) -> None:
        name = spec.icon_now(self._run_state()) if spec.icon_now else spec.icon
        if name:
            action.setIcon(self._icon(name))

    def _perform(self, spec: ActionSpec) -> None:
        spec.do()
        self.refresh()

    def _tip(self, spec: ActionSpec) -> str:
        text, keys = spec.tip or spec.text.removesuffix("…"), self._sequences(spec)
        if not keys:
            return text
        return f"{text} ({keys[0].toString(QKeySequence.SequenceFormat.NativeText)})"
