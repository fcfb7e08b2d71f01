"""Probes: what is measured on the probe set while training; one file each with PROBE."""

from __future__ import annotations

from dgn_engine.plugins import discover
from dgn_engine.training.probes._probe import (
    ASSUMED_FLOPS,
    ComparedGates,
    Probe,
    ProbeContext,
    ProbeResult,
    Refine,
    Refinement,
    TrainingState,
    assumed_flops,
    no_comparison,
)

__all__ = [
    "ASSUMED_FLOPS",
    "ComparedGates",
    "Probe",
    "ProbeContext",
    "ProbeResult",
    "Refine",
    "Refinement",
    "TrainingState",
    "all_probes",
    "assumed_flops",
    "no_comparison",
]


def all_probes() -> dict[str, Probe]:
    return discover("dgn_engine.training.probes", "PROBE", Probe)
