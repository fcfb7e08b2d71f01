"""What the window has for recorded runs and sessions, put in its place and connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import SignalInstance
from PySide6.QtWidgets import QMainWindow

from dgn_engine.protocol.commands import Command
from dgn_viewer.actions.registry import Actions
from dgn_viewer.actions.session_actions import session_actions
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.notices import Notices
from dgn_viewer.settings import Settings
from dgn_viewer.shell.recorded_banner import RecordedBanner
from dgn_viewer.shell.recorded_runs import RecordedRuns
from dgn_viewer.shell.session_layout import look_of, put_on
from dgn_viewer.style.theme import Theme


class Home(Protocol):
    """What is needed of the window."""

    send: Callable[[Command], None]
    settings: Settings
    registry: Actions
    docks: PanelDocks
    inspector: Inspector
    notices: Notices
    theme: Theme
    event_taken: SignalInstance

    def choose_theme(self, name: str, keep: bool = True) -> None: ...


class RecordedParts:
    """`borrowed`: the window looks as in the session that was opened last."""

    def __init__(self, window: QMainWindow, home: Home) -> None:
        self._window = window
        self._home = home
        self.borrowed = False
        self.asked = RecordedRuns(
            window,
            home.send,
            home.settings,
            home.notices.tell,
            lambda: look_of(window, home.theme.name, home.docks),
            lambda: home.registry["file.save_weights"].trigger(),
        )
        home.registry.add(session_actions(self.asked))
        self.bar = RecordedBanner(home.registry, window)
        window.addToolBarBreak()
        window.addToolBar(self.bar)
        self.asked.look_wanted.connect(self._put_on)
        self.asked.list_wanted.connect(home.inspector.show_runs)
        home.event_taken.connect(self.asked.on_event)
        home.event_taken.connect(lambda _event, state: self.bar.show_state(state))

    def set_theme(self, theme: Theme) -> None:
        """Of the bar."""
        self.bar.set_theme(theme)

    def _put_on(self, look: str) -> None:
        self.borrowed = True
        theme = put_on(self._window, self._home.docks, look)
        if theme:
            self._home.choose_theme(theme, keep=False)
