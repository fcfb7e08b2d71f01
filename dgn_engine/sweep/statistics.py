"""Tests and intervals for means of replicates, including bounded quantities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.experiments import Outlier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OUTLIER_LEVEL = 0.01  # chance of an outlier among normal replicates
LEAST_FOR_OUTLIER = 5  # with fewer, hardly any outlier could be found
LEAST_FOR_FLIPS = 6  # 2 of the 2⁵ sign patterns are more than 5 %
MOST_SIGNS = 12  # replicates up to which all subsets are enumerated
DRAWN_SUBSETS = 4095  # above it
ROUNDING = 1e-12  # relative standard error below which values are equal


def mean_and_half_width(values: tuple[float, ...]) -> tuple[float, float]:
    """Return the mean and the half-width of its 95 % interval (Student's t).

    NaN without values; the half-width is NaN for a single value.
    """
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
    """Return the ratio of the means of paired samples and Fieller's 95 % interval.

    The interval consists of all θ for which a t test does not distinguish the mean of
    numerator − θ · denominator from 0. It is exact for normal pairs however noisy the denominator
    is, while a mean of ratios would be biased and its t interval miss the ratio.

    Returns:
        Ratio, lower and upper end. The ends are NaN below two pairs, or if the mean denominator
        is not significantly different from 0, when the set is unbounded.

    E. C. Fieller, Some problems in interval estimation, J. R. Statist. Soc. B 16 (1954) 175;
    V. H. Franz, arXiv:0710.2024.
    """
    n = len(numerators)
    if not n or n != len(denominators):
        raise ValueError(f"{n} numerators cannot be paired with {len(denominators)} denominators")
    top, bottom = sum(numerators) / n, sum(denominators) / n
    ratio = top / bottom if bottom else math.nan
    if n < 2:
        return ratio, math.nan, math.nan
    from scipy.stats import t

    def scaled_covariance(
        one: Sequence[float], mean: float, other: Sequence[float], its: float
    ) -> float:
        pairs = zip(one, other, strict=True)
        return sum((a - mean) * (b - its) for a, b in pairs) / (n - 1) / n

    square = float(t.ppf(0.975, n - 1)) ** 2
    # (bottom² − t²·var) θ² − 2 (top·bottom − t²·cov) θ + (top² − t²·var) ≤ 0
    leading = bottom**2 - square * scaled_covariance(denominators, bottom, denominators, bottom)
    if not leading > 0:
        return ratio, math.nan, math.nan
    middle = top * bottom - square * scaled_covariance(numerators, top, denominators, bottom)
    last = top**2 - square * scaled_covariance(numerators, top, numerators, top)
    root = math.sqrt(max(0.0, middle**2 - leading * last))
    return ratio, (middle - root) / leading, (middle + root) / leading


@dataclass(frozen=True)
class Bounds:
    """The bounds of a statistic; `high` may be infinite. A value at a bound has no interval."""

    low: float
    high: float


SHARE = Bounds(0.0, 1.0)
PERCENT = Bounds(0.0, 100.0)
POSITIVE = Bounds(0.0, math.inf)


@dataclass(frozen=True)
class MeanTest:
    """A mean, its standard error and degrees of freedom, on the unbounded scale.

    Attributes:
        place: the mean on the scale of `to_open_scale`.
        error: its standard error there, NaN if unknown.
        freedom: degrees of freedom, possibly infinite.
        bounds: bounds of the original scale.
    """

    place: float
    error: float
    freedom: float
    bounds: Bounds | None = None

    @property
    def mean(self) -> float:
        return from_open_scale(self.place, self.bounds)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the interval at a level (Student's t); NaN if there is none."""
        if math.isnan(self.error):
            return math.nan, math.nan
        from scipy.stats import t

        half = float(t.ppf((1 + level) / 2, self.freedom)) * self.error if self.error else 0.0
        return (
            from_open_scale(self.place - half, self.bounds),
            from_open_scale(self.place + half, self.bounds),
        )

    def p_above(self, threshold: float) -> float:
        """Return the probability of a mean at least this large if the true mean is `threshold`.

        NaN if the standard error is zero or unknown.
        """
        return self._upper_tail(self.place - to_open_scale(threshold, self.bounds))

    def p_below(self, threshold: float) -> float:
        """Return the probability of a mean at most this small if the true mean is `threshold`.

        NaN if the standard error is zero or unknown.
        """
        return self._upper_tail(to_open_scale(threshold, self.bounds) - self.place)

    def _upper_tail(self, distance: float) -> float:
        if not self.error > 0:
            return math.nan
        from scipy.stats import t

        return float(t.sf(distance / self.error, self.freedom))


def mean_test(
    values: Sequence[float], bounds: Bounds | None = None, test_variance: float = 0.0
) -> MeanTest:
    """Test the mean of replicates.

    With `bounds`, the mean of log((v − low)/(high − v)) is tested, or of log(v − low) if there is
    no upper bound, so that the interval stays within the bounds. For a correlation this is twice
    Fisher's z = artanh(r).

    The variance between replicates is estimated with n − 1 degrees of freedom, while
    `test_variance` is known; the sum has (n − 1) · total/between degrees of freedom. Satterthwaite
    (Biometrics Bulletin 2 (1946) 110) squares that ratio; his interval for three replicates covers
    as little as 92 % if the test set contributes a tenth of the variance.

    Args:
        values: one value per replicate.
        bounds: bounds of the values.
        test_variance: variance of the mean due to the finite test set, which replicates share.
    """
    n = len(values)
    transformed = [to_open_scale(value, bounds) for value in values]
    mean = sum(transformed) / n if n else math.nan
    if n < 2:
        return MeanTest(mean, math.nan, math.nan, bounds)
    between = sum((value - mean) ** 2 for value in transformed) / (n - 1) / n
    if math.sqrt(between) <= ROUNDING * max(map(abs, transformed)):
        between = 0.0  # else 0.1 + 0.2 and 0.3 would vary, and decide a claim
    shared = 0.0
    if test_variance:
        shared = test_variance * open_scale_slope(from_open_scale(mean, bounds), bounds) ** 2
    total = between + shared
    freedom = (n - 1) * total / between if between else math.inf
    return MeanTest(mean, math.sqrt(total), freedom, bounds)


def welch_difference(values: Sequence[float], mean: float, spread: float, n: int) -> MeanTest:
    """Compare the mean of a sample with that of another one (Welch's test).

    Args:
        values: the sample.
        mean, spread, n: mean, standard deviation and size of the other sample.

    Returns:
        The difference; its error is NaN below two values or if a standard deviation is unknown.
    """
    return _welch_test(_sample_moments(values), (mean, spread**2 / n, n))


def find_outlier(values: Sequence[float], bounds: Bounds | None = None) -> Outlier | None:
    """Return the outlier among replicates; None if there is none, or if there are fewer than five.

    Each value is predicted from the others, assumed normal (F. E. Grubbs, Technometrics 11 (1969)
    1). The most distant one is an outlier if a value as distant occurs in at most 1 % of samples
    of n normal values. Values of which all others are equal are not judged.

    Args:
        values: one value per replicate.
        bounds: bounds of the values; if given, they are compared as in `mean_test`.
    """
    n = len(values)
    places = [to_open_scale(value, bounds) for value in values]
    if n < LEAST_FOR_OUTLIER or not all(map(math.isfinite, places)):
        return None
    from scipy.stats import t

    middle = sum(places) / n
    which = max(range(n), key=lambda index: abs(places[index] - middle))
    mean, square, _ = _sample_moments(places[:which] + places[which + 1 :])
    spread = math.sqrt(square * (n - 1))
    if spread <= ROUNDING * max(map(abs, places)):
        return None
    distance = abs(places[which] - mean) / spread
    chance = 2 * n * float(t.sf(distance / math.sqrt(1 + 1 / (n - 1)), n - 2))
    return Outlier(which, values[which], distance) if chance <= OUTLIER_LEVEL else None


def sign_flip_interval(
    values: Sequence[float], bounds: Bounds | None = None, test_variance: float = 0.0
) -> tuple[float, float]:
    """Return the 95 % interval of the centre of replicates by flipping signs.

    A centre θ is rejected if flipping the signs of any of the v − θ rarely gives a mean as extreme.
    That is so for all but k of the 2ⁿ − 1 means of non-empty subsets, so that these bound the
    interval: it runs from the k-th smallest to the k-th largest, k = ⌊0.025 · 2ⁿ⌋ (J. A. Hartigan,
    J. Am. Statist. Assoc. 64 (1969) 1303). It is exact for values that are symmetric about θ,
    normal or not. Below six replicates there is none; above twelve, 4,095 subsets are drawn.

    Args:
        values: one value per replicate.
        bounds: bounds of the values; see `mean_test`.
        test_variance: see `mean_test`; its 95 % error is added in quadrature.

    Returns:
        Lower and upper end; NaN if there is no interval.
    """
    places = [to_open_scale(value, bounds) for value in values]
    if len(places) < LEAST_FOR_FLIPS or not all(map(math.isfinite, places)):
        return math.nan, math.nan
    subsets = _subsets_of(len(places))
    means = sorted((subsets @ places / subsets.sum(axis=1)).tolist())
    count = math.floor(0.025 * (len(means) + 1))
    mean = sum(places) / len(places)
    slope = open_scale_slope(from_open_scale(mean, bounds), bounds) if test_variance else 0.0
    shared = 1.959964 * math.sqrt(test_variance) * slope
    return (
        from_open_scale(mean - math.hypot(mean - means[count - 1], shared), bounds),
        from_open_scale(mean + math.hypot(means[-count] - mean, shared), bounds),
    )


@lru_cache(maxsize=8)
def _subsets_of(n: int) -> NDArray[np.float64]:
    """Return non-empty subsets of n items as rows of zeros and ones."""
    import numpy as np

    if n <= MOST_SIGNS:
        numbers = np.arange(1, 2**n)
        return (numbers[:, None] >> np.arange(n) & 1).astype(np.float64)
    drawn = np.random.default_rng(n).integers(0, 2, (DRAWN_SUBSETS, n))
    return drawn[drawn.any(axis=1)].astype(np.float64)


def adjust_holm(chances: Sequence[float]) -> list[float]:
    """Adjust p values for multiple tests (S. Holm, Scand. J. Statist. 6 (1979) 65).

    NaN is kept and does not count as a test.
    """
    order = sorted((p, index) for index, p in enumerate(chances) if not math.isnan(p))
    adjusted, worst = [math.nan] * len(chances), 0.0
    for before, (p, index) in enumerate(order):
        worst = max(worst, min(1.0, (len(order) - before) * p))
        adjusted[index] = worst
    return adjusted


def mean_interval(
    values: Sequence[float], bounds: Bounds | None = None
) -> tuple[float, float, float]:
    """Return the mean and the ends of its 95 % interval (see `mean_test`)."""
    test = mean_test(values, bounds)
    return test.mean, *test.interval()


def _sample_moments(sample: Sequence[float]) -> tuple[float, float, int]:
    """Return mean, squared standard error (NaN below two values) and size of a sample."""
    n = len(sample)
    mean = sum(sample) / n if n else math.nan
    if n < 2:
        return mean, math.nan, n
    return mean, sum((value - mean) ** 2 for value in sample) / (n - 1) / n, n


def _welch_test(one: tuple[float, float, int], other: tuple[float, float, int]) -> MeanTest:
    (mean, square, n), (its, its_square, m) = one, other
    total = square + its_square
    if math.isnan(total) or min(n, m) < 2:
        return MeanTest(mean - its, math.nan, math.nan)
    if not total:
        return MeanTest(mean - its, 0.0, math.inf)
    freedom = total**2 / (square**2 / (n - 1) + its_square**2 / (m - 1))
    return MeanTest(mean - its, math.sqrt(total), freedom)


def to_open_scale(value: float, bounds: Bounds | None) -> float:
    """Map a bounded value to an unbounded scale; NaN at or beyond a bound."""
    if bounds is None:
        return value
    below, above = value - bounds.low, bounds.high - value
    if not (below > 0 and above > 0):
        return math.nan
    return math.log(below) - (0.0 if math.isinf(above) else math.log(above))


def from_open_scale(place: float, bounds: Bounds | None) -> float:
    if bounds is None:
        return place
    if math.isinf(bounds.high):
        return bounds.low + math.exp(min(place, 700.0))  # avoids overflow
    return bounds.low + (bounds.high - bounds.low) * (1 + math.tanh(place / 2)) / 2


def open_scale_slope(value: float, bounds: Bounds | None) -> float:
    """Return the derivative of `to_open_scale` at `value`."""
    if bounds is None:
        return 1.0
    return 1 / (value - bounds.low) + 1 / (bounds.high - value)
