"""The share that gates recover: number, interval and sentence, in worlds with it and without."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import t

from dgn_engine.experiments._gate_share import (
    GateAnswer,
    SeedCurves,
    answer_of,
    curve_ending,
    gate_share,
    mean_curve,
    sufficient_epochs,
    whole_percent,
    why_not_converged,
)
from dgn_engine.sweep.statistics import ratio_of_means

CHANCE = 12.0
WORLDS = 1000


def scanned(top: np.ndarray, bottom: np.ndarray, grid: np.ndarray) -> tuple[float, float]:
    """The ends of the set of θ that Student's t does not tell from the ratio, one by one."""
    rest = top - grid[:, None] * bottom
    statistic = rest.mean(1) / (rest.std(1, ddof=1) / math.sqrt(len(top)))
    inside = grid[np.abs(statistic) <= t.ppf(0.975, len(top) - 1)]
    return float(inside.min()), float(inside.max())


@pytest.mark.parametrize("seed", range(6))
def test_fiellers_interval_is_the_set_that_students_t_does_not_reject(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n = 3 + seed
    bottom = draw.normal(8.0, 1.0, n)
    top = 0.6 * bottom + draw.normal(0.0, 0.7, n)
    ratio, low, high = ratio_of_means(list(top), list(bottom))
    grid = np.linspace(-2, 3, 100_001)
    assert ratio == pytest.approx(top.mean() / bottom.mean(), rel=1e-12)
    assert (low, high) == pytest.approx(scanned(top, bottom, grid), abs=1e-4)


def test_with_a_denominator_that_stands_still_it_is_students_interval() -> None:
    top = [1.0, 2.0, 4.0, 3.5]
    half = float(t.ppf(0.975, 3)) * np.std(top, ddof=1) / 2
    ratio, low, high = ratio_of_means(top, [5.0] * 4)
    assert (ratio, low, high) == pytest.approx((2.625 / 5, (2.625 - half) / 5, (2.625 + half) / 5))


def test_a_denominator_that_may_be_zero_leaves_no_interval() -> None:
    ratio, low, high = ratio_of_means([1.0, 2.0, 3.0], [-1.0, 2.0, 0.5])
    assert ratio == pytest.approx(4.0)
    assert math.isnan(low)
    assert math.isnan(high)
    assert math.isnan(ratio_of_means([1.0, 2.0], [1.0, -1.0])[0])
    assert ratio_of_means([1.0], [2.0])[0] == 0.5
    assert math.isnan(ratio_of_means([1.0], [2.0])[1])


@pytest.mark.parametrize("sizes", [(0, 0), (2, 3)])
def test_samples_that_are_not_paired_are_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        ratio_of_means([1.0] * sizes[0], [1.0] * sizes[1])


def world(
    draw: np.random.Generator, carried: float, n: int, spread: float = 1.1
) -> tuple[float, list[float], list[float]]:
    """Accuracies of digits-sized worlds, in whole test examples of 360: the own one, and seeds."""
    own, random = 96.7, 93.4

    def rounded(values: np.ndarray) -> list[float]:
        return list(np.round(values * 3.6) / 3.6)

    common = draw.normal(0.0, spread / 2, n)
    gates = random + carried * (own - random) + common + draw.normal(0.0, spread, n)
    return own, rounded(gates), rounded(random + common + draw.normal(0.0, spread, n))


@pytest.mark.parametrize("n", [3, 5, 10])
def test_where_random_gates_are_declared_the_networks_the_interval_holds_0(n: int) -> None:
    draw = np.random.default_rng(n)
    held = carried = bounded = 0
    for _ in range(WORLDS):
        own, gates, random = world(draw, 0.0, n)
        share = gate_share(own, gates, random)
        bounded += share.has_interval
        held += share.has_interval and share.low <= 0 <= share.high
        carried += answer_of(share, (), CHANCE, True).kind == "recovered"
    slack = 3 * math.sqrt(0.05 * 0.95 / WORLDS)
    assert carried / WORLDS <= 0.05 + slack
    assert held / bounded >= 0.95 - slack - 0.01  # worlds without bounds are not among them
    if n > 3:
        assert bounded > 0.9 * WORLDS


@pytest.mark.parametrize("carried", [0.7, 1.0])
def test_the_interval_holds_what_is_carried_and_five_seeds_find_it(carried: float) -> None:
    draw = np.random.default_rng(round(10 * carried))
    held, found = [], 0
    for _ in range(WORLDS):
        own, gates, random = world(draw, carried, 5)
        share = gate_share(own, gates, random)
        if share.has_interval:
            held.append(share.low <= 100 * carried <= share.high)
        found += answer_of(share, (), CHANCE, True).kind == "recovered"
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)
    assert found / WORLDS > (0.75 if carried == 1.0 else 0.5)


