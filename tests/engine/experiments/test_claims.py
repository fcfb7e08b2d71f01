"""Verdicts: what the interval says, and what it may not say with too few seeds or too small."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import ttest_1samp, ttest_ind

from dgn_engine.experiments import Request
from dgn_engine.experiments._claims import (
    UNMEASURED,
    ClaimTest,
    Sample,
    above,
    at_most,
    at_scale,
    below,
    judge,
    with_holm,
    within,
)
from dgn_engine.experiments.report.formatting import LEVEL, after_holm, format_verdict
from dgn_engine.experiments.report.write_report import report_row
from dgn_engine.protocol.experiments import PRINTED_RUNS, Claim, Printed, Row
from dgn_engine.sweep.statistics import (
    PERCENT,
    POSITIVE,
    SHARE,
    Bounds,
    adjust_holm,
    find_outlier,
    mean_and_half_width,
    mean_interval,
    mean_test,
    sign_flip_interval,
    welch_difference,
)

CLAIM = ("npf-1", "FR below DL and ReLU")
FULL, QUICK = Request(scale="full"), Request(scale="quick")
CLEAR, UNCLEAR = (1.0, 1.1, 0.9), (1.0, -1.0, 0.5)
FEW = (9.0, 9.1)
DRAWS = 600


def judged(test: ClaimTest, request: Request = FULL) -> Claim:
    """As a report has it."""
    return at_scale(request, judge(CLAIM, "difference", test))


def test_the_half_width_is_that_of_students_t() -> None:
    mean, half = mean_and_half_width((1.0, 2.0, 3.0))
    assert mean == 2.0
    assert half == pytest.approx(4.302652729911275 / math.sqrt(3))  # t(0.975, 2 degrees), s = 1


def test_one_value_has_no_interval() -> None:
    assert math.isnan(mean_and_half_width((1.0,))[1])
    assert math.isnan(mean_and_half_width(())[0])


CORRELATION = Bounds(-1.0, 1.0)
CORRELATIONS = (-0.99, -0.97, -0.72, -0.95, -0.91)


def students(values: np.ndarray) -> tuple[float, float, float]:
    """scipy's own interval of a mean."""
    found = ttest_1samp(values, 0.0).confidence_interval(0.95)
    return float(values.mean()), float(found.low), float(found.high)


def test_the_interval_of_a_correlation_is_that_of_fishers_z_brought_back() -> None:
    twin = np.tanh(students(np.arctanh(np.array(CORRELATIONS))))
    assert mean_interval(CORRELATIONS, CORRELATION) == pytest.approx(tuple(twin))
    assert mean_interval(CORRELATIONS)[1] < -1 < twin[1], (
        "Student's t on the raw values runs past −1"
    )


def test_shares_percents_and_sizes_keep_within_their_bounds() -> None:
    shares = np.array([0.02, 0.09, 0.3])
    twin = expit(students(logit(shares)))
    assert mean_interval(tuple(shares), SHARE) == pytest.approx(tuple(twin))
    assert mean_interval(tuple(100 * shares), PERCENT) == pytest.approx(tuple(100 * twin))
    assert mean_interval(tuple(shares), POSITIVE) == pytest.approx(
        tuple(np.exp(students(np.log(shares))))
    )
    assert mean_interval(tuple(shares))[1] < 0


def test_what_does_not_vary_at_all_decides_nothing() -> None:
    """Three ties on a coarse test set are no evidence of a difference of exactly zero."""
    claim = judged(within((0.0, 0.0, 0.0), 1.0))
    assert (claim.verdict, claim.low, claim.high) == ("not decided", 0.0, 0.0)
    assert math.isnan(claim.p)
    one_image = Sample((0.0, 0.0, 0.0), test_variance=(100 / 360) ** 2)
    known = judged(within(one_image, 1.0))
    assert known.verdict == "held"
    assert known.high == pytest.approx(1.959964 * 100 / 360)


