"""The Gates menu: one entry per gating regime."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import SwapRegime
from dgn_viewer.actions.action_rows import ActionRow, Family, Menu, has_run

GATES_MENU = Menu("Gates", (Family("regime.*"),))


def regime_rows(catalogue: Catalogue, send: Callable[[Command], None]) -> tuple[ActionRow, ...]:
    """Return one row per regime; copied gates get a second row that keeps the value network."""
    rows: list[ActionRow] = []
    for number, entry in enumerate(catalogue.regimes, start=1):
        note = " Reinitialises the value network." if entry.for_copied_gates else ""
        has_id = entry.title.startswith(entry.id)
        rows.append(
            ActionRow(
                id=f"regime.{entry.id}",
                title=entry.title if has_id else f"{entry.id} · {entry.title}",
                callback=partial(send, SwapRegime(entry.id)),
                keys=(f"Alt+{number}",) if number <= 9 else (),
                tip=f"{entry.about}{note}",
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
                    tip="Freeze the feature network; the value network keeps its weights",
                    enabled=has_run,
                    group=entry.group,
                )
            )
    return tuple(rows)