def test_a_network_no_better_than_random_gates_has_no_share() -> None:
    draw = np.random.default_rng(4)
    said = 0
    for _ in range(WORLDS):
        random, gates = 90 + draw.normal(0, 1.0, 5), 90 + draw.normal(0, 1.0, 5)
        answer = answer_of(gate_share(90.0, list(gates), list(random)), (), CHANCE, True)
        said += answer.kind in ("recovered", "worse")
    assert said / WORLDS <= 0.05


def said(
    own: float,
    gates: Sequence[float],
    random: Sequence[float],
    left_out: Sequence[str] = (),
    converged: bool = True,
) -> GateAnswer:
    return answer_of(gate_share(own, gates, random), left_out, CHANCE, converged)


def test_the_sentence_holds_the_numbers_that_its_share_is_made_of() -> None:
    answer = said(96.0, [94.0, 95.0, 95.5], [90.0, 91.0, 89.0])
    share = 100 * (94 + 95 + 95.5 - 270) / (3 * 96 - 270)
    _, low, high = ratio_of_means([4.0, 4.0, 6.5], [6.0, 5.0, 7.0])
    assert answer.kind == "recovered"
    interval = f"[{100 * low:.0f} %, {100 * high:.0f} %]"
    for part in (f" {share:.0f} % of", "(90.0 %)", "(96.0 %)", "95 %", interval, "over 3 seeds"):
        assert part in answer.sentence


def test_a_share_that_is_not_final_says_so_beside_the_number() -> None:
    answer = said(96.0, [94.0, 95.0, 95.5], [90.0, 91.0, 89.0], converged=False)
    assert answer.kind == "recovered"
    assert "not converged" in answer.sentence
    assert "81 % of the gap" in answer.sentence


@pytest.mark.parametrize(
    ("own", "gates", "random", "kind", "words"),
    [
        (96.0, [90.0, 95.0, 88.0], [90.0, 91.0, 89.0], "open", "includes 0"),
        (96.0, [84.0, 85.0, 83.0], [90.0, 91.0, 89.0], "worse", "−"),
        (88.0, [94.0, 95.0, 95.5], [90.0, 91.0, 89.0], "none", "88.0 %"),
        (90.3, [94.0, 95.0, 95.5], [90.0, 91.0, 89.0], "none", "differences"),
        (96.0, [94.0], [90.0], "none", "1 seed is not enough"),
        (96.0, [94.0, 95.0], [90.0, 91.0], "none", "2 seeds are not enough"),
        (96.0, [94.0] * 3, [90.0] * 3, "none", "test examples"),
        (96.0, [9.0, 10.0, 11.0], [10.0, 9.0, 10.0], "none", "learned nothing"),
        (96.0, [math.nan] * 3, [90.0] * 3, "none", "no seed has accuracies for both"),
        (96.0, [96.0] * 3, [96.0] * 3, "none", "no better"),
    ],
)
def test_what_cannot_be_said_says_why(
    own: float, gates: list[float], random: list[float], kind: str, words: str
) -> None:
    answer = said(own, gates, random)
    assert answer.kind == kind
    assert words in answer.sentence
    assert "nan" not in answer.sentence


@pytest.mark.parametrize(("n", "number"), [(1, "67 %"), (2, "73 %")])
def test_too_few_seeds_still_show_what_was_measured(n: int, number: str) -> None:
    answer = said(96.0, [94.0, 95.0][:n], [90.0, 91.0][:n])
    assert f"{number} of the gap" in answer.sentence


