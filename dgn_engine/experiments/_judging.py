"""How a claim is judged: by the interval of its statistic against a threshold, never by eye."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from dgn_engine.experiments._experiment import Request
from dgn_engine.experiments._findings import Claim, Verdict
from dgn_engine.statistics import Bounds, difference, interval

Side = Literal["above", "below"]
LEAST = 3  # values below which nothing that is not exact is called held


def judge(
    request: Request,
    claim: tuple[str, str],
    statistic: str,
    values: Sequence[float],
    side: Side,
    threshold: float,
    remark: str = "",
    bounds: Bounds | None = None,
) -> Claim:
    """The claim that the mean of `values` (one per seed) lies above or below a threshold.

    `bounds`: beyond which such a value cannot lie, and so neither can its interval.

    Held where the whole 95 % interval does and there are three values or more, not held where
    none of it does. On the quick scale it is decided only where the interval excludes the
    threshold and three values or more stand behind it.
    """
    found = interval(values, bounds)
    words = f"{statistic}; {side} {threshold:g}"
    verdict = _verdict(found[1], found[2], side, threshold)
    return _claim(request, claim, words, found, len(values), verdict, remark)


def judge_within(
    request: Request,
    claim: tuple[str, str],
    statistic: str,
    values: Sequence[float],
    tolerance: float,
    remark: str = "",
) -> Claim:
    """The claim that the mean of `values` differs from zero by less than a tolerance.

    Held where the whole 95 % interval lies within it, not held where all of it lies outside.
    """
    return _within(request, claim, statistic, interval(values), len(values), tolerance, remark)


def judge_means(
    request: Request,
    claim: tuple[str, str],
    statistic: str,
    one: Sequence[float],
    other: Sequence[float],
    side: Side,
    threshold: float,
    remark: str = "",
) -> Claim:
    """Like `judge`, of the difference of the means of two independent samples (Welch's interval);
    n is the size of the smaller one."""
    found, n = difference(one, other), min(len(one), len(other))
    words = f"{statistic}; {side} {threshold:g}"
    verdict = _verdict(found[1], found[2], side, threshold)
    return _claim(request, claim, words, found, n, verdict, remark)


def judge_means_within(
    request: Request,
    claim: tuple[str, str],
    statistic: str,
    one: Sequence[float],
    other: Sequence[float],
    tolerance: float,
    remark: str = "",
) -> Claim:
    """Likewise `judge_within`."""
    found, n = difference(one, other), min(len(one), len(other))
    return _within(request, claim, statistic, found, n, tolerance, remark)


def unmeasured(request: Request, claim: tuple[str, str], statistic: str, remark: str) -> Claim:
    """A line for a claim about what was not trained; `remark` says what would decide it."""
    return _claim(request, claim, statistic, (math.nan,) * 3, 0, "not decided", remark)


def judge_exact(
    claim: tuple[str, str], statistic: str, error: float, tolerance: float, n: int
) -> Claim:
    """A claim that holds exactly: its largest error against rounding."""
    verdict: Verdict = "held" if error <= tolerance else "not held"
    if math.isnan(error) or n < 1:
        verdict = "not decided"
    words = f"{statistic}; at most {tolerance:g} (exact)"
    return Claim(claim[0], claim[1], words, error, error, error, n, verdict, exact=True)


def _claim(
    request: Request,
    claim: tuple[str, str],
    words: str,
    found: tuple[float, ...],
    n: int,
    verdict: Verdict,
    remark: str,
) -> Claim:
    """With the verdict as far as so many values and this scale allow one."""
    mean, low, high = found
    if n < LEAST:
        verdict = "not decided"
    if verdict == "not decided" and request.quick:
        verdict = "not decided at this scale"
    return Claim(claim[0], claim[1], words, mean, low, high, n, verdict, remark)


def _within(
    request: Request,
    claim: tuple[str, str],
    statistic: str,
    found: tuple[float, float, float],
    n: int,
    tolerance: float,
    remark: str,
) -> Claim:
    _, low, high = found
    verdict: Verdict = "not decided"
    if -tolerance < low and high < tolerance:
        verdict = "held"
    elif low > tolerance or high < -tolerance:
        verdict = "not held"
    words = f"{statistic}; within ±{tolerance:g}"
    return _claim(request, claim, words, found, n, verdict, remark)


def _verdict(low: float, high: float, side: Side, threshold: float) -> Verdict:
    if math.isnan(low) or math.isnan(high):
        return "not decided"
    if side == "below":
        low, high, threshold = -high, -low, -threshold
    if low > threshold:
        return "held"
    if high < threshold:
        return "not held"
    return "not decided"