def test_values_that_differ_by_rounding_do_not_vary() -> None:
    test = above((0.1 + 0.2, 0.3, 0.3, 0.3, 0.3))
    assert (test.verdict, test.found.error) == ("not decided", 0.0)
    assert math.isnan(test.p)
    assert above(Sample((0.1 + 0.2, 0.3, 0.3), test_variance=0.01)).verdict == "held"
    row = report_row(Row("FR", (97.0,) * 3, Printed(97.0, 0.0, 0.5)))
    assert row.agreement.verdict == ""


def test_the_test_sets_variance_does_not_shrink_with_more_seeds() -> None:
    draw = np.random.default_rng(0)
    for n in (3, 30, 300):
        values = tuple(draw.normal(0.0, 0.1, n))
        low, high = mean_test(values, test_variance=0.25).interval()
        assert (high - low) / 2 > 1.95 * 0.5
    alone = mean_test((1.0, 2.0, 4.0))
    assert mean_test((1.0, 2.0, 4.0), test_variance=0.0) == alone
    both = mean_test((1.0, 2.0, 4.0), test_variance=alone.error**2)
    assert both.error == pytest.approx(alone.error * math.sqrt(2))
    assert both.freedom == pytest.approx(2 * 2), "2 degrees, half of the variance"


def test_p_is_that_of_scipys_one_sided_tests() -> None:
    values = (0.4, 1.1, 0.2, 0.9)
    over = ttest_1samp(values, 0.25, alternative="greater").pvalue
    under = ttest_1samp(values, 0.25, alternative="less").pvalue
    assert mean_test(values).p_above(0.25) == pytest.approx(over)
    assert mean_test(values).p_below(0.25) == pytest.approx(under)
    assert judged(above(values, 0.25)).p == pytest.approx(over)
    assert judged(below(values, 0.25)).p == pytest.approx(over), "it speaks for 'not held'"
    lower, upper = (
        ttest_1samp(values, end, alternative=side).pvalue
        for end, side in ((-1.0, "greater"), (2.0, "less"))
    )
    assert judged(within(values, 1.5, around=0.5)).p == pytest.approx(max(lower, upper))


@pytest.mark.parametrize("values", [CLEAR, UNCLEAR, (3.0, 3.2, 3.1, 2.9)])
@pytest.mark.parametrize(
    "test", [lambda v: above(v, 0.2), lambda v: below(v, 2.0), lambda v: within(v, 1.5)]
)
def test_a_verdict_is_reached_exactly_where_p_is_at_most_a_fortieth(
    values: tuple[float, ...], test: Callable[[tuple[float, ...]], ClaimTest]
) -> None:
    claim = judged(test(values))
    assert (claim.verdict != "not decided") == (claim.p <= LEVEL)


def test_holm_is_the_step_down_procedure() -> None:
    chances = (0.01, 0.04, math.nan, 0.03, 0.005)
    assert adjust_holm(chances) == pytest.approx([0.03, 0.06, math.nan, 0.06, 0.02], nan_ok=True)
    assert adjust_holm(()) == []


def test_holm_keeps_the_chance_of_any_false_verdict() -> None:
    """Twenty claims that are all exactly at their boundary: raw ones err often, Holm's rarely."""
    draw = np.random.default_rng(7)
    raw = adjusted = 0
    for _ in range(120):
        claims = [judged(above(tuple(draw.normal(0.0, 1.0, 5)))) for _ in range(20)]
        raw += any(claim.verdict == "held" for claim in claims)
        kept = with_holm(claims)
        adjusted += any(after_holm(claim) == "held" for claim in kept)
    assert raw > 30
    assert adjusted <= 120 * 0.05


def test_welchs_interval_against_a_printed_number_is_scipys() -> None:
    printed = Printed(96.02, 0.13)
    assert printed.spread == pytest.approx(0.13 * math.sqrt(5 / 4))
    ours = (95.6, 95.5, 95.7, 95.4, 95.8)
    found = welch_difference(ours, 96.02, printed.spread, PRINTED_RUNS)
    theirs = printed.value + printed.spread * standardised((1.0, 2.0, 4.0, 3.0, 0.5))
    twin = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.90)
    assert found.interval(0.90) == pytest.approx((twin.low, twin.high))
    for few, spread in (((95.6,), printed.spread), (ours, Printed(94.1).spread)):
        assert math.isnan(welch_difference(few, 96.02, spread, 5).error)


