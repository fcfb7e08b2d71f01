"""Gating regimes by name; one file each with the constant REGIME (theory §1)."""

from __future__ import annotations

from typing import Literal

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.plugins import discover_plugins
from dgn_engine.regimes._regime import GROUPS, Regime, Trained

__all__ = ["Regime", "Trained", "all_regimes", "find_regime", "only_regime"]


def all_regimes() -> tuple[Regime, ...]:
    """Return all regimes in the order of a chooser: those in sight, then the others by group.

    Returns:
        The regimes.
    """
    discovered = discover_plugins("dgn_engine.regimes", "REGIME", Regime)
    return tuple(sorted(discovered.values(), key=_place_in_chooser))


def _place_in_chooser(regime: Regime) -> tuple[bool, int, int]:
    group = 0 if regime.in_sight else GROUPS.index(regime.group)
    return not regime.in_sight, group, regime.order


def find_regime(name: str) -> Regime:
    """Find a regime by name or alias, ignoring case.

    Args:
        name: The name or alias.

    Returns:
        The regime.

    Raises:
        UserError: There is no such regime.
    """
    regimes = all_regimes()
    for regime in regimes:
        if name.lower() in {known.lower() for known in (regime.name, *regime.aliases)}:
            return regime
    known = ", ".join(regime.name for regime in regimes)
    offered = {alias: regime.name for regime in regimes for alias in (regime.name, *regime.aliases)}
    raise UserError(
        f"Unknown regime '{name}'; choose from {known}.{did_you_mean(name, (), offered)}",
        kind="unknown-name",
    )


def only_regime(role: Literal["standard", "for_copied_gates"]) -> Regime:
    """Return the only regime with a role.

    Args:
        role: Name of a boolean field of `Regime`.

    Returns:
        The regime.

    Raises:
        LookupError: No regime or several have the role.
    """
    matches = [regime for regime in all_regimes() if getattr(regime, role)]
    if len(matches) != 1:
        names = ", ".join(regime.name for regime in matches) or "none"
        raise LookupError(f"Exactly one regime must have {role}=True; found: {names}.")
    return matches[0]
