"""The Help menu: guide, tours, and information on panels and the program."""

from __future__ import annotations

from dgn_viewer.actions.action_rows import SEPARATOR, ActionRow, Menu, is_ready, shows_run_and_ready
from dgn_viewer.actions.action_views import ActionViews
from dgn_viewer.shell.guides import Guides
from dgn_viewer.shell.inspector_pages import InspectorPages


def help_menu(guides: Guides, pages: InspectorPages, views: ActionViews) -> Menu:
    """Return the Help menu."""
    return Menu(
        "Help",
        (
            ActionRow(
                id="help.guide",
                title="User guide",
                callback=lambda: guides.help.open(),
                keys=("Shift+F1",),
                tip="Open the user guide, with contents and search, in its own window",
            ),
            ActionRow(
                id="help.tour",
                title="Tour",
                callback=guides.tour.start,
                tip="Six cards that explain the live window; each can demonstrate its point",
                enabled=shows_run_and_ready,
            ),
            ActionRow(
                id="help.claims",
                title="Tour of the papers",
                callback=guides.start_claims,
                tip="Eight cards: the claims of the papers, shown on live runs",
                enabled=is_ready,
            ),
            ActionRow(
                id="help.panel",
                title="About this panel",
                callback=pages.open_about_front_panel,
                keys=("F1",),
                icon="about",
                tip="What the front panel shows, with formulas",
            ),
            ActionRow(
                id="help.shortcuts",
                title="Keyboard shortcuts",
                callback=lambda: views.sheet.open(),
                keys=("?",),
                tip="List all shortcuts",
            ),
            SEPARATOR,
            ActionRow(
                id="help.log",
                title="Show log",
                callback=lambda: guides.log.open(),
                tip="Startups, notices and errors",
            ),
            ActionRow(
                id="help.console",
                title="Python console",
                callback=lambda: guides.console.open(),
                tip="Compute with frozen copies of what the panels show",
            ),
            ActionRow(
                id="help.about",
                title="About dgn-viewer",
                callback=pages.open_program_page,
                tip="Versions, papers and licences",
            ),
        ),
    )
