"""Every action once, as data: text, shortcut, icon, what it does and when it may be done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QIcon, QKeySequence

from dgn_engine.protocol.commands import Command
from dgn_engine.protocol.run_state import RunState


class FileQuestions(Protocol):
    """The questions for a file that an action may ask."""

    def open_checkpoint(self) -> None: ...
    def compare_run(self) -> None: ...
    def save_weights(self) -> None: ...


class Shell(Protocol):
    """What an action may ask of the window."""

    @property
    def run_state(self) -> RunState: ...
    @property
    def theme_choice(self) -> str: ...
    @property
    def files(self) -> FileQuestions: ...
    def send(self, command: Command) -> None: ...
    def panel_is_open(self, panel: str) -> bool: ...
    def toggle_panel(self, panel: str) -> None: ...
    def reset_layout(self) -> None: ...
    def choose_theme(self, name: str) -> None: ...
    def finish_epoch(self) -> None: ...
    def start_engine(self) -> None: ...
    def new_run(self) -> None: ...
    def save_configuration(self) -> None: ...
    def export_front(self) -> None: ...
    def export_all(self) -> None: ...
    def open_palette(self) -> None: ...
    def about_front(self) -> None: ...
    def show_shortcuts(self) -> None: ...
    def show_notices(self) -> None: ...
    def close(self) -> object: ...


def _always(shell: Shell) -> bool:
    return True


@dataclass(frozen=True)
class ActionSpec:
    """One action. The first shortcut is the one that is shown."""

    id: str
    text: str
    menu: str  # the menu it stands in, 'Run'
    do: Callable[[Shell], object]
    shortcuts: tuple[str, ...] = ()
    icon: str = ""
    tip: str = ""
    enabled: Callable[[Shell], bool] = _always
    checked: Callable[[Shell], bool] | None = None  # None: not checkable
    why_not: Callable[[Shell], str] | None = None  # why it cannot be done now; '' where it can
    text_now: Callable[[Shell], str] | None = None
    icon_now: Callable[[Shell], str] | None = None
    section: int = 0  # a separator stands between sections of a menu
    submenu: str = ""


class Actions(QObject):
    """The registry: QActions by id. An action shows the engine's state, not the last click."""

    changed = Signal()  # an action was added

    def __init__(self, shell: Shell, icon: Callable[[str], QIcon], parent: QObject) -> None:
        super().__init__(parent)
        self._shell = shell
        self._icon = icon
        self._specs: dict[str, ActionSpec] = {}
        self._actions: dict[str, QAction] = {}

    def __getitem__(self, name: str) -> QAction:
        """The QAction with this id; raises `KeyError` where there is none."""
        return self._actions[name]

    def __contains__(self, name: object) -> bool:
        return name in self._actions

    def __iter__(self) -> Iterator[str]:
        return iter(self._actions)

    @property
    def specs(self) -> tuple[ActionSpec, ...]:
        """All declarations, in the order in which they were added."""
        return tuple(self._specs.values())

    def add(self, specs: tuple[ActionSpec, ...]) -> None:
        """Make QActions of declarations; an id that exists already is left as it is."""
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
            self._dress(spec, action)
        if fresh:
            self.changed.emit()

    def refresh(self) -> None:
        """Show the state as it is now; called after every event and after every click."""
        for spec in self._specs.values():
            action = self._actions[spec.id]
            action.setEnabled(spec.enabled(self._shell))
            if spec.why_not is not None:
                action.setToolTip(spec.why_not(self._shell) or _tip(spec))
            if spec.checked is not None:
                action.setChecked(spec.checked(self._shell))
            if spec.text_now is not None:
                text = spec.text_now(self._shell)
                if text != action.text():
                    self._dress(spec, action)
                    action.setText(text)

    def redress(self) -> None:
        """Fetch the icons again (the theme changed)."""
        for spec in self._specs.values():
            self._dress(spec, self._actions[spec.id])

    def _dress(self, spec: ActionSpec, action: QAction) -> None:
        name = spec.icon_now(self._shell) if spec.icon_now else spec.icon
        if name:
            action.setIcon(self._icon(name))

    def _perform(self, spec: ActionSpec) -> None:
        spec.do(self._shell)
        self.refresh()


def _tip(spec: ActionSpec) -> str:
    text = spec.tip or spec.text.removesuffix("…")
    if not spec.shortcuts:
        return text
    keys = QKeySequence(spec.shortcuts[0]).toString(QKeySequence.SequenceFormat.NativeText)
    return f"{text} ({keys})"
