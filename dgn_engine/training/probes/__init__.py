"""Probes: what is measured on the probe set while training; one file each with PROBE."""

from __future__ import annotations

from dgn_engine.plugins import discover
from dgn_engine.training.probes._probe import Beside, Probe, Result, Sight, nobody

__all__ = ["Beside", "Probe", "Result", "Sight", "all_probes", "nobody"]


def all_probes() -> dict[str, Probe]:
    """Every probe by id."""
    return discover("dgn_engine.training.probes", "PROBE", Probe)
