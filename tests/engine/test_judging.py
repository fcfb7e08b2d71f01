"""Verdicts: what the interval says, and what it may not say with too few seeds or too small."""

from __future__ import annotations

import math

import pytest

from dgn_engine.experiments import Request
from dgn_engine.experiments._findings import mean_and_half_width
from dgn_engine.experiments._judging import judge, judge_exact, judge_within

CLAIM = ("npf-1", "FR below DL and ReLU")
FULL, QUICK = Request(scale="full"), Request(scale="quick")
CLEAR, UNCLEAR = (1.0, 1.1, 0.9), (1.0, -1.0, 0.5)


def test_the_half_width_is_that_of_students_t() -> None:
    mean, half = mean_and_half_width((1.0, 2.0, 3.0))
    assert mean == 2.0
    assert half == pytest.approx(4.302652729911275 / math.sqrt(3))  # t(0.975, 2 degrees), s = 1


def test_one_value_has_no_interval() -> None:
    assert math.isnan(mean_and_half_width((1.0,))[1])
    assert math.isnan(mean_and_half_width(())[0])


@pytest.mark.parametrize(
    ("values", "side", "threshold", "verdict"),
    [
        (CLEAR, "above", 0.0, "held"),
        (CLEAR, "below", 0.0, "not held"),
        (CLEAR, "below", 2.0, "held"),
        (UNCLEAR, "above", 0.0, "not decided"),
        ((2.0, 2.0, 2.0), "above", 2.0, "not decided"),
        ((1.0, math.nan, 1.1), "above", 0.0, "not decided"),
    ],
)
def test_the_whole_interval_decides(
    values: tuple[float, ...], side: str, threshold: float, verdict: str
) -> None:
    assert judge(FULL, CLAIM, "difference", values, side, threshold).verdict == verdict  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [(), (9.0,), (9.0, 9.1)])
@pytest.mark.parametrize("request_", [FULL, QUICK])
def test_fewer_than_three_values_decide_nothing(
    values: tuple[float, ...], request_: Request
) -> None:
    for claim in (
        judge(request_, CLAIM, "difference", values, "above", 0.0),
        judge(request_, CLAIM, "difference", values, "below", 0.0),
        judge_within(request_, CLAIM, "difference", values, 100.0),
    ):
        assert claim.verdict.startswith("not decided")


def test_quick_is_undecided_at_its_scale_unless_the_interval_excludes_the_threshold() -> None:
    assert judge(QUICK, CLAIM, "d", CLEAR, "above", 0.0).verdict == "held"
    assert judge(QUICK, CLAIM, "d", CLEAR, "below", 0.0).verdict == "not held"
    assert judge(QUICK, CLAIM, "d", UNCLEAR, "above", 0.0).verdict == "not decided at this scale"
    assert judge(QUICK, CLAIM, "d", (1.0,), "above", 0.0).verdict == "not decided at this scale"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [(CLEAR, "held"), ((7.0, 7.1, 6.9), "not held"), ((2.9, 3.1, 3.0), "not decided")],
)
def test_within_a_tolerance_needs_the_whole_interval(
    values: tuple[float, ...], verdict: str
) -> None:
    assert judge_within(FULL, CLAIM, "difference", values, 3.0).verdict == verdict


@pytest.mark.parametrize(
    ("error", "n", "verdict"),
    [
        (1e-12, 1, "held"),
        (1e-3, 5, "not held"),
        (math.nan, 5, "not decided"),
        (0.0, 0, "not decided"),
    ],
)
def test_an_exact_claim_needs_no_seeds_but_a_number(error: float, n: int, verdict: str) -> None:
    claim = judge_exact(CLAIM, "largest error", error, 1e-9, n)
    assert claim.verdict == verdict
    assert claim.exact
