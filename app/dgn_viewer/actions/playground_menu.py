"""Run ▸ Playground: a small network on points of the plane, and the link that describes it."""

from __future__ import annotations

from functools import partial

from dgn_engine.protocol.catalogue import Catalogue
from dgn_viewer.actions.action_rows import SEPARATOR, ActionRow, Family, Menu, is_ready
from dgn_viewer.shell.playground_control import PlaygroundControl


def playground_menu(playground: PlaygroundControl) -> Menu:
    """Return the submenu; its data sets come from the engine's catalogue."""
    return Menu(
        "Playground",
        (
            Family("playground.*"),
            SEPARATOR,
            ActionRow(
                id="play.copy_link",
                title="Copy link",
                callback=playground.copy_link,
                icon="copy",
                tip="Copy a link that starts this network elsewhere: paste it there, or give it to "
                "dgn-viewer",
                enabled=lambda _: playground.shown is not None,
            ),
            ActionRow(
                id="play.paste_link",
                title="Paste link",
                callback=playground.paste_link,
                keys=("Ctrl+V",),
                tip="Start the playground whose link (dgn-play:…) is on the clipboard",
                enabled=is_ready,
            ),
            ActionRow(
                id="play.keep",
                title="Keep this run",
                callback=playground.keep,
                icon="save",
                tip="Record this playground run, with its scores from the first step on",
                enabled=lambda now: now.has_run and now.unrecorded,
            ),
        ),
    )


def playground_rows(catalogue: Catalogue, playground: PlaygroundControl) -> tuple[ActionRow, ...]:
    """Return one row per data set of the plane."""
    return tuple(
        ActionRow(
            id=f"playground.{entry.id}",
            title=f"Playground: {entry.title}",
            callback=partial(playground.start_on, entry.id),
            tip="Train a small network on these points in the plane, in the Teach layout: "
            "regions, paths, gates and the path kernel",
            enabled=is_ready,
        )
        for entry in catalogue.data
        if entry.plane
    )
