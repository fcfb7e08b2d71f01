"""What the window has for experiments, put in its place and connected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from PySide6.QtCore import Qt, SignalInstance
from PySide6.QtWidgets import QDockWidget, QMainWindow

from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry
from dgn_engine.protocol.commands import Command
from dgn_engine.protocol.events import EngineReady, Event
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.actions.experiment_actions import experiment_actions, result_actions
from dgn_viewer.actions.registry import Actions
from dgn_viewer.docks.dock_title import DockTitle
from dgn_viewer.experiments.reproduce_request import ReproduceRequest
from dgn_viewer.experiments.results_panel import ResultsPanel
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.experiment_page import ExperimentPage
from dgn_viewer.notices import Notices
from dgn_viewer.settings import Settings
from dgn_viewer.shell.experiment_runner import BUSY, ExperimentRunner
from dgn_viewer.style.theme import Theme

_WIDTH = 560  # pixels, of the panel when it is opened


class Home(Protocol):
    """What is needed of the window."""

    send: Callable[[Command], None]
    settings: Settings
    registry: Actions
    inspector: Inspector
    notices: Notices
    theme: Theme
    event_taken: SignalInstance
    closed: SignalInstance

    @property
    def run_state(self) -> RunState: ...


class ExperimentParts:
    """The dock of the Results panel, the menu, and the pages of the inspector."""

    def __init__(self, window: QMainWindow, home: Home, column: QDockWidget) -> None:
        self._window = window
        self._home = home
        self._catalogue = Catalogue((), (), (), (), ())
        self.data_root = ""  # where data sets lie; empty: in the places of their own
        self.panel = ResultsPanel(home.theme)
        self.dock = QDockWidget("Results", window)
        self.dock.setObjectName("dock.results")
        self.dock.setAllowedAreas(
            Qt.DockWidgetArea.LeftDockWidgetArea | Qt.DockWidgetArea.RightDockWidgetArea
        )
        self.dock.setWidget(self.panel)
        self._title = DockTitle(self.dock)
        self.dock.setTitleBarWidget(self._title)
        window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.dock)
        window.splitDockWidget(self.dock, column, Qt.Orientation.Horizontal)
        self.dock.hide()
        self.asked = ExperimentRunner(
            window,
            self.panel,
            home.send,
            home.settings,
            home.notices.tell,
            lambda: home.run_state,
        )
        home.registry.add(result_actions(self.asked, self.show))
        self.asked.wanted.connect(self.show)
        self.asked.changed.connect(home.registry.refresh)
        home.event_taken.connect(self._on_event)
        home.closed.connect(self.asked.close)

    def show(self) -> None:
        """Open the panel beside the others."""
        if self.dock.isHidden():
            self.dock.show()
            self._window.resizeDocks([self.dock], [_WIDTH], Qt.Orientation.Horizontal)
        self.dock.raise_()

    def set_theme(self, theme: Theme) -> None:
        """Of the panel and its title."""
        self.panel.set_theme(theme)
        self._title.set_theme(theme)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, EngineReady):
            self._catalogue = event.catalogue
            entries = event.catalogue.experiments
            self._home.registry.add(experiment_actions(entries, self._choose))

    def _choose(self, entry: ExperimentEntry) -> None:
        busy = BUSY if self.asked.running else ""
        page = ExperimentPage(entry, self._catalogue, self._begin, busy)
        self._home.inspector.show_page(page)

    def _begin(self, entry: ExperimentEntry, wish: ReproduceRequest) -> str:
        trouble = self.asked.begin(entry, replace(wish, data_root=self.data_root))
        if not trouble:
            self._home.inspector.leave()
        return trouble
