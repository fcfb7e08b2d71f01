"""Judge the claims of a paper by the 95 % interval of a statistic.

A claim is held if the whole interval lies in the claimed region, not held if it lies outside, and
otherwise not decided. It is also not decided with fewer than three replicates or without variance,
and with an outlier among the replicates if the interval by flipping signs, which does not assume
that they are normal, exists and does not decide the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dgn_engine.experiments._experiment import Request
from dgn_engine.experiments._power import Design, Region, claim_power, replicates_needed
from dgn_engine.experiments._published import claim_ids, published_claim
from dgn_engine.protocol.experiments import Claim, Outlier, Verdict
from dgn_engine.sweep.statistics import (
    LEAST_FOR_FLIPS,
    Bounds,
    MeanTest,
    adjust_holm,
    find_outlier,
    mean_test,
    sign_flip_interval,
)

LEAST = 3  # minimum number of replicates to decide a claim that is not exact


@dataclass(frozen=True)
class Sample:
    """A statistic with one value per independent replicate.

    Models that share gates, weights or data of a seed are one replicate, whose value is their mean.

    Attributes:
        values: one value per replicate.
        of: what the replicates are, such as 'seeds'.
        test_variance: variance of the mean due to the finite test set that all of them share.
    """

    values: tuple[float, ...]
    of: str = "seeds"
    test_variance: float = 0.0


Values = Sequence[float] | Sample  # one number per replicate


@dataclass(frozen=True)
class ClaimTest:
    """The test of a statistic against a condition.

    Attributes:
        condition: the condition in words.
        found: the mean and its error.
        n: number of replicates.
        verdict: the result.
        of: what the replicates are.
        region: the claimed region of the mean.
        p: see `Claim`.
        exact: whether the claim is exact, up to rounding.
        flipped: interval by flipping signs; NaN if there is none.
        outlier: the outlier among the replicates.
    """

    condition: str
    found: MeanTest
    n: int
    verdict: Verdict
    of: str = "seeds"
    region: Region = (-math.inf, math.inf)
    p: float = math.nan
    exact: bool = False
    flipped: tuple[float, float] = (math.nan, math.nan)
    outlier: Outlier | None = None


UNMEASURED = ClaimTest("", MeanTest(math.nan, math.nan, math.nan), 0, "not decided")


def judge(
    claim: str | tuple[str, str],
    statistic: str,
    test: ClaimTest,
    remark: str = "",
    design: Design | None = None,
) -> Claim:
    """Return the claim with its verdict.

    Args:
        claim: the id of a claim in published.json, or another id and its statement.
        statistic: what was measured, in words.
        test: result of `above`, `below`, `within` or `at_most`, or `UNMEASURED`.
        remark: a sentence for the reader, for instance how to decide an unmeasured claim.
        design: expected value and spread if the paper is exactly right, for the power.

    Raises:
        ValueError: an id of published.json is given with another statement.
    """
    claim_id, statement = published_claim(claim) if isinstance(claim, str) else claim
    if claim_id in claim_ids() and (claim_id, statement) != published_claim(claim_id):
        raise ValueError(f"'{claim_id}' is the claim '{published_claim(claim_id)[1]}'")
    mean = test.found
    judged = Claim(
        claim_id,
        statement,
        statistic + test.condition,
        mean.mean,
        *mean.interval(),
        test.n,
        test.verdict,
        remark,
        test.exact,
        test.of,
        test.p,
        flip_low=test.flipped[0],
        flip_high=test.flipped[1],
        outlier=test.outlier,
    )
    if design is None or test.exact:
        return judged
    return replace(
        judged,
        power=claim_power(design, test.n, test.region, mean.bounds) if test.n else math.nan,
        enough=replicates_needed(design, test.region, mean.bounds),
        power_from=design.source,
    )


def above(values: Values, threshold: float = 0.0, bounds: Bounds | None = None) -> ClaimTest:
    """Test that the mean of `values` lies above a threshold.

    Args:
        values: one value per replicate.
        threshold: the threshold.
        bounds: bounds of the values, which the interval then respects.
    """
    region = (threshold, math.inf)
    return _interval_test(f"; above {threshold:g}", values, region, bounds)


def below(values: Values, threshold: float = 0.0, bounds: Bounds | None = None) -> ClaimTest:
    """Test that the mean of `values` lies below a threshold; see `above`."""
    region = (-math.inf, threshold)
    return _interval_test(f"; below {threshold:g}", values, region, bounds)


def within(
    values: Values,
    tolerance: float,
    around: float = 0.0,
    bounds: Bounds | None = None,
) -> ClaimTest:
    """Test that the mean of `values` differs from `around` by less than a tolerance.

    This is an equivalence test by two one-sided tests (D. J. Schuirmann, J. Pharmacokinet.
    Biopharm. 15 (1987) 657).
    """
    region = (around - tolerance, around + tolerance)
    condition = f"; within ±{tolerance:g}" + (f" of {around:g}" if around else "")
    return _interval_test(condition, values, region, bounds)


def at_most(error: float, tolerance: float, n: int, of: str = "cases") -> ClaimTest:
    """Test an exact claim: compare the largest error of `n` cases with the rounding error."""
    verdict: Verdict = "held" if error <= tolerance else "not held"
    if math.isnan(error) or n < 1:
        verdict = "not decided"
    condition = f"; at most {tolerance:g} (exact)"
    return ClaimTest(condition, MeanTest(error, 0.0, math.inf), n, verdict, of, exact=True)


def at_scale(request: Request, claim: Claim) -> Claim:
    """Adapt a claim to the request.

    An outlier gets the number of its seed. At quick scale, the power is removed, as it refers to
    the paper's own design.
    """
    if claim.outlier is not None and claim.of == "seeds":
        seed = claim.outlier.number + request.seed_start
        claim = replace(claim, outlier=replace(claim.outlier, number=seed))
    if request.quick and not claim.exact:
        return replace(claim, power=math.nan, enough=0, power_from="")
    return claim


def with_holm(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the claims of a report with p values adjusted by Holm's method."""
    adjusted = adjust_holm([claim.p for claim in claims])
    return tuple(replace(claim, p_holm=p) for claim, p in zip(claims, adjusted, strict=True))


