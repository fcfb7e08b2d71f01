"""Judges a claim of a paper by the 95 % interval of its statistic, never by eye.

A claim is held where the whole interval lies where the claim wants it, not held where none of it
does, and not decided in between or with fewer than three values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dgn_engine.experiments._experiment import Request
from dgn_engine.experiments._published import published_claim
from dgn_engine.protocol.results import Claim, Verdict
from dgn_engine.statistics import Bounds, difference, interval

LEAST = 3  # values below which nothing that is not exact is decided


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` values and the ends of its 95 % interval; NaN where there is none."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class ClaimTest:
    """A statistic held against a condition, which `condition` says in words."""

    condition: str
    estimate: Estimate
    verdict: Verdict
    exact: bool = False


UNMEASURED = ClaimTest("", Estimate(math.nan, math.nan, math.nan, 0), "not decided")


def judge(claim: str | tuple[str, str], statistic: str, test: ClaimTest, remark: str = "") -> Claim:
    """Return the claim with its verdict.

    Args:
        claim: the id of a claim of the papers, or the id and the statement of another one.
        statistic: what was measured, in words.
        test: `above`, `below`, `within`, `at_most`, or `UNMEASURED` for what was not trained.
        remark: a sentence for the reader, for instance how an unmeasured claim can be decided.
    """
    claim_id, statement = published_claim(claim) if isinstance(claim, str) else claim
    found = test.estimate
    return Claim(
        claim_id, statement, statistic + test.condition, found.mean, found.low, found.high, found.n,
        test.verdict, remark, test.exact,
    )  # fmt: skip


def above(
    values: Sequence[float] | Estimate, threshold: float = 0.0, bounds: Bounds | None = None
) -> ClaimTest:
    """Test that the mean of `values` (one per seed) lies above a threshold.

    `bounds`: beyond which such a value cannot lie, and so neither can its interval.
    """
    return _compare(values, "above", threshold, bounds)


def below(
    values: Sequence[float] | Estimate, threshold: float = 0.0, bounds: Bounds | None = None
) -> ClaimTest:
    """Test that the mean of `values` lies below a threshold; see `above`."""
    return _compare(values, "below", threshold, bounds)


def within(values: Sequence[float] | Estimate, tolerance: float) -> ClaimTest:
    """Test that the mean of `values` differs from zero by less than a tolerance."""
    found = _estimate(values)
    held = -tolerance < found.low and found.high < tolerance
    missed = found.low > tolerance or found.high < -tolerance
    return _interval_test(f"; within ±{tolerance:g}", found, held, missed)


def at_most(error: float, tolerance: float, n: int) -> ClaimTest:
    """Test a claim that holds exactly: the largest error of `n` cases against rounding."""
    verdict: Verdict = "held" if error <= tolerance else "not held"
    if math.isnan(error) or n < 1:
        verdict = "not decided"
    words = f"; at most {tolerance:g} (exact)"
    return ClaimTest(words, Estimate(error, error, error, n), verdict, exact=True)


def means(one: Sequence[float], other: Sequence[float]) -> Estimate:
    """Return the difference of the means of two independent samples, with Welch's interval.

    `n` is the size of the smaller sample.
    """
    return Estimate(*difference(one, other), min(len(one), len(other)))


def at_scale(request: Request, claim: Claim) -> Claim:
    """Return the claim, where it is open on the quick scale, as not decided at this scale."""
    if request.quick and not claim.exact and claim.verdict == "not decided":
        return replace(claim, verdict="not decided at this scale")
    return claim


def _estimate(values: Sequence[float] | Estimate, bounds: Bounds | None = None) -> Estimate:
    if isinstance(values, Estimate):
        return values
    return Estimate(*interval(values, bounds), len(values))


def _compare(
    values: Sequence[float] | Estimate,
    side: Literal["above", "below"],
    threshold: float,
    bounds: Bounds | None,
) -> ClaimTest:
    found = _estimate(values, bounds)
    held, missed = found.low > threshold, found.high < threshold
    if side == "below":
        held, missed = found.high < threshold, found.low > threshold
    return _interval_test(f"; {side} {threshold:g}", found, held, missed)


def _interval_test(condition: str, found: Estimate, held: bool, missed: bool) -> ClaimTest:
    verdict: Verdict = "held" if held else "not held" if missed else "not decided"
    if found.n < LEAST or math.isnan(found.low) or math.isnan(found.high):
        verdict = "not decided"
    return ClaimTest(condition, found, verdict)