def test_a_seed_that_diverged_is_left_out_and_nothing_is_claimed() -> None:
    why = "seed 1 behind random gates diverged at step 12"
    answer = said(96.0, [94.0, 95.0, 95.5, 94.5], [90.0, math.nan, 89.0, 91.0], [why])
    share = gate_share(96.0, [94.0, 95.0, 95.5, 94.5], [90.0, math.nan, 89.0, 91.0])
    rest = gate_share(96.0, [94.0, 95.5, 94.5], [90.0, 89.0, 91.0])
    assert answer.kind == "none"
    assert why in answer.sentence
    assert f"{whole_percent(rest.percent)} of the gap" in answer.sentence
    assert "over 3 seeds" in answer.sentence
    assert (share.percent, share.low, share.high) == (rest.percent, rest.low, rest.high)
    assert math.isnan(share.by_seed[1])


def test_below_random_gates_a_share_has_no_bounds() -> None:
    below = gate_share(80.0, [94.0, 95.0, 95.5], [90.0, 91.0, 89.0])
    assert (math.isfinite(below.low), below.has_interval) == (True, False)


def test_no_share_is_minus_zero() -> None:
    assert whole_percent(-0.3) == "0 %"
    assert whole_percent(-1234.4) == "−1,234 %"


def curves(*test: Sequence[float], **given: dict[int, str]) -> SeedCurves:
    return SeedCurves("its gates", test, **given)


def test_a_curve_that_rises_has_not_converged() -> None:
    rising = [60.0 + 1.0 * epoch for epoch in range(20)]
    flat = [90.0, 93.0, *[95.0] * 10]
    found = curve_ending(curves(flat, rising), 360)
    assert not found.converged
    assert (found.mean, found.most, found.seed) == (2.5, 5.0, 1)
    assert curve_ending(curves(flat, flat), 360).converged
    assert not curve_ending(curves([60.0, 80.0, 84.0, 85.0, 88.0], flat), 360).converged


def test_one_seed_that_goes_on_is_enough() -> None:
    flat, late = [95.0] * 20, [*[93.0] * 15, *[94.2] * 5]
    found = curve_ending(curves(*[flat] * 9, late), 360)
    assert not found.converged
    assert abs(found.mean) < 0.5
    words = why_not_converged([curves(*[flat] * 9, late)], [found])
    assert "rose by 1.20 points with its gates in seed 9" in words


def test_an_accuracy_that_falls_has_not_converged_either() -> None:
    falling = curves([90.0 - epoch for epoch in range(20)])
    found = curve_ending(falling, 360)
    assert not found.converged
    assert "still fell by 5.00 points" in why_not_converged([falling], [found])


def test_one_epoch_has_no_course() -> None:
    for each in (curves([90.0]), curves([], [])):
        found = curve_ending(each, 360)
        assert not found.converged
        assert "At least two epochs" in why_not_converged([each], [found])


def test_noise_of_few_test_examples_is_no_course() -> None:
    draw = np.random.default_rng(0)
    for examples in (50, 360, 10_000):
        noise = 0.3 * 100 * math.sqrt(0.06 / examples)
        alarms = [
            curve_ending(
                curves(*(95 + draw.normal(0, noise, (5, 60))).tolist()), examples
            ).converged
            for _ in range(200)
        ]
        assert np.mean(alarms) > 0.95


def test_a_run_that_diverged_does_not_count_for_the_course() -> None:
    broken = curves([95.0] * 20, [10.0, 50.0, 90.0], trouble={1: "diverged at step 9"})
    assert curve_ending(broken, 360).converged
    assert broken.last[0] == 95.0
    assert math.isnan(broken.last[1])


@pytest.mark.parametrize(
    ("change", "epochs"), [(0.6, 40), (1.0, 40), (1.1, 80), (-4.4, 320), (90, 320), (math.nan, 320)]
)
def test_the_more_it_changes_the_more_epochs_are_suggested(change: float, epochs: int) -> None:
    assert sufficient_epochs(change, 20, 360) == epochs


def test_the_mean_curve_holds_the_last_accuracy_of_runs_that_ended_early() -> None:
    kind = curves([80.0, 90.0], [70.0, 80.0, 90.0], [60.0], trouble={2: "diverged at step 7"})
    line = mean_curve(kind)
    assert line.x == (1.0, 2.0, 3.0)
    assert line.y == (70.0, 85.0, 90.0)
    assert line.spread[0] == pytest.approx(float(t.ppf(0.975, 2)) * 10 / math.sqrt(3))
    assert line.spread[2] == 0.0
    nothing = mean_curve(curves())
    assert (nothing.x, nothing.y, nothing.spread) == ((), (), ())
