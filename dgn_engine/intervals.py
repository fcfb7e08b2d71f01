"""The interval of a mean."""

from __future__ import annotations

import math


def mean_and_half_width(values: tuple[float, ...]) -> tuple[float, float]:
    """Mean and half-width of its 95 % interval (Student's t); NaN below two values."""
    n = len(values)
    if not n:
        return math.nan, math.nan
    mean = sum(values) / n
    if n < 2:
        return mean, math.nan
    from scipy.stats import t

    variance = sum((value - mean) ** 2 for value in values) / (n - 1)
    return mean, float(t.ppf(0.975, n - 1)) * math.sqrt(variance / n)