def standardised(values: tuple[float, ...]) -> np.ndarray:
    """With mean 0 and standard deviation 1 (ddof 1)."""
    numbers = np.array(values)
    return (numbers - numbers.mean()) / numbers.std(ddof=1)


def test_means_agree_within_the_margin_at_which_both_one_sided_tests_reach_five_percent() -> None:
    row = report_row(Row("FR", (95.6, 95.5, 95.7, 95.4, 95.8), Printed(95.85, 0.13, 0.5)))
    theirs = 95.85 + row.printed.spread * standardised((1.0, 2.0, 4.0, 3.0, 0.5))

    def larger_p(margin: float) -> float:
        low = ttest_ind(
            row.values + np.array(margin), theirs, equal_var=False, alternative="greater"
        )
        high = ttest_ind(row.values - np.array(margin), theirs, equal_var=False, alternative="less")
        return max(low.pvalue, high.pvalue)

    found = row.agreement
    assert larger_p(found.within) == pytest.approx(0.05)
    assert (found.margin, found.verdict) == (0.5, "agrees")
    assert replace(row, printed=Printed(95.85, 0.13, 0.3)).agreement.verdict == "open"
    assert replace(row, printed=Printed(99.0, 0.13, 0.5)).agreement.verdict == "differs"
    old = replace(row, printed=Printed(95.85, 0.13)).agreement
    assert (old.within, old.verdict) == (found.within, ""), "no margin was declared"
    for unknown in (None, Printed(95.85)):
        assert math.isnan(replace(row, printed=unknown).agreement.within)


@pytest.mark.usefixtures("quick_worlds")
@pytest.mark.parametrize("far", [0.5, -0.5])
def test_means_that_differ_by_the_margin_agree_in_at_most_five_percent_of_worlds(
    far: float,
) -> None:
    draw = np.random.default_rng(5)
    agreed = 0
    for _ in range(DRAWS):
        theirs, ours = draw.normal(96, 0.15, 5), draw.normal(96 + far, 0.2, 5)
        printed = Printed(float(theirs.mean()), float(theirs.std()), 0.5)  # ddof 0
        agreed += report_row(Row("FR", tuple(ours), printed)).agreement.verdict == "agrees"
    assert agreed <= DRAWS * 0.05 + 2.33 * math.sqrt(DRAWS * 0.05 * 0.95)
    assert agreed >= DRAWS * 0.02, "the test is not much too strict"


def flip_p(values: np.ndarray, centre: float) -> float:
    """The share of all sign patterns with at least this sum, by going through them."""
    rest = values - centre
    sums = [np.dot(signs, rest) for signs in product((1, -1), repeat=len(rest))]
    return sum(total >= rest.sum() - 1e-12 for total in sums) / len(sums)


@pytest.mark.parametrize("n", [6, 7, 9])
def test_the_sign_flip_interval_ends_where_the_test_over_all_patterns_stops_rejecting(
    n: int,
) -> None:
    values = np.random.default_rng(n).normal(1.0, 1.0, n)
    low, high = sign_flip_interval(tuple(values))
    assert flip_p(values, low - 1e-9) <= LEVEL < flip_p(values, low + 1e-9)
    assert flip_p(-values, -high - 1e-9) <= LEVEL < flip_p(-values, -high + 1e-9)


