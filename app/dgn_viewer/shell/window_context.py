"""What the parts of the window share: whom they ask, tell and draw upon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtWidgets import QWidget

from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.run_state import RunState
from dgn_engine.scene.panel_spec import View
from dgn_engine.views.event_notices import Notice
from dgn_viewer.settings import Settings
from dgn_viewer.shell.window_theme import WindowTheme


@dataclass(frozen=True)
class WindowContext:
    """The same for every part of one window.

    Attributes:
        window: The parent of dialogs.
        send: Sends a command to the engine, unless it would change a run that is not seen.
        notify: Shows a notice, and keeps it among the last ones.
        run_state: The state of the run now.
        shown_state: The same with what was in force at the step that is looked back at.
        view: What is seen now, without the choices of a panel.
    """

    window: QWidget
    send: Callable[[Command], None]
    settings: Settings
    notify: Callable[[Notice], object]
    run_state: Callable[[], RunState]
    shown_state: Callable[[], RunState]
    view: Callable[[], View]
    theme: WindowTheme

    def refuse(self, why: str, kind: str = "") -> None:
        """Say, in a sentence, why something was not done; `kind`: as a `UserError` has one."""
        self.notify(Notice("refused", why, about=kind))
