"""What an experiment found, and the interval of a mean."""

from __future__ import annotations

from dgn_engine.intervals import mean_and_half_width
from dgn_engine.protocol.findings import Claim, Figure, Findings, Line, Printed, Row, Verdict

__all__ = [
    "Claim",
    "Figure",
    "Findings",
    "Line",
    "Printed",
    "Row",
    "Verdict",
    "mean_and_half_width",
]