def test_the_sign_flip_interval_needs_six_and_keeps_bounds_and_the_test_set() -> None:
    for few in ((), (1.0,), (1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0, 5.0), (math.nan,) * 8):
        assert all(map(math.isnan, sign_flip_interval(few)))
    six = (1.0, 2.0, 4.0, 3.0, 2.5, 7.0)
    assert sign_flip_interval(six) == (1.0, 7.0), "only all signs alike are rare enough"
    logs = sign_flip_interval(tuple(map(math.exp, six)), POSITIVE)
    assert logs == pytest.approx((math.exp(1.0), math.exp(7.0)))
    low, high = sign_flip_interval(six, test_variance=1.0)
    mean = sum(six) / 6
    assert low == pytest.approx(mean - math.hypot(mean - 1, 1.959964))
    assert high == pytest.approx(mean + math.hypot(7 - mean, 1.959964))
    many = np.random.default_rng(3).normal(0.0, 1.0, 200)
    assert sign_flip_interval(tuple(many)) == pytest.approx(students(many)[1:], abs=0.02)


def test_one_normal_sample_in_a_hundred_has_an_outlier_and_a_far_seed_is_named() -> None:
    draw, total = np.random.default_rng(2), 0
    for n in (5, 10):
        found = sum(find_outlier(tuple(draw.normal(size=n))) is not None for _ in range(400))
        assert found <= 11  # 99.7 % of binomials with 4 expected
        total += found
    assert total > 1
    found = find_outlier((98.1, 98.2, 98.0, 91.2, 98.1, 98.3))
    assert found is not None
    assert (found.number, found.value) == (3, 91.2)
    others = np.array((98.1, 98.2, 98.0, 98.1, 98.3))
    assert found.distance == pytest.approx((others.mean() - 91.2) / others.std(ddof=1))
    assert find_outlier((98.1, 98.2, 98.0, 91.2)) is None, "too few"
    assert find_outlier((98.1, 98.1, 98.1, 98.1, 98.2)) is None, "ties of a coarse test set"
    assert find_outlier((98.1, math.nan, 98.1, 98.0, 98.2, 91.0)) is None


def test_with_an_outlier_both_intervals_must_decide_and_it_has_the_number_of_its_seed() -> None:
    close = (0.5, 0.6, 0.5, 0.55, 0.6, 0.5, 0.58, 0.52)
    judged_whole = judged(above(close, 0.49))
    assert (judged_whole.verdict, judged_whole.outlier) == ("held", None)
    assert judged_whole.flip_low > 0.49
    six = (1.0, 1.01, 1.02, 0.99, 1.0, 0.2)
    spoiled = judged(above(six, 0.4), replace(FULL, seed_start=10))
    assert spoiled.low > 0.4 > spoiled.flip_low == pytest.approx(0.2)
    assert spoiled.verdict == "not decided"
    assert spoiled.outlier is not None
    assert (spoiled.outlier.number, spoiled.outlier.value) == (15, 0.2)
    clear = judged(above(six))
    assert (clear.verdict, format_verdict(clear)) == ("held", "held with an outlier")
    five = judged(above((2.0, 2.1, 2.0, 2.2, 0.5)))
    assert (five.verdict, format_verdict(five)) == ("held", "held with an outlier")
    assert math.isnan(five.flip_low)


WORLDS = 300


@pytest.mark.usefixtures("quick_worlds")
@pytest.mark.parametrize("n", [5, 10])
def test_one_bad_seed_in_ten_makes_false_verdicts_only_where_no_bad_seed_was_drawn(n: int) -> None:
    """The mean over all seeds is 0, that of the good ones 1 or more, so 'above 0' is false.

    Among five or ten seeds there is often no bad one. What remains is then a normal sample with
    another mean, which no test can tell from a true claim: it would have to see what is not there.
    """
    draw = np.random.default_rng(39)
    rates, seen = {}, 0
    for far in (10.0, 15.0):
        plain = held_with_bad = 0
        for _ in range(WORLDS):
            bad = draw.random(n) < 0.1
            claim = judged(above(tuple(draw.normal(0.1 * far, 1.0, n) - far * bad)))
            held = format_verdict(claim) == "held"
            plain += held
            held_with_bad += held and bool(bad.any())
        rates[far], seen = plain / WORLDS, seen + held_with_bad
    assert all(0.18 < rate < 0.48 for rate in rates.values()), rates
    assert seen <= 2 * WORLDS * 0.01


