"""What an experiment found, and the interval of a mean."""

from __future__ import annotations

from dgn_engine.protocol.results import Claim, Figure, Findings, PlottedLine, Printed, Row, Verdict
from dgn_engine.statistics import mean_and_half_width

__all__ = [
    "Claim",
    "Figure",
    "Findings",
    "PlottedLine",
    "Printed",
    "Row",
    "Verdict",
    "mean_and_half_width",
]
