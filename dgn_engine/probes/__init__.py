"""Probes: what is measured on the probe set while training; one file each with PROBE."""

from __future__ import annotations

from dgn_engine.discovery import discover
from dgn_engine.probes._probe import Probe, Result, Sight

__all__ = ["Probe", "Result", "Sight", "all_probes"]


def all_probes() -> dict[str, Probe]:
    """Every probe by id."""
    return discover("dgn_engine.probes", "PROBE", Probe)
