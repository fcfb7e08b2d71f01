"""Gating regimes by name: one file each with the constant REGIME (THEORY §1)."""

from __future__ import annotations

from typing import Literal

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.plugins import discover
from dgn_engine.regimes._regime import GROUPS, Regime, Trained

__all__ = ["Regime", "Trained", "all_regimes", "find_regime", "only_regime"]


def all_regimes() -> tuple[Regime, ...]:
    """Every regime, in the order of the selector."""
    found = discover("dgn_engine.regimes", "REGIME", Regime)
    return tuple(sorted(found.values(), key=lambda r: (GROUPS.index(r.group), r.order)))


def find_regime(name: str) -> Regime:
    """A regime by its name or an alias, whatever the case; raises `UserError`."""
    regimes = all_regimes()
    for regime in regimes:
        if name.lower() in {known.lower() for known in (regime.name, *regime.aliases)}:
            return regime
    known = ", ".join(regime.name for regime in regimes)
    offered = {word: regime.name for regime in regimes for word in (regime.name, *regime.aliases)}
    raise UserError(
        f"There is no regime '{name}'; choose one of {known}.{did_you_mean(name, (), offered)}",
        kind="unknown-name",
    )


def only_regime(role: Literal["standard", "for_copied_gates"]) -> Regime:
    """The one regime with this role; raises `LookupError` where none or several have it."""
    found = [regime for regime in all_regimes() if getattr(regime, role)]
    if len(found) != 1:
        names = ", ".join(regime.name for regime in found) or "none"
        raise LookupError(f"Just one regime must be {role}; found: {names}.")
    return found[0]
