"""The menu Help: guide, tours, the playground, and what panel and program are."""

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
_PACE = 40.0  # steps a second, slow enough to be followed


def help_menu(guides: Guides, pages: InspectorPages, sheet: ShortcutSheet) -> Menu:
    """Return the menu."""
    return Menu(
        "Help",
        (
            ActionRow(
                id="help.guide",
                title="User guide",
                callback=guides.help.open,
                keys=("Shift+F1",),
                tip="The guide, with its contents and a search, in a window of its own",
            ),
            ActionRow(
                id="help.tour",
                title="Tour",
                callback=guides.tour.start,
                tip="Six callouts that point at the live run, and can act on it",
                enabled=shows_run_and_ready,
            ),
            ActionRow(
                id="help.claims",
                title="Tour of the papers",
                callback=guides.start_claims,
                tip="Eight callouts: what the papers claim, on live runs of this window",
                enabled=shows_run_and_ready,
            ),
            Menu("Playground", (Family("playground.*"),)),
            ActionRow(
                id="help.panel",
                title="About this panel",
                callback=pages.about_front,
                keys=("F1",),
                icon="about",
                tip="What the panel in front shows, with its formulas",
            ),
            ActionRow(
                id="help.shortcuts",
                title="Keyboard shortcuts",
                callback=sheet.open,
                keys=("?",),
                tip="Every shortcut in one list",
            ),
            SEPARATOR,
            ActionRow(
                id="help.log",
                title="Show the log",
                callback=guides.log.open,
                tip="Starts, notices and faults",
            ),
            ActionRow(
                id="help.about",
                title="About dgn-viewer",
                callback=pages.program,
                tip="Versions, papers and licences",
            ),
        ),
    )


def playground_run(data: str) -> RunConfig:
    """Three gate layers of eight units: few enough paths to see each, enough to learn every set."""
    return RunConfig(
        data=DataConfig(name=data),
        net=NetConfig(name="fc", options=(("depth", 4), ("width", 8))),
        training=TrainingConfig(learning_rate=1e-2, batch=32, epochs=0, pace=_PACE),
    )


def playground_rows(
    catalogue: Catalogue, docks: PanelDocks, send: Callable[[Command], None]
) -> tuple[ActionRow, ...]:
    """Return a row for each data set of the plane."""

    def begin(data: str) -> None:
        docks.arrangement.arrange(LAYOUT)
        send(StartRun(playground_run(data)))

    return tuple(
        ActionRow(
            id=f"playground.{entry.id}",
            title=f"Playground: {entry.title}",
            callback=partial(begin, entry.id),
            tip="Train a small network on these points of the plane, with the layout Teach: "
            "regions, paths, gates and the path kernel",
            enabled=is_ready,
        )
        for entry in catalogue.data
        if entry.plane
    )
