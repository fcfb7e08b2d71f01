"""The chance error of a finite test set: from paired answers, or bounded by the accuracies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from dgn_engine.experiments._claims import Sample, above, within
from dgn_engine.experiments._grid import TrainedCell, contrast
from dgn_engine.experiments._test_set_error import (
    binomial_variance,
    one_image,
    paired_variance,
)
from dgn_engine.sweep.statistics import mean_test
from dgn_engine.sweep.unit_results import Answers
from tests.daily import nightly
from tests.engine.experiments.made_up import make_run_of

Masks = np.ndarray  # (seeds, N) bool


def cell(best: Masks, last: Masks | None = None, recorded: bool = True) -> TrainedCell:
    """Runs with these right answers; `recorded`: their folders hold them."""
    last = best if last is None else last
    return TrainedCell(
        [
            make_run_of(
                1009,
                best=float(mine.mean()),
                last=float(its.mean()),
                answers=Answers(mine, its) if recorded else None,
                test_examples=len(mine),
            )
            for mine, its in zip(best, last, strict=True)
        ]
    )


def bits(*rows: str) -> Masks:
    return np.array([[letter == "1" for letter in row] for row in rows])


def test_a_contrast_has_a_value_per_seed_and_the_paired_variance_of_the_examples() -> None:
    one, other = bits("11110000", "11111100"), bits("11000000", "10000000")
    found = contrast((1.0, cell(one)), (-1.0, cell(other)))
    assert found.values == pytest.approx((25.0, 62.5))
    assert found.of == "seeds"
    each = [100 * d for d in (0, 0.5, 1, 1, 0.5, 0.5, 0, 0)]
    assert found.test_variance == pytest.approx(np.var(each, ddof=1) / 8)


def test_a_mean_over_models_is_a_contrast_of_many_terms() -> None:
    rng = np.random.default_rng(1)
    cells = [rng.random((3, 50)) < 0.8 for _ in range(5)]
    terms = [(1 / 4, cell(masks)) for masks in cells[:4]]
    found = contrast(*terms, (-1.0, cell(cells[4])))
    d = 100 * (np.mean(cells[:4], axis=0) - cells[4])
    assert found.values == pytest.approx(d.mean(axis=1))
    assert found.test_variance == pytest.approx(d.mean(axis=0).var(ddof=1) / 50)


def test_the_last_answers_are_told_from_the_best() -> None:
    one = cell(bits("1110", "1100"), bits("1000", "0000"))
    other = cell(bits("1000", "0000"), bits("1000", "1000"))
    assert contrast((1.0, one), (-1.0, other)).values == pytest.approx((50.0, 50.0))
    last = contrast((1.0, one), (-1.0, other), at="last")
    assert last.values == pytest.approx((0.0, -25.0))
    assert last.test_variance == pytest.approx(25.0**2)  # Var(d) is 25²/4 · 4: one image


def test_errors_on_the_same_examples_cancel() -> None:
    shared = np.random.default_rng(2).random((1, 400)) < 0.9
    same, bound = (
        contrast(*((c, cell(np.repeat(shared, 3, 0), recorded=known)) for c in (1.0, -1.0)))
        for known in (True, False)
    )
    assert same.test_variance == one_image(400) == 0.0625
    assert bound.test_variance > 10 * same.test_variance


def test_without_a_record_of_one_run_the_accuracies_bound_the_error() -> None:
    rng = np.random.default_rng(3)
    masks = rng.random((2, 3, 200)) < 0.9
    runs = [*cell(masks[0]).runs[:2], cell(masks[0][2:], recorded=False).runs[0]]
    p, q = (float(some.mean()) for some in masks)
    found = contrast((1.0, TrainedCell(runs)), (-1.0, cell(masks[1])))
    assert found.test_variance == pytest.approx(1e4 * (p * (1 - p) + q * (1 - q)) / 200)


def test_models_of_one_sign_are_not_taken_for_independent() -> None:
    """All may be wrong on the same images: a mean over 24 models has the error of one."""
    one = binomial_variance([(1.0, 0.9)], 1000)
    assert one == pytest.approx(1e4 * 0.09 / 1000)
    assert binomial_variance([(1 / 24, 0.9)] * 24, 1000) == pytest.approx(one)
    both = binomial_variance([*[(1 / 24, 0.9)] * 24, (-1.0, 0.9)], 1000)
    assert both == pytest.approx(2 * one)


def test_cells_of_two_test_sets_are_not_paired() -> None:
    rng = np.random.default_rng(4)
    small, large = rng.random((3, 100)) < 0.8, rng.random((3, 900)) < 0.8
    found = contrast((1.0, cell(small)), (-1.0, cell(large)))
    each = [paired_variance([(1.0, masks)]) for masks in (small, large)]
    assert found.test_variance == pytest.approx(sum(each))


def test_three_ties_are_as_wide_as_an_image() -> None:
    masks = np.repeat(bits("1" * 358 + "00"), 3, axis=0)
    for recorded in (True, False):
        one, other = cell(masks, recorded=recorded), cell(masks, recorded=recorded)
        ties = contrast((1.0, one), (-1.0, other))
        assert ties.values == (0.0, 0.0, 0.0)
        low, high = mean_test(ties.values, None, ties.test_variance).interval()
        assert high - low >= 100 / 360
        assert within(ties, 0.3).verdict == "not decided"


def test_where_the_size_of_the_test_set_is_unknown_nothing_is_added() -> None:
    found = contrast((1.0, TrainedCell([make_run_of(1009), make_run_of(1013)])))
    assert found.test_variance == 0.0


def test_a_run_without_a_score_decides_nothing() -> None:
    masks = np.random.default_rng(5).random((3, 100)) < 0.8
    runs = cell(masks).runs
    runs[1] = make_run_of(1009, best=math.nan, last=math.nan)
    found = contrast((1.0, TrainedCell(runs)), (-1.0, cell(masks)))
    assert math.isnan(found.values[1])
    assert above(found, -1000.0).verdict == "not decided"


def test_an_error_of_one_example_is_unknown() -> None:
    assert paired_variance([(1.0, bits("1", "1"))]) == math.inf


# Networks on a test set that is drawn anew each time: an example is answered right where
# SHARED · its difficulty + OWN · what only this kind finds difficult + noise + the seed's effect
# stays below a threshold. All are normal, so that the accuracy of the population is known.

SHARED, OWN, NOISE = 1.0, 0.4, 0.4
SEEDS = 5
ONE, OTHER = 1.9, 1.8  # thresholds of the two kinds


def accuracy(threshold: float, effect: float) -> float:
    spread = math.sqrt(SHARED**2 + OWN**2 + NOISE**2 + effect**2)
    return float(norm.cdf(threshold / spread))


def right_answers(rng: np.random.Generator, examples: int, effect: float) -> tuple[Masks, Masks]:
    """Right answers of five seeds of each kind on a new test set."""
    difficulty = SHARED * rng.standard_normal(examples, dtype=np.float32)
    found = []
    for threshold in (ONE, OTHER):
        mine = difficulty + OWN * rng.standard_normal(examples, dtype=np.float32)
        noise = NOISE * rng.standard_normal((SEEDS, examples), dtype=np.float32)
        shift = effect * rng.standard_normal((SEEDS, 1), dtype=np.float32)
        found.append(mine + noise + shift < threshold)
    return found[0], found[1]


def covered(sample: Sample, truth: float, counts: bool) -> bool:
    """Whether the interval holds the truth, with the test set's variance or without."""
    variance = sample.test_variance if counts else 0.0
    low, high = mean_test(sample.values, None, variance).interval()
    return low <= truth <= high


