"""Gating regimes by name: one file each with the constant REGIME (THEORY §1)."""

from __future__ import annotations

from dgn_engine.errors import UserError
from dgn_engine.plugins import discover
from dgn_engine.protocol.catalogue import RegimeEntry
from dgn_engine.regimes._regime import GROUPS, Regime

__all__ = ["Regime", "all_regimes", "find_regime", "regime_entries"]


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
    raise UserError(f"There is no regime '{name}'; choose one of {known}.")


def regime_entries() -> tuple[RegimeEntry, ...]:
    """The regimes as the viewer shows them."""
    return tuple(
        RegimeEntry(
            r.name,
            r.title,
            r.about,
            r.own_gates,
            r.soft,
            r.trains_feature,
            r.group,
            takes_gates=r.offers_restart,
            drawn_gates=r.drawn_gates,
            open_gates=r.open_gates,
            trains_value=r.trains_value,
        )
        for r in all_regimes()
    )
