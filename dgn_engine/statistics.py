"""The interval of a mean, also of numbers that cannot lie beyond a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


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


def difference(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Of the means of two independent samples, with the ends of its 95 % interval (Welch's t);
    no interval (NaN) where one of them has fewer than two values."""
    means = [sum(sample) / len(sample) if sample else math.nan for sample in (one, other)]
    gap = means[0] - means[1]
    if min(len(one), len(other)) < 2:
        return gap, math.nan, math.nan
    from scipy.stats import t

    squares = [
        sum((value - mean) ** 2 for value in sample) / (len(sample) - 1) / len(sample)
        for sample, mean in zip((one, other), means, strict=True)
    ]
    total = sum(squares)
    if not total:
        return gap, gap, gap
    freedom = total**2 / sum(
        square**2 / (len(sample) - 1) for square, sample in zip(squares, (one, other), strict=True)
    )
    half = float(t.ppf(0.975, freedom)) * math.sqrt(total)
    return gap, gap - half, gap + half


@dataclass(frozen=True)
class Bounds:
    """Between which numbers a statistic lies; `high` may be infinite.

    `grain`: the smallest difference of two of its values near a bound, where it is a ladder. A
    value at a bound counts as half a grain away from it; without a grain it has no interval.
    """

    low: float
    high: float
    grain: float = 0.0


def rank_correlation(points: int) -> Bounds:
    """Of Spearman's ρ over so many points without ties: next to ±1 come 12/(N(N² − 1)) less."""
    return Bounds(-1.0, 1.0, 12 / (points * (points**2 - 1)) if points > 1 else 0.0)


SHARE = Bounds(0.0, 1.0)
PERCENT = Bounds(0.0, 100.0)
POSITIVE = Bounds(0.0, math.inf)


def interval(values: Sequence[float], bounds: Bounds | None = None) -> tuple[float, float, float]:
    """Mean and ends of its 95 % interval (Student's t); NaN where there is none.

    With `bounds` both are taken of log((v − low)/(high − v)), or of log(v − low) where nothing
    is above, and brought back, so that no end lies beyond a bound. For a correlation that is
    twice Fisher's z = artanh(r).
    """
    if bounds is None or len(values) < 2 or len(set(values)) == 1:
        mean, half = mean_and_half_width(tuple(values))
        return mean, mean - half, mean + half
    mean, half = mean_and_half_width(tuple(_opened(value, bounds) for value in values))
    return _closed(mean, bounds), _closed(mean - half, bounds), _closed(mean + half, bounds)


def _opened(value: float, bounds: Bounds) -> float:
    """On a scale without ends; NaN at a bound that has no grain, and beyond."""
    inside = min(max(value, bounds.low + bounds.grain / 2), bounds.high - bounds.grain / 2)
    below, above = inside - bounds.low, bounds.high - inside
    if not (below > 0 and above > 0 and bounds.low <= value <= bounds.high):
        return math.nan
    return math.log(below) - (0.0 if math.isinf(above) else math.log(above))


def _closed(place: float, bounds: Bounds) -> float:
    if math.isinf(bounds.high):
        return bounds.low + math.exp(place)
    return bounds.low + (bounds.high - bounds.low) * (1 + math.tanh(place / 2)) / 2
