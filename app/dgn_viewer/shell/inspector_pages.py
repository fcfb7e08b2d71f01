"""Opens the inspector's pages that actions ask for: examples, comparison, changes, settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import ListRuns
from dgn_engine.protocol.watching import SetWatchShare
from dgn_engine.scene.theme import Theme
from dgn_engine.views.history import History
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.changes_page import ChangesPage
from dgn_viewer.inspector.pages.compare_page import ComparePage
from dgn_viewer.inspector.pages.examples_page import ExamplesPage
from dgn_viewer.inspector.pages.program_page import ProgramPage
from dgn_viewer.inspector.pages.settings_page import KeyTable, SettingsPage
from dgn_viewer.settings import Settings


@dataclass(frozen=True)
class Appearance:
    """How the window looks, and how to choose another look."""

    theme: Callable[[], Theme]
    choice: Callable[[], str]  # "system", "light" or "dark"
    choose: Callable[[str], None]
    apply: Callable[[], None]  # draw everything anew as the settings say


class InspectorPages:
    """Each method opens one page, made of what there is now."""

    def __init__(
        self,
        inspector: Inspector,
        send: Callable[[Command], None],
        history: History,
        docks: PanelDocks,
        settings: Settings,
        keys: KeyTable,
        look: Appearance,
        go_to_step: Callable[[int], None],
        torch_version: Callable[[], str],
        reached: Callable[[], int],
        cursor: Callable[[], int | None],
    ) -> None:
        """`reached()`: the step of the run now; `cursor()`: that is looked back at; None: live."""
        self._inspector = inspector
        self._send = send
        self._history = history
        self._docks = docks
        self._settings = settings
        self._keys = keys
        self._look = look
        self._go_to_step = go_to_step
        self._torch_version = torch_version
        self._reached, self._cursor = reached, cursor

    def settings(self) -> None:
        self._inspector.show_page(
            SettingsPage(
                self._settings,
                self._keys,
                self._look.choose,
                self.set_watch_share,
                self._set_numbers,
                self._look.choice(),
                lambda: self._send(ListRuns()),
            )
        )

    def examples(self) -> None:
        shown, light = self._history.view({}).pictures, self._docks.linked.show
        page = ExamplesPage(self._send, self._history.state, shown, light)
        page.set_theme(self._look.theme())
        self._inspector.show_page(page)

    def compare(self) -> None:
        view = partial(self._history.view, {})
        self._inspector.show_page(ComparePage(self._send, view, self._reached, self._cursor))

    def changes(self) -> None:
        self._inspector.show_page(ChangesPage(self._send, self._go_to_step))

    def program(self) -> None:
        self._inspector.show_page(ProgramPage(self._torch_version()))

    def about(self, panel: str) -> None:
        self._inspector.show_about(self._docks.hosts[panel].spec)

    def set_watch_share(self, percent: int) -> None:
        self._send(SetWatchShare(percent / 100))

    def _set_numbers(self, example: str) -> None:
        self._settings.numbers = example
        self._look.apply()