def shares(examples: int, effect: float, draws: int) -> Sequence[float]:
    """Of draws whose interval holds the difference of the population: as judged, without the
    test set's variance, and as judged without recorded answers."""
    rng = np.random.default_rng(examples)
    truth = 100 * (accuracy(ONE, effect) - accuracy(OTHER, effect))
    hits = np.zeros(3)
    for _ in range(draws):
        one, other = right_answers(rng, examples, effect)
        paired, bound = (
            contrast((1.0, cell(one, recorded=known)), (-1.0, cell(other, recorded=known)))
            for known in (True, False)
        )
        hits += [
            covered(paired, truth, True),
            covered(paired, truth, False),
            covered(bound, truth, True),
        ]
    return list(hits / draws)


@pytest.mark.parametrize(
    ("examples", "effect", "draws"),
    [(360, 0.01, 500), *nightly((360, 0.1, 1500), (10_000, 0.005, 600))],
)
def test_the_interval_covers_the_difference_on_all_examples_there_could_be(
    examples: int, effect: float, draws: int
) -> None:
    judged, seeds_alone, bound = shares(examples, effect, draws)
    for share in (judged, bound):  # not significantly below 95 %
        assert binomtest(round(share * draws), draws, 0.95, "less").pvalue > 0.01
    if effect < 0.1:
        assert seeds_alone < 0.9


def test_equal_kinds_are_seldom_found_different() -> None:
    """The other reading of the same: where truth is 0, 'above 0' is held in at most 2.5 %."""
    rng, draws, held = np.random.default_rng(7), 400, 0
    for _ in range(draws):
        one, other = right_answers(rng, 360, 0.01)
        gain = 100 * (accuracy(ONE, 0.01) - accuracy(OTHER, 0.01))
        sample = contrast((1.0, cell(one)), (-1.0, cell(other)))
        held += above(sample, gain).verdict == "held"
    assert binomtest(held, draws, 0.025, "greater").pvalue > 0.01
