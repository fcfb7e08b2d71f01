"""Estimates on display: a hatched corner, errors under the cursor, ± in facts and notes."""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Array, Chart, with_matrix
from dgn_engine.text.written_numbers import format_number, plus_minus


def mark_estimate(chart: Chart, reading: Reading, name: str, error: str = "") -> Chart:
    """Mark the chart of the array `name` as an estimate if the reading has errors for it.

    `error`: the array with the errors of what is drawn, if not those of `name`.
    """
    if f"{name}_error" not in reading.arrays:
        return chart
    errors = reading.arrays.get(error or f"{name}_error")
    return with_matrix(chart, estimated=True, error=errors)


def format_mean(values: Array, errors: Array | None) -> str:
    """Format the mean of some entries; its standard error is at most the mean of theirs."""
    if not values.size:
        return "–"
    mean = float(values.mean())
    if errors is None:
        return format_number(mean, 3)
    # SE(mean) ≤ mean of the entries' SEs, with equality if they are fully correlated.
    return plus_minus(mean, float(errors.mean()))


def estimate_note(*readings: Reading) -> str:
    """Explain the hatched corner; '' if every reading is exact."""
    error = max((reading.error for reading in readings), default=0.0)
    if not error > 0.0:
        return ""
    share = format_number(100 * error, 2)
    return f"Hatched corner: estimated, standard error ± {share} % of the kernel."


def standard_errors(reading: Reading, name: str) -> Array | None:
    """Return one standard error of each entry of an array; None if it is exact."""
    errors = reading.arrays.get(f"{name}_error")
    return None if errors is None else np.asarray(errors)
