"""The registry: every action once, as a row of data and as the QAction that shows the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QIcon, QKeySequence

from dgn_engine.protocol.run_state import RunState


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
    checked: Callable[[RunState], bool] | None = None  # None: not checkable
    why_not: Callable[[RunState], str] | None = None  # why it cannot be done now; '' where it can
    text_now: Callable[[RunState], str] | None = None
    icon_now: Callable[[RunState], str] | None = None
    group: str = ""  # within a family ('regime.*'), a separator lies between groups


class Actions(QObject):
    """QActions by id. An action shows the engine's state, not the last click."""

    changed = Signal()  # an action was added

    def __init__(
        self, run_state: Callable[[], RunState], icon: Callable[[str], QIcon], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._run_state = run_state
        self._icon = icon
        self._specs: dict[str, ActionSpec] = {}
        self._actions: dict[str, QAction] = {}

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
            action.setShortcuts([QKeySequence(keys) for keys in spec.shortcuts])
            action.setToolTip(_tip(spec))
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
            if spec.why_not is not None:
                action.setToolTip(spec.why_not(now) or _tip(spec))
            if spec.checked is not None:
                action.setChecked(spec.checked(now))
            if spec.text_now is not None and (text := spec.text_now(now)) != action.text():
                self._set_icon(spec, action)
                action.setText(text)

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


def _tip(spec: ActionSpec) -> str:
    text = spec.tip or spec.text.removesuffix("…")
    if not spec.shortcuts:
        return text
    keys = QKeySequence(spec.shortcuts[0]).toString(QKeySequence.SequenceFormat.NativeText)
    return f"{text} ({keys})"
