"""The sections of a report, in their order: one module with one constant each."""

from __future__ import annotations

from dgn_engine.network_report.section import SectionSpec
from dgn_engine.network_report.sections import (
    accuracy,
    alignment,
    copied_gates,
    layer_gates,
    overlaps,
    path_lengths,
    path_spectrum,
    tangent_kernel,
)

SECTIONS: tuple[SectionSpec, ...] = (
    accuracy.SECTION,
    layer_gates.SECTION,
    overlaps.SECTION,
    path_spectrum.SECTION,
    tangent_kernel.SECTION,
    alignment.SECTION,
    path_lengths.SECTION,
    copied_gates.SECTION,
)
