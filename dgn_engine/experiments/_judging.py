"""How a claim is judged: by the interval of its statistic against a threshold, never by eye."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from dgn_engine.experiments._experiment import Request
from dgn_engine.experiments._findings import Claim, Verdict
from dgn_engine.intervals import Bounds, interval

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
    mean, low, high = interval(values, bounds)
    verdict = _verdict(low, high, side, threshold)
    if len(values) < LEAST:
        verdict = "not decided"
    if verdict == "not decided" and request.quick:
        verdict = "not decided at this scale"
    bound = f"{statistic}; {side} {threshold:g}"
    return Claim(claim[0], claim[1], bound, mean, low, high, len(values), verdict, remark)


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
    mean, low, high = interval(values)
    verdict: Verdict = "not decided"
    if len(values) >= LEAST:
        if -tolerance < low and high < tolerance:
            verdict = "held"
        elif low > tolerance or high < -tolerance:
            verdict = "not held"
    if verdict == "not decided" and request.quick:
        verdict = "not decided at this scale"
    words = f"{statistic}; within ±{tolerance:g}"
    return Claim(claim[0], claim[1], words, mean, low, high, len(values), verdict, remark)


def judge_exact(
    claim: tuple[str, str], statistic: str, error: float, tolerance: float, n: int
) -> Claim:
    """A claim that holds exactly: its largest error against rounding."""
    verdict: Verdict = "held" if error <= tolerance else "not held"
    if math.isnan(error) or n < 1:
        verdict = "not decided"
    words = f"{statistic}; at most {tolerance:g} (exact)"
    return Claim(claim[0], claim[1], words, error, error, error, n, verdict, exact=True)


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
