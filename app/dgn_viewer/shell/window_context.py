"""Services shared by all parts of the window: settings, state, notices, theme and the engine."""

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
    """Services shared by all parts of one window.

    Attributes:
        window: Parent for dialogs.
        send: Sends a command to the engine, unless it would change a run while a past step is
        shown.
        notify: Shows a notice and adds it to the list.
        run_state: Returns the current state of the run.
        shown_state: Returns the state at the past step that is shown, if any.
        view: Returns the current view, without the options of a panel.
    """

    window: QWidget
    send: Callable[[Command], None]
    settings: Settings
    notify: Callable[[Notice], object]
    run_state: Callable[[], RunState]
    shown_state: Callable[[], RunState]
    view: Callable[[], View]
    theme: WindowTheme

    def notify_refusal(self, why: str, kind: str = "") -> None:
        """Show why something was refused; `kind`: as in `UserError`."""
        self.notify(Notice("refused", why, about=kind))
