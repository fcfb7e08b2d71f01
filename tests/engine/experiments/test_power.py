"""The power of a claim, beside simulations of it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dgn_engine.experiments._claims import ClaimTest, Sample, above, below, judge, within
from dgn_engine.experiments._power import GOAL, MOST, Design, claim_power, replicates_needed
from dgn_engine.sweep.statistics import PERCENT, mean_test

Test = Callable[[Sample], ClaimTest]
DRAWS = [200, pytest.param(600, marks=pytest.mark.faults)]


def simulated(design: Design, n: int, test: Test, draws: int) -> float:
    """How often it is held: seeds around the truth, all moved alike by the finite test set."""
    draw = np.random.default_rng(11)
    held = 0
    for _ in range(draws):
        shift = draw.normal(0.0, math.sqrt(design.test_variance))
        values = draw.normal(design.expected + shift, design.spread, n)
        held += test(Sample(tuple(values), test_variance=design.test_variance)).verdict == "held"
    return held / draws


@pytest.mark.wide
@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("n", [3, 5, 12])
@pytest.mark.parametrize(
    ("design", "test"),
    [
        (Design(1.0, 0.8, "made up"), lambda s: above(s)),
        (Design(1.0, 0.4, "made up", 0.16), lambda s: above(s)),
        (Design(-0.5, 0.3, "made up"), lambda s: below(s, 0.1)),
        (Design(0.1, 0.5, "made up", 0.04), lambda s: within(s, 1.0)),
        (Design(0.8, 0.2, "made up"), lambda s: within(s, 0.5, around=0.7)),
    ],
)
def test_the_power_is_that_of_a_simulation(design: Design, test: Test, n: int, draws: int) -> None:
    region = test(Sample((1.0, 2.0))).region
    found = simulated(design, n, test, draws)
    error = math.sqrt(max(found * (1 - found), 0.01) / draws)
    assert claim_power(design, n, region) == pytest.approx(found, abs=3.5 * error)


@pytest.mark.wide
@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("n", [3, 5, 20])
@pytest.mark.parametrize(("spread", "shared"), [(1.0, 0.0), (1.0, 0.2), (0.05, 0.5)])
@pytest.mark.parametrize(
    ("test", "boundary"),
    [(lambda s: above(s), 0.0), (lambda s: below(s), 0.0), (lambda s: within(s, 2.0), 2.0)],
)
def test_a_claim_that_is_just_false_is_held_in_a_fortieth_of_the_draws_at_most(
    test: Test, boundary: float, spread: float, shared: float, n: int, draws: int
) -> None:
    null = Design(boundary, spread, "null", shared)
    assert simulated(null, n, test, draws) <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / draws)
    assert claim_power(null, n, test(Sample((1.0, 2.0))).region) <= 0.026 + (0.01 if shared else 0)


@pytest.mark.wide
@pytest.mark.parametrize("share", [0.05, 0.5, 0.1, 2.0])
@pytest.mark.parametrize("n", [3, 5])
def test_an_interval_with_a_known_part_covers_95_percent(n: int, share: float) -> None:
    """`share`: the test set's variance beside that of the mean over seeds."""
    draw, draws, outside = np.random.default_rng(4), 1500, 0
    for _ in range(draws):
        values = draw.normal(0.0, math.sqrt(n), n) + draw.normal(0.0, math.sqrt(share))
        test = mean_test(list(values), test_variance=share)
        outside += min(test.p_above(0.0), test.p_below(0.0)) <= 0.025
    assert outside / draws <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / draws)


def test_enough_is_the_least_number_with_the_wanted_power() -> None:
    design, region = Design(0.5, 1.0, "made up"), (0.0, math.inf)
    n = replicates_needed(design, region)
    assert claim_power(design, n, region) >= GOAL > claim_power(design, n - 1, region)


def test_where_the_test_set_is_too_small_no_number_of_seeds_is_enough() -> None:
    design = Design(0.5, 0.1, "made up", test_variance=1.0)
    assert replicates_needed(design, (0.0, math.inf)) == 0
    assert claim_power(design, MOST, (0.0, math.inf)) < 0.2


def test_two_replicates_have_no_power() -> None:
    assert claim_power(Design(100.0, 0.1, "made up"), 2, (0.0, math.inf)) == 0.0


def test_a_bounded_statistic_has_its_power_on_the_scale_of_its_test() -> None:
    design, draw = Design(98.0, 0.5, "made up"), np.random.default_rng(3)
    test = above((97.0, 97.1), 97.0, PERCENT)
    places = draw.normal(math.log(98 / 2), 0.5 * (1 / 98 + 1 / 2), (600, 5))
    percents = 100 / (1 + np.exp(-places))
    held = np.mean([above(tuple(v), 97.0, PERCENT).verdict == "held" for v in percents])
    assert claim_power(design, 5, test.region, PERCENT) == pytest.approx(held, abs=0.06)


def test_a_judged_claim_carries_its_power_and_where_the_spread_is_from() -> None:
    design = Design(0.5, 1.0, "printed ± of both columns")
    claim = judge("npf-1", "difference", above((0.4, 0.6, 0.5)), design=design)
    assert claim.power == claim_power(design, 3, (0.0, math.inf)) < GOAL
    assert claim.enough == replicates_needed(design, (0.0, math.inf))
    assert claim.power_from == "printed ± of both columns"
