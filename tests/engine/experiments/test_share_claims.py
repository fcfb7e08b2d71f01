"""The share of the gap between random gates and ReLU, beside Fieller's formula and simulations."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dgn_engine.experiments import _grid
from dgn_engine.experiments._grid import TrainedCell
from dgn_engine.experiments._power import claim_power
from dgn_engine.experiments._share_claims import (
    AROUND,
    MOST_OF_GAP,
    PrintedGap,
    SharedGap,
    judge_share,
    region_of,
    share_interval,
    share_test,
    shared_gap,
)
from dgn_engine.protocol.experiments import Printed
from dgn_engine.sweep.statistics import ratio_of_means
from dgn_engine.sweep.unit_results import Answers, TrainedRun
from tests.engine.experiments.worlds import MANY, scored, shared_error, variance_of

GAP = PrintedGap(
    Printed(79.68, 0.32), Printed(80.43, 0.35), (Printed(67.09, 0.58), Printed(67.08, 0.27))
)
ABOVE = (85.0, math.inf)


def drawn(
    random: np.random.Generator, learnt: float, seeds: int = 5, examples: int = 10_000
) -> SharedGap:
    """Networks as printed, but FL, which share the chance error of a test set."""
    shift = shared_error(random, 75.0, examples)
    cells = []
    for cell, mean in (
        (GAP.recovered, learnt),
        (GAP.relu, GAP.relu.value),
        *((frozen, frozen.value) for frozen in GAP.frozen),
    ):
        at = mean + shift(mean)
        values = at + cell.spread * random.standard_normal(seeds)
        cells.append(TrainedCell([scored(float(v), examples=examples) for v in values]))
    return shared_gap(*cells)


def seeds_of(gap: SharedGap) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    learnt, relu, one, other = (
        np.array(cell.best) for _, cell in (*gap.recovered, *gap.relu, *gap.frozen)
    )
    return learnt, relu, (one + other) / 2


def test_on_the_given_test_set_it_is_fieller_s_interval_of_the_seeds() -> None:
    gap = drawn(np.random.default_rng(1), 79.0)
    learnt, relu, frozen = seeds_of(gap)
    found = share_interval(gap, fixed_test_set=True)
    expected = ratio_of_means((learnt - frozen).tolist(), (relu - frozen).tolist())
    assert (found.mean, *found.interval()) == pytest.approx(100 * np.array(expected), rel=1e-7)


def test_without_frozen_gates_it_is_the_ratio_of_two_accuracies() -> None:
    learnt, relu = drawn(np.random.default_rng(5), 75.0).recovered, GAP.relu
    over = [TrainedCell([scored(relu.value + seed) for seed in range(5)])]
    gap = SharedGap(learnt, [(1.0, cell) for cell in over], ())
    numbers = [[run.best for run in cell.runs] for cell in (learnt[0][1], over[0])]
    found = share_interval(gap, fixed_test_set=True)
    expected = 100 * np.array(ratio_of_means(*numbers))
    assert (found.mean, *found.interval()) == pytest.approx(expected, rel=1e-7)
    low, high = found.interval()
    for bound, verdict in ((low - 1, "held"), (found.mean, "not decided"), (high + 1, "not held")):
        claim = judge_share("dual-13", "x", gap, (bound, math.inf), None)
        assert (claim.verdict, math.isnan(claim.power)) == (verdict, True)


def test_with_the_test_set_it_is_all_shares_that_a_t_test_does_not_reject() -> None:
    """Each share on a grid is tested with the paired variance over examples."""
    from scipy.stats import t

    random, examples, seeds = np.random.default_rng(2), 500, 4
    hard = random.standard_normal(examples)
    masks = []
    for level in (1.0, 1.1, 0.4, 0.3):
        own = hard + 0.7 * random.standard_normal(examples)
        masks.append([own + 0.3 * random.standard_normal(examples) < level for _ in range(seeds)])
    cells = [
        TrainedCell([_with_answers(float(100 * mask.mean()), mask, examples) for mask in of_cell])
        for of_cell in masks
    ]
    gap = shared_gap(*cells)
    found = share_interval(gap)
    right = np.array(masks, dtype=float)  # cells, seeds, examples
    kept = []
    for share in np.linspace(0.2, 1.8, 3201):
        d = right[0] - share * right[1] - (1 - share) * (right[2] + right[3]) / 2
        by_seed = 100 * d.mean(axis=1)
        between = by_seed.var(ddof=1) / seeds
        shared = 100**2 * d.mean(axis=0).var(ddof=1) / examples
        total = between + max(shared, (100 / examples) ** 2)
        freedom = (seeds - 1) * total / between
        if abs(by_seed.mean()) <= t.ppf(0.975, freedom) * math.sqrt(total):
            kept.append(100 * share)
    assert found.interval() == pytest.approx((kept[0], kept[-1]), abs=0.06)
    assert found.low < found.mean < found.high


def _with_answers(best: float, mask: np.ndarray, examples: int) -> TrainedRun:
    return replace(scored(best, examples=examples), answers=Answers(mask, mask))


@pytest.mark.usefixtures("quick_worlds")
@pytest.mark.parametrize("draws", [200, pytest.param(1000, marks=pytest.mark.faults)])
def test_it_covers_95_percent_and_is_held_as_often_as_its_power_says(
    draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_grid, "_test_variance", variance_of)
    random = np.random.default_rng(3)
    held = {}
    for learnt in (GAP.recovered.value, GAP.relu.value - 0.15 * GAP.size):
        share = 100 * (1 - (GAP.relu.value - learnt) / GAP.size)
        tests = [share_test(drawn(random, learnt), ABOVE) for _ in range(draws)]
        held[round(share)] = sum(test.verdict == "held" for test in tests) / draws
        covered = sum(
            test.found.interval()[0] <= share <= test.found.interval()[1] for test in tests
        )
        assert covered / draws == pytest.approx(0.95, abs=3.5 * math.sqrt(0.0475 / draws))
    power = claim_power(GAP.design(85.0), 5, ABOVE)
    assert power > 0.85
    assert held[94] == pytest.approx(power, abs=3.5 * math.sqrt(power * (1 - power) / draws))
    assert held[85] <= 0.05


def test_a_gap_that_may_be_none_has_no_share() -> None:
    random = np.random.default_rng(4)
    for relu in (67.1, 60.0):  # equal to random gates, or worse
        gap = drawn(random, 67.0)
        for run, value in zip(gap.relu[0][1].runs, random.normal(relu, 0.5, 5), strict=True):
            object.__setattr__(run, "best", value / 100)
        test = share_test(gap, ABOVE)
        assert test.verdict == "not decided"
        assert math.isnan(test.found.interval()[0])
        assert math.isnan(test.p)


def test_seeds_that_do_not_vary_decide_nothing() -> None:
    cells = [TrainedCell([scored(value, examples=0)] * 3) for value in (80.0, 80.0, 67.0, 67.0)]
    assert share_test(shared_gap(*cells), ABOVE).verdict == "not decided"
    two = [TrainedCell(cell.runs[:2]) for cell in cells]
    assert share_test(shared_gap(*two), ABOVE).verdict == "not decided"


def with_a_bad_seed(seeds: int) -> SharedGap:
    """Seed 2 of FL is 8 points below the others."""
    gap = drawn(np.random.default_rng(6), 79.0, seeds, MANY)
    object.__setattr__(gap.recovered[0][1].runs[2], "best", 0.71)
    return gap


def test_an_outlier_is_the_seed_that_moves_the_share_most() -> None:
    gap = with_a_bad_seed(7)
    outlier = share_test(gap, ABOVE).outlier
    assert outlier is not None
    assert outlier.number == 2
    learnt, relu, frozen = seeds_of(gap)
    of_seed = 100 * (learnt - frozen)[2] / (relu - frozen)[2]
    assert outlier.value == pytest.approx(of_seed, abs=3)
    assert share_test(drawn(np.random.default_rng(6), 79.0, 7), ABOVE).outlier is None
    assert all(map(math.isnan, share_test(with_a_bad_seed(5), ABOVE).flipped))


def test_the_sign_flip_interval_is_all_shares_that_no_flip_of_signs_rejects() -> None:
    gap = with_a_bad_seed(7)
    learnt, relu, frozen = seeds_of(gap)
    signs = np.array(list(product((-1, 1), repeat=7)))

    def chance(percent: float) -> float:
        share = percent / 100
        contrast = learnt - share * relu - (1 - share) * frozen
        return float((abs(signs @ contrast) >= abs(contrast.sum()) - 1e-9).mean())

    low, high = share_test(gap, ABOVE).flipped
    assert min(chance(low + 0.01), chance(high - 0.01)) > 0.05
    assert max(chance(low - 0.01), chance(high + 0.01)) <= 0.05


def test_with_an_outlier_both_intervals_must_hold() -> None:
    gap = with_a_bad_seed(10)
    test = share_test(gap, ABOVE)
    (low, _), (flip_low, _) = test.found.interval(), test.flipped
    assert flip_low < low
    between = share_test(gap, ((low + flip_low) / 2, math.inf))
    assert between.outlier is not None
    assert between.verdict == "not decided"
    assert share_test(gap, (flip_low - 1, math.inf)).verdict == "held"


def test_a_printed_share_below_two_thirds_is_claimed_within_a_margin_that_leaves_out_all() -> None:
    little = PrintedGap(Printed(97.1, 0.09), Printed(97.85, 0.09), (Printed(95.85, 0.1),) * 2)
    assert little.share == pytest.approx(100 * 1.25 / 2)
    assert region_of(little.share) == pytest.approx((62.5 - AROUND, 62.5 + AROUND))
    assert region_of(little.share)[1] < 100
    assert region_of(GAP.share) == (MOST_OF_GAP, math.inf)


def test_the_interval_on_these_images_is_narrower_and_is_printed() -> None:
    gap = drawn(np.random.default_rng(5), 79.68)
    claim = judge_share("npf-2", "share", gap, ABOVE, GAP, "printed: 94.4")
    whole, given = share_interval(gap), share_interval(gap, fixed_test_set=True)
    assert given.high - given.low < whole.high - whole.low
    assert f"{given.low:.1f} to {given.high:.1f}" in claim.remark
    assert "10,000" in claim.remark
    assert (claim.low, claim.high) == whole.interval()
    assert claim.power == claim_power(GAP.design(85.0), 5, ABOVE)
