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


def ratio_of_means(
    numerators: Sequence[float], denominators: Sequence[float]
) -> tuple[float, float, float]:
    """Mean of one sample over the mean of another that is paired with it, with the ends of its
    95 % interval after Fieller.

    The interval holds each θ for which Student's t does not tell the mean of numerator − θ ·
    denominator from 0. It is exact for normal pairs, however noisy the denominator is: a mean of
    ratios is biased then, and its own t interval misses the ratio. Where the mean denominator
    itself is not told from 0, that set has no ends: NaN, as below two pairs.

    E. C. Fieller, Some problems in interval estimation, J. R. Statist. Soc. B 16 (1954) 175;
    V. H. Franz, arXiv:0710.2024.
    """
    n = len(numerators)
    if not n or n != len(denominators):
        raise ValueError(f"{n} numerators are not paired with {len(denominators)} denominators")
    top, bottom = sum(numerators) / n, sum(denominators) / n
    ratio = top / bottom if bottom else math.nan
    if n < 2:
        return ratio, math.nan, math.nan
    from scipy.stats import t

    def product(one: Sequence[float], mean: float, other: Sequence[float], its: float) -> float:
        pairs = zip(one, other, strict=True)
        return sum((a - mean) * (b - its) for a, b in pairs) / (n - 1) / n

    square = float(t.ppf(0.975, n - 1)) ** 2
    # (bottom² − t²·var) θ² − 2 (top·bottom − t²·cov) θ + (top² − t²·var) ≤ 0
    leading = bottom**2 - square * product(denominators, bottom, denominators, bottom)
    if not leading > 0:
        return ratio, math.nan, math.nan
    middle = top * bottom - square * product(numerators, top, denominators, bottom)
    last = top**2 - square * product(numerators, top, numerators, top)
    root = math.sqrt(max(0.0, middle**2 - leading * last))
    return ratio, (middle - root) / leading, (middle + root) / leading


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
