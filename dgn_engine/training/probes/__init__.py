"""Probes: quantities measured on the probe set during training, one module each."""

from __future__ import annotations

from dgn_engine.plugins import discover_plugins
from dgn_engine.training.probes._probe import (
    ASSUMED_FLOPS,
    ComparedGates,
    ComparedNetwork,
    InputGeometry,
    Probe,
    ProbeContext,
    ProbeResult,
    Refine,
    Refinement,
    TrainingState,
    assumed_flops,
    no_comparison,
)
from dgn_engine.training.probes._refinement import TOO_ROUGH

__all__ = [
    "ASSUMED_FLOPS",
    "TOO_ROUGH",
    "ComparedGates",
    "ComparedNetwork",
    "InputGeometry",
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
    """Return all probes.

    Returns:
        Probes by key, the name of their module; those of plug-ins included.
    """
    return discover_plugins("dgn_engine.training.probes", "PROBE", Probe)
