"""Means of replicates: their tests and intervals, also of numbers that cannot pass a bound."""

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

    A value at a bound has no interval.
    """

    low: float
    high: float


SHARE = Bounds(0.0, 1.0)
PERCENT = Bounds(0.0, 100.0)
POSITIVE = Bounds(0.0, math.inf)


@dataclass(frozen=True)
class MeanTest:
    """A mean with its standard error and degrees of freedom, on the scale that `bounds` opens.

    `error` is NaN where nothing is known of it; `freedom` may be infinite.
    """

    place: float
    error: float
    freedom: float
    bounds: Bounds | None = None

    @property
    def mean(self) -> float:
        return closed(self.place, self.bounds)

    def interval(self) -> tuple[float, float]:
        """Ends of the 95 % interval (Student's t); NaN where there is none."""
        if math.isnan(self.error):
            return math.nan, math.nan
        from scipy.stats import t

        half = float(t.ppf(0.975, self.freedom)) * self.error if self.error else 0.0
        return (
            closed(self.place - half, self.bounds),
            closed(self.place + half, self.bounds),
        )

    def p_above(self, threshold: float) -> float:
        """Chance of so large a mean, or a larger one, if the true one were at the threshold.

        NaN where the mean has no error, or one of zero.
        """
        return self._tail(self.place - opened(threshold, self.bounds))

    def p_below(self, threshold: float) -> float:
        """Chance of so small a mean, or a smaller one, if the true one were at the threshold."""
        return self._tail(opened(threshold, self.bounds) - self.place)

    def _tail(self, distance: float) -> float:
        if not self.error > 0:
            return math.nan
        from scipy.stats import t

        return float(t.sf(distance / self.error, self.freedom))


def mean_test(
    values: Sequence[float], bounds: Bounds | None = None, test_variance: float = 0.0
) -> MeanTest:
    """Test the mean of replicates.

    With `bounds` it is taken of log((v − low)/(high − v)), or of log(v − low) where nothing is
    above, so that no end of its interval lies beyond a bound. For a correlation that is twice
    Fisher's z = artanh(r).

    `test_variance`: what the finite test set, which all replicates share, adds to the variance of
    the mean. The share of the replicates is estimated with n − 1 degrees of freedom, that of the
    test set is known: together they have n − 1 times total over between. Satterthwaite (Biometrics
    Bulletin 2 (1946) 110) squares that ratio, and his interval of three replicates covers as little
    as 92 % where the test set has a tenth of the variance.
    """
    n = len(values)
    places = [opened(value, bounds) for value in values]
    place = sum(places) / n if n else math.nan
    if n < 2:
        return MeanTest(place, math.nan, math.nan, bounds)
    between = sum((value - place) ** 2 for value in places) / (n - 1) / n
    shared = 0.0
    if test_variance:
        shared = test_variance * stretch(closed(place, bounds), bounds) ** 2
    total = between + shared
    freedom = (n - 1) * total / between if between else math.inf
    return MeanTest(place, math.sqrt(total), freedom, bounds)


def welch_p(values: Sequence[float], mean: float, spread: float, n: int) -> float:
    """Two-sided p of Welch's test of a sample against the mean and standard deviation of another.

    NaN below two values, or where nothing varies.
    """
    test = _welch(_moments(values), (mean, spread**2 / n, n))
    return 2 * min(test.p_above(0.0), test.p_below(0.0))


def holm(chances: Sequence[float]) -> list[float]:
    """Adjust p values for so many tests at once (S. Holm, Scand. J. Statist. 6 (1979) 65).

    NaN stays, and does not count.
    """
    order = sorted((p, place) for place, p in enumerate(chances) if not math.isnan(p))
    adjusted, worst = [math.nan] * len(chances), 0.0
    for before, (p, place) in enumerate(order):
        worst = max(worst, min(1.0, (len(order) - before) * p))
        adjusted[place] = worst
    return adjusted


def interval(values: Sequence[float], bounds: Bounds | None = None) -> tuple[float, float, float]:
    """Mean and ends of its 95 % interval, as `mean_test` has them."""
    test = mean_test(values, bounds)
    return test.mean, *test.interval()


def _moments(sample: Sequence[float]) -> tuple[float, float, int]:
    """Mean, square of its standard error (NaN below two values) and size."""
    n = len(sample)
    mean = sum(sample) / n if n else math.nan
    if n < 2:
        return mean, math.nan, n
    return mean, sum((value - mean) ** 2 for value in sample) / (n - 1) / n, n


def _welch(one: tuple[float, float, int], other: tuple[float, float, int]) -> MeanTest:
    (mean, square, n), (its, its_square, m) = one, other
    total = square + its_square
    if math.isnan(total) or min(n, m) < 2:
        return MeanTest(mean - its, math.nan, math.nan)
    if not total:
        return MeanTest(mean - its, 0.0, math.inf)
    freedom = total**2 / (square**2 / (n - 1) + its_square**2 / (m - 1))
    return MeanTest(mean - its, math.sqrt(total), freedom)


def opened(value: float, bounds: Bounds | None) -> float:
    """On a scale without ends; NaN at a bound and beyond."""
    if bounds is None:
        return value
    below, above = value - bounds.low, bounds.high - value
    if not (below > 0 and above > 0):
        return math.nan
    return math.log(below) - (0.0 if math.isinf(above) else math.log(above))


def closed(place: float, bounds: Bounds | None) -> float:
    if bounds is None:
        return place
    if math.isinf(bounds.high):
        return bounds.low + math.exp(min(place, 700.0))  # beyond is no float
    return bounds.low + (bounds.high - bounds.low) * (1 + math.tanh(place / 2)) / 2


def stretch(value: float, bounds: Bounds | None) -> float:
    """How much longer a small step at `value` is on the scale without ends."""
    if bounds is None:
        return 1.0
    return 1 / (value - bounds.low) + 1 / (bounds.high - value)
