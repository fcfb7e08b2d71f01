"""Statistical power: how often a claim would be held if the paper were exactly right.

Replicates are assumed normal around the paper's value; the power of the two-sided test at 5 % is
computed by integration over the sample variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

from dgn_engine.sweep.statistics import Bounds, open_scale_slope, to_open_scale

Region = tuple[float, float]  # claimed region of the mean; ends may be infinite
GOAL = 0.8
MOST = 200  # replicates considered at most
_PARTS = 200  # points of the integration over the sample variance


@dataclass(frozen=True)
class Design:
    """The expected distribution of a statistic, fixed before any run.

    Attributes:
        expected: its value if the paper is exactly right.
        spread: standard deviation of one replicate.
        source: source of the spread.
        test_variance: see `Sample`.
    """

    expected: float
    spread: float
    source: str
    test_variance: float = 0.0


def claim_power(design: Design, n: int, region: Region, bounds: Bounds | None = None) -> float:
    """Return the probability that the 95 % interval of n replicates lies within the region.

    It is 0 below three replicates, which decide nothing.
    """
    if n < 3:
        return 0.0
    if bounds is not None:
        design, region = _on_open_scale(design, region, bounds)
    return _integrate_power(design, n, region)


def replicates_needed(design: Design, region: Region, bounds: Bounds | None = None) -> int:
    """Return the smallest n with a power of 80 %; 0 if 200 replicates are not enough."""
    if claim_power(design, MOST, region, bounds) < GOAL:
        return 0
    low, high = 2, MOST  # bisection: the power grows with n
    while high - low > 1:
        middle = (low + high) // 2
        if claim_power(design, middle, region, bounds) < GOAL:
            low = middle
        else:
            high = middle
    return high


@cache
def _integrate_power(design: Design, n: int, region: Region) -> float:
    import numpy as np
    from scipy.stats import chi2, norm, t

    parts = (np.arange(_PARTS) + 0.5) / _PARTS
    between = design.spread**2 * chi2.ppf(parts, n - 1) / (n - 1) / n  # sample variance of the mean
    total = between + design.test_variance
    freedom = (n - 1) * total / np.maximum(between, 1e-300)
    half = t.ppf(0.975, freedom) * np.sqrt(total)
    true = math.sqrt(design.spread**2 / n + design.test_variance)
    low, high = (end - design.expected for end in region)
    if not true:
        return float(low < 0 < high)
    inside = norm.cdf((high - half) / true) - norm.cdf((low + half) / true)
    return float(np.clip(inside, 0.0, 1.0).mean())


def _on_open_scale(design: Design, region: Region, bounds: Bounds) -> tuple[Design, Region]:
    longer = open_scale_slope(design.expected, bounds)
    low, high = (end if math.isinf(end) else to_open_scale(end, bounds) for end in region)
    return replace(
        design,
        expected=to_open_scale(design.expected, bounds),
        spread=design.spread * longer,
        test_variance=design.test_variance * longer**2,
    ), (low, high)
