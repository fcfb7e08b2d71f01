"""What a part of the window gets from it, without the window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QWidget

from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.run_state import RunState
from dgn_engine.scene.panel_spec import View
from dgn_engine.views.event_notices import Notice
from dgn_viewer.settings import Settings
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.shell.window_theme import WindowTheme


def make_context(
    window: QWidget,
    send: Callable[[Command], None] = lambda _: None,
    notify: Callable[[Notice], None] = lambda _: None,
    settings: Settings | None = None,
    run_state: Callable[[], RunState] = RunState,
    view: Callable[[], View] = View,
) -> WindowContext:
    """`settings`: where none are given, those of a file that is not there."""
    settings = settings or Settings(Path("no such folder") / "settings.ini")
    theme = WindowTheme(settings, "light", window)
    return WindowContext(window, send, settings, notify, run_state, run_state, view, theme)
