"""The Gates menu: the regimes in sight, and the others under 'More'."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import SwapRegime
from dgn_viewer.actions.action_rows import ActionRow, Family, Menu, has_run
from dgn_viewer.widgets.grouped_box import BoxChoice, parse_swap, regime_choices

GATES_MENU = Menu("Gates", (Family("regime.*"),))


def regime_rows(catalogue: Catalogue, send: Callable[[Command], None]) -> tuple[ActionRow, ...]:
    """Return one row per regime; copied gates get a second row that keeps the value network."""
    choices = regime_choices(catalogue.regimes, of_swaps=True)
    numbers = {entry.id: number for number, entry in enumerate(catalogue.regimes, start=1)}
    return tuple(_regime_row(choice, numbers, send) for choice in choices)


def _regime_row(
    choice: BoxChoice, numbers: Mapping[str, int], send: Callable[[Command], None]
) -> ActionRow:
    """Return the row of a choice; `numbers`: places of the regimes, for their keys."""
    regime, keeps_value = parse_swap(choice.value)
    has_key = not keeps_value and numbers[regime] <= 9
    return ActionRow(
        id=f"regime.{regime}.keep" if keeps_value else f"regime.{regime}",
        title=choice.listed_title,
        callback=partial(send, SwapRegime(regime, restart_value=not keeps_value)),
        keys=(f"Alt+{numbers[regime]}",) if has_key else (),
        tip=choice.about,
        enabled=has_run,
        checked=None if keeps_value else lambda now: now.regime == regime,
        group=choice.group,
    )
