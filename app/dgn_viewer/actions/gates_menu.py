"""The menu Gates: a row for each regime of the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import SwapRegime
from dgn_viewer.actions.action_rows import ActionRow, Family, Menu, has_run

GATES_MENU = Menu("Gates", (Family("regime.*"),))


def regime_rows(catalogue: Catalogue, send: Callable[[Command], None]) -> tuple[ActionRow, ...]:
    """Return a row per regime; the one for copied gates once more with the value network kept."""
    rows: list[ActionRow] = []
    for number, entry in enumerate(catalogue.regimes, start=1):
        redrawn = " The value network is drawn anew." if entry.for_copied_gates else ""
        named = entry.title.startswith(entry.id)
        rows.append(
            ActionRow(
                id=f"regime.{entry.id}",
                title=entry.title if named else f"{entry.id} · {entry.title}",
                callback=partial(send, SwapRegime(entry.id)),
                keys=(f"Alt+{number}",) if number <= 9 else (),
                tip=f"{entry.about}{redrawn}",
                enabled=has_run,
                checked=lambda now, name=entry.id: now.regime == name,  # type: ignore[misc]
                group=entry.group,
            )
        )
        if entry.for_copied_gates:
            rows.append(
                ActionRow(
                    id=f"regime.{entry.id}.keep",
                    title=f"{entry.id}, value network kept",
                    callback=partial(send, SwapRegime(entry.id, restart_value=False)),
                    tip="Freeze the feature network; the value network goes on from where it is",
                    enabled=has_run,
                    group=entry.group,
                )
            )
    return tuple(rows)