def test_a_value_at_or_beyond_a_bound_has_no_interval() -> None:
    for values in ((0.0, 0.1, 0.2), (0.5, 1.1, 0.2), (0.5, math.nan, 0.2)):
        assert all(math.isnan(end) for end in mean_interval(values, SHARE))
    assert judged(below((0.0, 0.1, 0.2), 0.9, SHARE)).verdict == "not decided"


def test_a_claim_about_a_correlation_has_an_interval_within_one() -> None:
    claim = judged(below(CORRELATIONS, bounds=CORRELATION))
    assert -1 < claim.low < claim.value < claim.high < 0
    assert claim.verdict == "held"


SAME = (2.0, 2.0, 2.0)
OPEN, EXACT = "not decided", 1e-9


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        (above(CLEAR), "held"),
        (below(CLEAR), "not held"),
        (below(CLEAR, 2.0), "held"),
        (above(UNCLEAR), OPEN),
        (above((1.0, math.nan, 1.1)), OPEN),
        (above(SAME, 2.0), OPEN),
        (below(SAME, 2.0), OPEN),  # an end at a limit
        (within(SAME, 2.0), OPEN),
        (within((-2.0,) * 3, 2.0), OPEN),
        (within(CLEAR, 3.0), "held"),
        (within((7.0, 7.1, 6.9), 3.0), "not held"),
        (within((2.9, 3.1, 3.0), 3.0), OPEN),
        *((test, OPEN) for n in range(3) for test in (above(FEW[:n]), within(FEW[:n], 100.0))),
        *((below(FEW[:n]), OPEN) for n in range(3)),
    ],
)
def test_the_whole_interval_decides_at_every_scale(test: ClaimTest, verdict: str) -> None:
    assert judged(test).verdict == verdict
    assert judged(test, QUICK).verdict == verdict


@pytest.mark.parametrize(
    ("error", "n", "verdict"),
    [
        (1e-12, 1, "held"),
        (EXACT, 1, "held"),
        (1e-3, 5, "not held"),
        (math.nan, 5, OPEN),
        (0, 0, OPEN),
    ],
)
def test_an_exact_claim_needs_no_seeds_but_a_number(error: float, n: int, verdict: str) -> None:
    for request in (FULL, QUICK):
        claim = judged(at_most(error, EXACT, n), request)
        assert (claim.verdict, claim.exact) == (verdict, True)


def test_a_claim_says_its_condition() -> None:
    tests = (above(CLEAR), below(CLEAR, 2.0), within(CLEAR, 1.5, around=0.5))
    assert [judged(test).statistic.partition("; ")[2] for test in tests] == [
        "above 0",
        "below 2",
        "within ±1.5 of 0.5",
    ]


def test_two_values_have_an_interval() -> None:
    """t(0.975) of one degree of freedom is 12.7062; of two it is 4.30265."""
    assert mean_and_half_width((1.0, 3.0)) == pytest.approx((2.0, 12.706204736))
    twin = [expit(logit(0.25) / 2 + side * 12.706204736 * logit(0.25) / 2) for side in (0, 1, -1)]
    assert mean_interval((0.25, 0.5), SHARE) == pytest.approx(tuple(twin))


def test_a_fall_is_a_rise_turned_round() -> None:
    rise = mean_interval((0.99, 0.9, 0.6), CORRELATION)
    fall = mean_interval((-0.99, -0.9, -0.6), CORRELATION)
    assert fall == pytest.approx((-rise[0], -rise[2], -rise[1]))
    assert -1 < fall[1] < fall[0] < fall[2]


def test_a_claim_about_what_was_not_trained_is_a_line_without_a_number() -> None:
    made = at_scale(QUICK, judge("npf-1", "x", UNMEASURED, "--full trains it"))
    assert math.isnan(made.value)
    assert (made.id, made.statistic, made.n) == ("npf-1", "x", 0)
    assert made.statement, "that of the paper"
    assert (made.verdict, made.remark) == ("not decided", "--full trains it")
