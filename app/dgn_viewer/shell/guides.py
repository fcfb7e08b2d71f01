"""User guide, log, console, and the two tours."""

from __future__ import annotations

from functools import cached_property

from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.shell.claims_tour import ClaimActs
from dgn_viewer.shell.console_window import ConsoleWindow
from dgn_viewer.shell.experiment_runner import ExperimentRunner
from dgn_viewer.shell.help_window import HelpWindow
from dgn_viewer.shell.log_window import LogWindow
from dgn_viewer.shell.run_views import RunViews
from dgn_viewer.shell.time_controls import TimeControls
from dgn_viewer.shell.tour import Tour
from dgn_viewer.shell.tour_steps import TourActs
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.shell.window_layout import SideColumns


class Guides:
    """Help windows and tours; one tour at a time."""

    def __init__(
        self,
        context: WindowContext,
        docks: PanelDocks,
        views: RunViews,
        columns: SideColumns,
        experiments: ExperimentRunner,
        time: TimeControls,
    ) -> None:
        self._context, self._experiments = context, experiments
        self._due = False
        leave_page = columns.inspector.close_page
        self.acts = TourActs(context, docks, views.strip, views.toolbar.regime, leave_page)
        self.tour = Tour(
            context.window, self.acts.build_steps(), context.theme.now, time.return_to_live
        )
        self.claims = ClaimActs(context, docks, views.strip, self._open_experiment, columns.page)
        context.theme.changed.connect(self.tour.set_theme)

    @cached_property
    def help(self) -> HelpWindow:
        """The user guide, made when it is first opened."""
        window = HelpWindow(self._context.window, self._context.theme.now)
        self._context.theme.follow(window)
        return window

    @cached_property
    def log(self) -> LogWindow:
        return LogWindow(self._context.window)

    @cached_property
    def console(self) -> ConsoleWindow:
        return ConsoleWindow(self._context.window, self._context.view)

    def start_claims(self) -> None:
        """Start the tour of the papers; the other tour does not replace it with the first frame."""
        self._due = False
        self.tour.start(self.claims.build_steps())

    def offer_tour(self) -> None:
        """Start the tour with the first frame, unless it has been seen."""
        self._due = not self._context.settings.tour_seen

    def start_due_tour(self) -> None:
        if self._due:
            self._due = False
            self._context.settings.tour_seen = True
            self.tour.start()

    def close(self) -> None:
        for name in {"help", "log", "console"} & vars(self).keys():
            getattr(self, name).close()
        self.tour.skip_tour()

    def _open_experiment(self, name: str) -> None:
        catalogue = self._context.run_state().catalogue
        for entry in catalogue.experiments if catalogue is not None else ():
            if entry.id == name:
                self._experiments.open_page(entry)
