"""The Help menu: guide, tours, playground, and information on panels and the program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import StartRun
from dgn_viewer.actions.action_rows import (
    SEPARATOR,
    ActionRow,
    Family,
    Menu,
    is_ready,
    shows_run_and_ready,
)
from dgn_viewer.actions.shortcuts import ShortcutSheet
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.shell.guides import Guides
from dgn_viewer.shell.inspector_pages import InspectorPages

LAYOUT = "teach"
_PACE = 40.0  # steps per second, slow enough to follow


def help_menu(guides: Guides, pages: InspectorPages, sheet: ShortcutSheet) -> Menu:
    """Return the Help menu."""
    return Menu(
        "Help",
        (
            ActionRow(
                id="help.guide",
                title="User guide",
                callback=guides.help.open,
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
                enabled=shows_run_and_ready,
            ),
            Menu("Playground", (Family("playground.*"),)),
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
                callback=sheet.open,
                keys=("?",),
                tip="List all shortcuts",
            ),
            SEPARATOR,
            ActionRow(
                id="help.log",
                title="Show log",
                callback=guides.log.open,
                tip="Startups, notices and errors",
            ),
            ActionRow(
                id="help.console",
                title="Python console",
                callback=guides.open_console,
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


def playground_run(data: str) -> RunConfig:
    """Return a network with three gate layers of eight units.

    It has few enough paths to draw each of them, and still learns every data set of the plane.
    """
    return RunConfig(
        data=DataConfig(name=data),
        net=NetConfig(name="fc", options=(("depth", 4), ("width", 8))),
        training=TrainingConfig(learning_rate=1e-2, batch=32, epochs=0, pace=_PACE),
    )


def playground_rows(
    catalogue: Catalogue, docks: PanelDocks, send: Callable[[Command], None]
) -> tuple[ActionRow, ...]:
    """Return one row per data set of the plane."""

    def start_playground(data: str) -> None:
        docks.arrangement.arrange_preset(LAYOUT)
        send(StartRun(playground_run(data)))

    return tuple(
        ActionRow(
            id=f"playground.{entry.id}",
            title=f"Playground: {entry.title}",
            callback=partial(start_playground, entry.id),
            tip="Train a small network on these points in the plane, in the Teach layout: "
            "regions, paths, gates and the path kernel",
            enabled=is_ready,
        )
        for entry in catalogue.data
        if entry.plane
    )
