"""Opens inspector pages for actions: settings, examples, comparison, history, program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dgn_engine.protocol.messages import EngineReady
from dgn_engine.protocol.runs import ListRuns
from dgn_engine.protocol.watching import SetWatchShare
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.changes_page import ChangesPage
from dgn_viewer.inspector.pages.compare_page import ComparePage
from dgn_viewer.inspector.pages.examples_page import ExamplesPage
from dgn_viewer.inspector.pages.program_page import ProgramPage
from dgn_viewer.inspector.pages.settings_page import KeyTable, SettingsPage
from dgn_viewer.shell.time_controls import TimeControls
from dgn_viewer.shell.window_context import WindowContext


class InspectorPages:
    """Opens one page per method, filled with the current state."""

    def __init__(
        self,
        context: WindowContext,
        inspector: Inspector,
        docks: PanelDocks,
        time: TimeControls,
        keys: KeyTable,
        show_step: Callable[[int], None],
        watch_predictions: Callable[[bool], None],
        open_new_run: Callable[[], object],
    ) -> None:
        """`show_step` zooms the time axes to a step; `open_new_run` opens the start card."""
        self._context = context
        self._inspector = inspector
        self._docks = docks
        self._cursor = time.cursor
        self._keys = keys
        self._show_step = show_step
        self._watch_predictions = watch_predictions
        self.open_new_run = open_new_run
        self._torch_version = ""
        for host in docks.hosts.values():
            host.about_requested.connect(self.open_about_panel)

    def on_ready(self, engine: EngineReady) -> None:
        """Store the torch version, and set the viewer overhead from the settings."""
        self._torch_version = engine.torch_version
        if self._context.settings.budget:
            self._set_watch_share(self._context.settings.budget)

    def open_settings(self) -> None:
        self._inspector.show_page(
            SettingsPage(
                self._context.settings,
                self._keys,
                self._context.theme.select_theme,
                self._set_watch_share,
                self._set_numbers,
                self._context.theme.choice,
                partial(self._context.send, ListRuns()),
            )
        )

    def open_examples(self) -> None:
        context, light = self._context, self._docks.linked.outline_examples
        page = ExamplesPage(context.send, context.run_state(), context.view().pictures, light)
        page.set_theme(context.theme.now)
        page.predictions_wanted.connect(self._watch_predictions)
        self._inspector.show_page(page)
        self.show_answers()

    def show_answers(self) -> None:
        """Update what the network answers on the page of examples, if it is open."""
        if isinstance(page := self._inspector.page, ExamplesPage):
            page.show_answers(self._context.view())

    def open_differences(self) -> None:
        self._inspector.show_page(self._make_compare_page())

    def open_branch_at(self, step: int) -> None:
        """Show the page of branches, with this step filled in."""
        page = self._make_compare_page()
        page.origin.choose_step(step)
        self._inspector.show_page(page)

    def _make_compare_page(self) -> ComparePage:
        context, cursor = self._context, self._cursor
        return ComparePage(
            context.send, context.view, lambda: cursor.last_step, lambda: cursor.step
        )

    def open_changes(self) -> None:
        self._inspector.show_page(ChangesPage(self._context.send, self._show_step))

    def open_program_page(self) -> None:
        self._inspector.show_page(ProgramPage(self._torch_version))

    def open_about_panel(self, panel: str) -> None:
        self._inspector.show_about(self._docks.hosts[panel].spec)

    def open_about_front_panel(self) -> None:
        if name := self._docks.front_panel():
            self.open_about_panel(name)

    def _set_watch_share(self, percent: int) -> None:
        self._context.send(SetWatchShare(percent / 100))

    def _set_numbers(self, example: str) -> None:
        self._context.settings.numbers = example
        self._context.theme.apply_theme()
