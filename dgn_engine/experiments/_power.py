"""How often a claim would be held if the paper were exactly right.

The power of a test of the mean of n replicates, each normal around what the paper expects, by
integration over the sample's variance. It is that of one planned experiment: two-sided at 5 %,
as the verdicts are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

from dgn_engine.sweep.statistics import Bounds, opened, stretch

Region = tuple[float, float]  # where a claim wants the mean; an end may be infinite
GOAL = 0.8
MOST = 200  # replicates that anybody would train
_PARTS = 200  # of the distribution of the sample's variance


@dataclass(frozen=True)
class Design:
    """What is expected of a statistic before any run.

    `expected`: its value if the paper is exactly right; `spread`: standard deviation of one
    replicate; `source`: where the spread is from; `test_variance`: see `Sample`.
    """

    expected: float
    spread: float
    source: str
    test_variance: float = 0.0


def power(design: Design, n: int, region: Region, bounds: Bounds | None = None) -> float:
    """Return the chance (0…1) that the 95 % interval of n replicates lies within the region.

    0 below three replicates, which decide nothing.
    """
    if n < 3:
        return 0.0
    if bounds is not None:
        design, region = _on_open_scale(design, region, bounds)
    return _power(design, n, region)


def enough(design: Design, region: Region, bounds: Bounds | None = None) -> int:
    """Return the least n with a power of 80 %; 0 where 200 replicates are too few."""
    if power(design, MOST, region, bounds) < GOAL:
        return 0
    low, high = 2, MOST  # the power grows with n
    while high - low > 1:
        middle = (low + high) // 2
        if power(design, middle, region, bounds) < GOAL:
            low = middle
        else:
            high = middle
    return high


@cache
def _power(design: Design, n: int, region: Region) -> float:
    import numpy as np
    from scipy.stats import chi2, norm, t

    parts = (np.arange(_PARTS) + 0.5) / _PARTS
    between = design.spread**2 * chi2.ppf(parts, n - 1) / (n - 1) / n  # of the sample
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
    longer = stretch(design.expected, bounds)
    low, high = (end if math.isinf(end) else opened(end, bounds) for end in region)
    return replace(
        design,
        expected=opened(design.expected, bounds),
        spread=design.spread * longer,
        test_variance=design.test_variance * longer**2,
    ), (low, high)
