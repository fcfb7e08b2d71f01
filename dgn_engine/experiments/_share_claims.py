"""Judge which share of the gap between frozen random gates and ReLU a network recovers.

    share = (A − FR)/(ReLU − FR), in percent, with the mean of FR-II and FR-DI as FR.

Without frozen gates FR is 0, and the share that of ReLU's accuracy, A/ReLU.

A difference of accuracies such as ReLU − FL is often smaller than what 10,000 test images can
resolve, while the gap is not. The interval is Fieller's: all θ for which a t test does not
distinguish A − θ·ReLU − (1 − θ)·FR from 0. That is a contrast of accuracies, so that the finite
test set counts as in all others, and a threshold of the share is tested by one contrast.
The sign-flip interval consists of all θ for which that of the contrast contains 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dgn_engine.experiments._accuracy_designs import of_printed
from dgn_engine.experiments._claims import LEAST, ClaimTest, Sample, decide, judge
from dgn_engine.experiments._grid import Term, TrainedCell, contrast
from dgn_engine.experiments._power import Design, Region
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.experiments import Claim, Printed, Verdict
from dgn_engine.sweep.statistics import (
    LEAST_FOR_FLIPS,
    MeanTest,
    find_outlier,
    mean_test,
    sign_flip_interval,
)

MOST_OF_GAP = 50.0  # percent: more than this is most of the gap
AROUND = 25.0  # percent of the gap that counts as no difference from a printed share
CLEARLY_MOST = 200 / 3  # percent: a printed share that is most of the gap by a margin
_ROUNDING = 1e-9  # a standard error of less (in percent) is none
_FARTHEST = 100.0  # ends beyond this share (as a fraction) count as unbounded

SampleAt = Callable[[float], Sample]
IntervalOf = Callable[[Sample], tuple[float, float]]


@dataclass(frozen=True)
class ShareTest(MeanTest):
    """A share in percent with the ends of its 95 % interval; NaN if the gap may be 0."""

    low: float = math.nan
    high: float = math.nan

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        assert level == 0.95
        return self.low, self.high


@dataclass(frozen=True)
class SharedGap:
    """The terms of a share: each is a mean, whose coefficients sum to 1.

    Attributes:
        recovered: the network that recovers a share of the gap.
        relu: the upper end of the gap.
        frozen: its lower end; empty for 0.
    """

    recovered: Sequence[Term]
    relu: Sequence[Term]
    frozen: Sequence[Term]


@dataclass(frozen=True)
class PrintedGap:
    """The printed accuracies of a share; see `SharedGap`."""

    recovered: Printed
    relu: Printed
    frozen: tuple[Printed, ...]

    @property
    def size(self) -> float:
        return self.relu.value - sum(cell.value for cell in self.frozen) / len(self.frozen)

    @property
    def share(self) -> float:
        """The printed share in percent."""
        return 100 * (1 - (self.relu.value - self.recovered.value) / self.size)

    def design(self, threshold: float) -> Design:
        """Return the design of the share; its power for a threshold (percent) is that of the
        contrast which tests it."""
        at = threshold / 100
        of_frozen = ((at - 1) / len(self.frozen), at)
        tested = of_printed(
            (1.0, self.recovered), (-at, self.relu), *((of_frozen[0], f) for f in self.frozen)
        )
        points = 100 / self.size
        return Design(
            self.share, points * tested.spread, tested.source, points**2 * tested.test_variance
        )


def shared_gap(recovered: TrainedCell, relu: TrainedCell, *frozen: TrainedCell) -> SharedGap:
    parts = [(1 / len(frozen), cell) for cell in frozen]
    return SharedGap(((1.0, recovered),), ((1.0, relu),), parts)


def region_of(printed_share: float) -> Region:
    """Return the claimed region for a printed share, in percent.

    Most of the gap, if the printed share is clearly that; otherwise the neighbourhood of the
    printed share, which contains neither 0 nor 100.
    """
    if printed_share >= CLEARLY_MOST:
        return MOST_OF_GAP, math.inf
    return round(printed_share, 1) - AROUND, round(printed_share, 1) + AROUND


def judge_share(
    claim: str,
    statistic: str,
    gap: SharedGap,
    region: Region,
    printed: PrintedGap | None,
    remark: str = "",
) -> Claim:
    """Judge that a share lies in a region (percent), and state its interval on this test set.

    Args:
        claim: id of the claim.
        statistic: what was measured, in words.
        gap: the networks.
        region: the claimed region; its upper end may be infinite.
        printed: the printed accuracies, for the power; None if there are none.
        remark: what else a reader should know.
    """
    test = share_test(gap, region)
    given = share_interval(gap, fixed_test_set=True)
    examples = min(cell.test_examples for _, cell in gap.recovered)
    images = f"these {examples:,} test images" if examples else "these test images"
    if math.isfinite(given.low):
        remark = f"on {images} (seeds only): {given.low:.1f} to {given.high:.1f}; {remark}"
    design = None
    if printed is not None:
        ends = [end for end in region if math.isfinite(end)]
        design = printed.design(min(ends, key=lambda end: abs(end - printed.share)))
    return judge(claim, f"{statistic} in %", test, remark.removesuffix("; "), design)


def share_test(gap: SharedGap, region: Region) -> ClaimTest:
    """Test that a share lies in a region, in percent.

    Each end is tested by its contrast; both must hold (two one-sided tests). An outlier is found
    among share + contrast/gap of the seeds, with the mean gap, so that their mean is the share.
    """
    sample_at = _contrasts(gap)
    found, n = _invert(sample_at), len(sample_at(0.0).values)
    low, high = region
    condition = f"; above {low:g}"
    if math.isfinite(high):
        condition = f"; within ±{(high - low) / 2:g} of {(high + low) / 2:g}"
    verdict: Verdict = "not decided"
    flipped, outlier, p = (math.nan, math.nan), None, math.nan
    if math.isfinite(found.low):
        points = sample_at(found.mean / 100).values
        outlier = find_outlier([found.mean + 100 * v / _mean_gap(sample_at) for v in points])
        if n >= LEAST_FOR_FLIPS:
            flipped = _find_ends(sample_at, found.mean / 100, _flip_signs)
        tests = [_test_mean(sample_at(end / 100)) for end in region if math.isfinite(end)]
        over = [tests[0].p_above(0.0), *(test.p_below(0.0) for test in tests[1:])]
        under = [tests[0].p_below(0.0), *(test.p_above(0.0) for test in tests[1:])]
        p = min(max(over), *under)
    if n >= LEAST and found.error > _ROUNDING:
        verdict = decide(region, found.interval(), flipped, n, outlier)
    return ClaimTest(
        condition, found, n, verdict, "seeds", region, p, flipped=flipped, outlier=outlier
    )


def share_interval(gap: SharedGap, fixed_test_set: bool = False) -> ShareTest:
    """Return the share and Fieller's 95 % interval, in percent.

    Args:
        gap: the networks.
        fixed_test_set: whether the interval refers to the given test examples, and not to others
            of their kind.
    """
    return _invert(_contrasts(gap, fixed_test_set))


def _contrasts(gap: SharedGap, fixed_test_set: bool = False) -> SampleAt:
    """Return A − θ·ReLU − (1 − θ)·FR as a function of θ, one value per seed.

    The variance due to the test set is a quadratic function of θ, given by three of its values.
    (Without recorded answers it is a bound for θ from 0 to 1.)
    """

    def read_at(share: float) -> tuple[tuple[float, ...], float]:
        terms = [
            *gap.recovered,
            *((-share * c, cell) for c, cell in gap.relu if share),
            *((-(1 - share) * c, cell) for c, cell in gap.frozen if share != 1),
        ]
        sample = contrast(*terms)
        return sample.values, sample.test_variance

    (gained, at_0), (_, at_half), (lost, at_1) = map(read_at, (0.0, 0.5, 1.0))

    def sample_at(share: float) -> Sample:
        values = tuple(a + share * (b - a) for a, b in zip(gained, lost, strict=True))
        bent = 2 * (at_0 + at_1 - 2 * at_half)
        variance = at_0 + share * (at_1 - at_0 - bent) + share**2 * bent
        return Sample(values, test_variance=0.0 if fixed_test_set else max(variance, 0.0))

    return sample_at


def _test_mean(sample: Sample) -> MeanTest:
    return mean_test(sample.values, test_variance=sample.test_variance)


def _flip_signs(sample: Sample) -> tuple[float, float]:
    return sign_flip_interval(sample.values, test_variance=sample.test_variance)


def _mean_gap(sample_at: SampleAt) -> float:
    """Return ReLU − FR, the mean over seeds."""
    return _test_mean(sample_at(0.0)).mean - _test_mean(sample_at(1.0)).mean


def _invert(sample_at: SampleAt) -> ShareTest:
    """Return the share and all shares that are not rejected by t tests."""
    gained, gap = _test_mean(sample_at(0.0)).mean, _mean_gap(sample_at)
    ratio = gained / gap if gap else math.nan
    if not gap > 0:
        return ShareTest(100 * ratio, math.nan, math.nan)
    at = _test_mean(sample_at(ratio))
    ends = _find_ends(sample_at, ratio, lambda sample: _test_mean(sample).interval())
    return ShareTest(100 * ratio, 100 * at.error / gap, at.freedom, None, *ends)


def _find_ends(sample_at: SampleAt, ratio: float, interval_of: IntervalOf) -> tuple[float, float]:
    """Return the ends of the shares, in percent, for which the interval of the contrast contains 0.

    NaN if one of them is infinite.
    """
    low, high = (100 * _find_end(sample_at, ratio, interval_of, side) for side in (-1, 1))
    return (math.nan, math.nan) if math.isnan(low + high) else (low, high)


def _find_end(sample_at: SampleAt, ratio: float, interval_of: IntervalOf, side: int) -> float:
    """Return the end of the interval below (−1) or above (1) the ratio; NaN if it is unbounded."""

    def is_rejected(distance: float) -> bool:
        low, high = interval_of(sample_at(ratio + side * distance))
        return low > 0 if side < 0 else high < 0

    inner, outer = 0.0, 0.01
    while not is_rejected(outer):
        inner, outer = outer, 2 * outer
        if outer > _FARTHEST:
            return math.nan
    for _ in range(30):
        middle = (inner + outer) / 2
        inner, outer = (inner, middle) if is_rejected(middle) else (middle, outer)
    return ratio + side * outer