def _interval_test(
    condition: str, values: Values, region: Region, bounds: Bounds | None
) -> ClaimTest:
    sample = values if isinstance(values, Sample) else Sample(tuple(values))
    mean = mean_test(sample.values, bounds, sample.test_variance)
    n, of = len(sample.values), sample.of
    flipped = sign_flip_interval(sample.values, bounds, sample.test_variance)
    outlier = find_outlier(sample.values, bounds)
    verdict: Verdict = "not decided"
    if n >= LEAST and mean.error > 0:
        verdict = decide(region, mean.interval(), flipped, n, outlier)
    p = _smaller_p(mean, region)
    return ClaimTest(condition, mean, n, verdict, of, region, p, flipped=flipped, outlier=outlier)


def decide(
    region: Region,
    interval: tuple[float, float],
    flipped: tuple[float, float],
    n: int,
    outlier: Outlier | None,
) -> Verdict:
    """Return the verdict of an interval, which with an outlier the sign-flip interval must share.

    Below six replicates there is no sign-flip interval, so that it cannot object.
    """
    verdict = _decide(region, interval)
    if outlier is not None and n >= LEAST_FOR_FLIPS and _decide(region, flipped) != verdict:
        return "not decided"
    return verdict


def _decide(region: Region, interval: tuple[float, float]) -> Verdict:
    low, high = interval
    if region[0] < low and high < region[1]:
        return "held"
    return "not held" if high < region[0] or region[1] < low else "not decided"


def _smaller_p(found: MeanTest, region: Region) -> float:
    """Return the smaller of the p values for 'held' and 'not held'."""
    over = [found.p_above(end) for end in region if math.isfinite(end)]
    under = [found.p_below(end) for end in region if math.isfinite(end)]
    if any(math.isnan(p) for p in (*over, *under)):
        return math.nan
    if len(over) == 2:
        return min(max(over[0], under[1]), under[0], over[1])
    return min(*over, *under)
