"""Numbers of a result as they are printed, on paper and in the window alike."""

from __future__ import annotations

import math

from dgn_engine.experiments.report.document import ReportRow
from dgn_engine.protocol.results import Claim, Printed

NOTHING = "–"
MINUS = "−"


def number(value: float, unit: str = "", signed: bool = False) -> str:
    """Two decimals for percentages, four significant digits for all else."""
    if not math.isfinite(value):
        return NOTHING
    sign = "+" if signed else ""
    if unit == "%":
        text = f"{value:{sign}.2f}"
    elif 1000 <= abs(value) < 1e6:
        text = f"{value:{sign},.0f}"
    elif value == 0 or 0.001 <= abs(value) < 1000:
        text = f"{value:{sign}.4g}"
    else:
        text = f"{value:{sign}.2e}"
    return text.replace("-", MINUS)


def measured(row: ReportRow) -> str:
    """'97.61 ± 0.12'."""
    mean = number(row.mean, row.unit)
    if not math.isfinite(row.half_width) or mean == NOTHING:
        return mean
    return f"{mean} ± {number(row.half_width, row.unit)}"


def printed(found: Printed | None, unit: str) -> str:
    """As in the paper."""
    if found is None:
        return NOTHING
    text = number(found.value, unit)
    half = found.half_width
    return text if half is None else f"{text} ± {number(half, unit)}"


def interval(claim: Claim) -> str:
    """'[0.42, 1.31]', or nothing where there is none."""
    if claim.exact:
        return "exact"
    if not (math.isfinite(claim.low) and math.isfinite(claim.high)):
        return NOTHING
    return f"[{number(claim.low)}, {number(claim.high)}]"


def duration(seconds: float) -> str:
    """'41 s', '3 min', '2.5 h', '4.1 days', '3.3 years'."""
    if not math.isfinite(seconds):
        return NOTHING
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    if days < 99.5:
        return f"{days:.1f} days"
    return f"{days:.0f} days" if days < 730 else f"{days / 365.25:.1f} years"


def epochs(value: float) -> str:
    """Whole where it is; 0 is a network at its start, NaN what is not trained in epochs."""
    return f"{value:g}" if math.isfinite(value) else NOTHING
