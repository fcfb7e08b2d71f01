"""How an estimate looks: a hatched corner, errors under the cursor, ± in facts and notes."""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Array, Chart, with_matrix
from dgn_engine.text.written_numbers import number, plus_minus


def marked(chart: Chart, reading: Reading, name: str, error: str = "") -> Chart:
    """The chart of the array `name` with its errors, where the reading has any: it is an estimate.

    `error`: the array that has the errors of what is drawn, unless that is `name` itself.
    """
    if f"{name}_error" not in reading.arrays:
        return chart
    errors = reading.arrays.get(error or f"{name}_error")
    return with_matrix(chart, estimated=True, error=errors)


def mean_in_words(values: Array, errors: Array | None) -> str:
    """The mean of some entries; its standard error is at most the mean of theirs."""
    if not values.size:
        return "–"
    mean = float(values.mean())
    if errors is None:
        return number(mean, 3)
    return plus_minus(mean, float(errors.mean()))


def estimate_note(*readings: Reading) -> str:
    """What the hatched corner means; nothing where every reading is exact."""
    error = max((reading.error for reading in readings), default=0.0)
    if not error > 0.0:
        return ""
    share = number(100 * error, 2)
    return f"Hatched corner: an estimate, one standard error ± {share} % of the kernel."


def errors_of(reading: Reading, name: str) -> Array | None:
    """One standard error of each entry of an array, where it is an estimate."""
    found = reading.arrays.get(f"{name}_error")
    return None if found is None else np.asarray(found)
