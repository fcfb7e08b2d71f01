"""How often the claims of [DUAL] and [COMP] are held where they are just false, or just as printed.

In a null world every claim lies at the edge of what it says; in the paper's world the printed means
are exactly right, and networks spread as their designs say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from dgn_engine.experiments import Request, duality_48
from dgn_engine.experiments import _accuracy_designs as designs
from dgn_engine.sweep.unit_results import Answers
from tests.daily import nightly
from tests.engine.experiments.forty_eight import CNN_PRINTED, EIGHT, FC_PRINTED, REGIMES
from tests.engine.experiments.made_up import FULL, QUICK
from tests.engine.experiments.worlds import (
    Runs,
    Values,
    claim_rates,
    claims_held_too_often,
    errors_above_power,
    scored,
)

Draw = Callable[[np.random.Generator], tuple[Runs, Values]]
NOTHING: Values = {}

pytestmark = pytest.mark.usefixtures("draws", "quick_worlds")


@pytest.fixture(autouse=True)
def endless_test_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chance error of test sets has tests of its own."""
    monkeypatch.setattr(designs, "ALONE", 0.0)
    monkeypatch.setattr(designs, "TEST_EXAMPLES", 10**12)


@pytest.fixture
def only_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of duality-48, and of eight orders, so that many draws take seconds."""
    monkeypatch.setattr(duality_48, "_report_rows", lambda *_: ())
    monkeypatch.setattr(duality_48, "_make_figures", lambda *_: ())
    monkeypatch.setattr(duality_48, "ORDERS", duality_48.EIGHT)


Means = Callable[[str, str, str], float]  # of a regime, an input and an order


def models(prefix: str, means: Means, relu: float, spreads: dict[str, float]) -> Draw:
    """Networks of a seed and regime go together by half of their variance."""

    def draw(random: np.random.Generator) -> tuple[Runs, Values]:
        runs = {}
        for seed in range(3):
            runs[f"{prefix}-ReLU-s{seed}"] = scored(random.normal(relu, spreads["ReLU"]))
            for regime in REGIMES:
                half = spreads[regime] / np.sqrt(2)
                keys = list(product(("image", "ones"), EIGHT))
                around = random.normal(0, half) + random.normal(0, half, len(keys))
                for key, off in zip(keys, around, strict=True):
                    name = f"{prefix}-{regime}-{key[0]}-{key[1]}-s{seed}"
                    runs[name] = scored(means(regime, *key) + off)
        return runs, NOTHING

    return draw


@pytest.mark.usefixtures("only_claims")
@pytest.mark.parametrize(
    ("request_", "prefix", "bar", "gap", "margin", "side"),
    [
        (Request(scale="full", only="CNN"), "cnn", 38.75, 1.0, 2.0, 1),
        *nightly(
            (QUICK, "fc", 52.05, 0.0, 1.0, 1),
            (Request(scale="full", only="FC"), "fc", 52.05, -0.1, 1.0, -1),
        ),
    ],
)
def test_the_48_models_where_every_claim_is_just_false(
    request_: Request, prefix: str, bar: float, gap: float, margin: float, side: int
) -> None:
    half = side * margin / 2
    middle = {"FR-II": bar + half, "FR-DI": bar - half, "DL": 60, "FL": 63 - gap - side}

    def means(regime: str, seen: str, order: str) -> float:
        of_input = margin / 2 if seen == "image" else -margin / 2
        of_order = -margin * 7 / 8 if order == "0123" else margin / 8
        return middle[regime] + side * (of_input + of_order)

    spreads = dict.fromkeys([*REGIMES, "ReLU"], 0.2)
    rates, _ = claim_rates("duality-48", request_, models(prefix, means, 63.0, spreads))
    assert len(rates) == (24 if request_.only == "CNN" else 21)
    true = ("dual-4", "worst order" if side > 0 else "dual-4")  # no order is below identity
    false = {words: rate for words, rate in rates.items() if not any(map(words.__contains__, true))}
    assert claims_held_too_often(false) == {}
    assert sum(rate > 0 for rate in false.values()) > 8, "at the edge, some are held by chance"


@pytest.mark.usefixtures("only_claims")
def test_one_bad_order_of_eight_is_not_hidden_by_the_others() -> None:
    def means(_: str, seen: str, order: str) -> float:
        return 90.0 - ((seen, order) == ("ones", "2103"))

    spreads = dict.fromkeys([*REGIMES, "ReLU"], 0.2)
    draw = models("fc", means, 90.0, spreads)
    rates, _ = claim_rates("duality-48", Request(scale="full", only="FC"), draw)
    worst = {words: rate for words, rate in rates.items() if "worst order" in words}
    assert len(worst) == 4
    assert claims_held_too_often(worst) == {}
    assert min(rate for words, rate in rates.items() if "mean of 7 orders" in words) > 0.5


@pytest.mark.usefixtures("only_claims")
def test_networks_as_good_as_the_cntk_are_seldom_judged_to_be_above_or_below() -> None:
    draw = models("cnn", lambda *_: 77.43, 77.43, dict.fromkeys([*REGIMES, "ReLU"], 0.4))
    rates, _ = claim_rates("duality-48", Request(scale="full", only="CNN"), draw)
    assert (
        claims_held_too_often({words: rate for words, rate in rates.items() if "77.43" in words})
        == {}
    )


@pytest.mark.usefixtures("only_claims")
@pytest.mark.parametrize(
    ("only", "prefix", "printed", "network"),
    [
        ("CNN", "cnn", CNN_PRINTED, designs.CNN),
        *nightly(("FC", "fc", FC_PRINTED, designs.FC)),
    ],
)
def test_the_48_models_as_printed_are_held_as_often_as_the_power_says_or_more(
    only: str, prefix: str, printed: dict[str, float], network: str
) -> None:
    """More, because the models of a seed may vary together less than a design must allow for."""
    spreads = {regime: designs.of_regimes(0, network, regime).spread for regime in printed}
    draw = models(prefix, lambda regime, *_: printed[regime], printed["ReLU"], spreads)
    rates, claims = claim_rates("duality-48", Request(scale="full", only=only), draw)
    measured = [claim for claim in claims if claim.n]
    assert len(measured) == (24 if only == "CNN" else 20)
    for claim in measured:
        assert errors_above_power(rates[f"{claim.id} {claim.statistic}"], claim.power) > -3.5, claim
    by_id = {claim.id: claim.power for claim in measured}
    assert by_id["comp-1"] > 0.95
    if only == "CNN":
        assert by_id["dual-2"] < 0.3, "the printed 2.8 is nearly the bar of 3"


def cells(means: dict[str, float], spreads: dict[str, float] | float, seeds: int) -> Draw:
    """Independent networks, one for each cell and seed."""

    def draw(random: np.random.Generator) -> tuple[Runs, Values]:
        runs = {}
        for name, mean in means.items():
            spread = spreads if isinstance(spreads, float) else spreads[name]
            for seed in range(seeds):
                runs[f"{name}-s{seed}"] = scored(random.normal(mean, spread))
        return runs, PICTURES

    return draw


PICTURES: Values = {"pictures-s0": ({"filters": [[0.5]], "means": [[0.5]]}, 1.0)}
LINEAR = ("FR-II", "FR-linear", "FL", "FL-linear", "DL", "DL-linear", "ReLU")
WIRINGS = ("identity", "rotated", "tiled-2", "tiled-2-rotated", "tiled-1321-rotated")
TILED = ("ReLU", *(f"{r}-{w}" for r in ("FR-II", "FL", "DL") for w in WIRINGS))
DAVIDNET = ("ReLU", "FR-II-image", "FL-image")


ON_MNIST = Request(scale="full", only="FC")
ON_CIFAR = Request(scale="full", only="CNN")


def of_tiling(shift: float, prefix: str = "") -> dict[str, float]:
    return {prefix + name: 70.0 - shift * name.endswith("identity") for name in TILED}


def of_linear(shift: float, prefix: str = "") -> dict[str, float]:
    return {prefix + name: 70.0 - shift * name.endswith("linear") for name in LINEAR}


@pytest.mark.wide
@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(
    ("name", "request_", "world", "seeds"),
    [
        ("duality-tiling", QUICK, lambda side: of_tiling(2 * side), 3),
        ("duality-tiling", ON_MNIST, lambda side: of_tiling(side, "fc-"), 5),
        ("duality-linear-features", QUICK, lambda side: of_linear(2 * side), 3),
        ("duality-linear-features", ON_MNIST, lambda side: of_linear(side, "fc-"), 5),
        (
            "composite-hidden-outputs",
            QUICK,
            lambda side: {"ReLU": 70.0, "reversed": 70.0 + 3 * side},
            3,
        ),
        ("composite-davidnet", QUICK, lambda _: dict.fromkeys(DAVIDNET, 38.75), 3),
    ],
)
def test_claims_about_differences_where_they_are_just_false(
    name: str,
    request_: Request,
    world: Callable[[int], dict[str, float]],
    seeds: int,
    side: int,
) -> None:
    rates, _ = claim_rates(name, request_, cells(world(side), 0.5, seeds))
    assert claims_held_too_often(rates) == {}
    assert any(rates.values()), "at the edge, some are held by chance"


@pytest.mark.parametrize(
    ("name", "request_", "world", "network"),
    [
        ("duality-tiling", ON_CIFAR, of_tiling(0), designs.CNN),
        ("duality-linear-features", ON_MNIST, of_linear(0, "fc-"), designs.FC),
        *nightly(
            ("duality-tiling", ON_MNIST, of_tiling(0, "fc-"), designs.FC),
            ("duality-linear-features", ON_CIFAR, of_linear(0), designs.CNN),
        ),
        ("composite-hidden-outputs", FULL, {"ReLU": 80.0, "reversed": 80.0}, designs.CNN),
    ],
)
def test_equal_networks_are_held_equal_as_often_as_the_power_says(
    name: str, request_: Request, world: dict[str, float], network: str
) -> None:
    spreads = {}
    for cell in world:
        kinds = ("FR", "FL", "DL", "ReLU", "reversed")
        (regime,) = [r for r in kinds if cell.removeprefix("fc-").startswith(r)]
        regime = {"reversed": "FL", "FR": "FR-II"}.get(regime, regime)
        spreads[cell] = designs.of_regimes(0, network, regime).spread
    rates, claims = claim_rates(name, request_, cells(world, spreads, 5))
    for claim in claims:
        rate = rates[f"{claim.id} {claim.statistic}"]
        assert abs(errors_above_power(rate, claim.power)) < 3.5, (claim, rate)
        assert claim.power > 0.8


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("side", [1, -1])
def test_a_difference_at_the_margin_on_few_images_is_seldom_held_to_be_none(
    alike: bool, side: int
) -> None:
    """Three points apart in all the world's images, of which 360 are the test set of all seeds.

    Networks of all seeds answer alike, so that nothing varies over seeds, or each by chance.
    """

    def draw(random: np.random.Generator) -> tuple[Runs, Values]:
        shift = 0.0 if alike else 0.2
        odd = 0.03 / (1 - 2 * shift)  # more for one network than for the other
        kinds = random.choice(3, 360, p=(0.93 - odd, 0.035 + odd, 0.035))  # easy, for one, other
        runs = {}
        for name, its in (("ReLU", 1 if side > 0 else 2), ("reversed", 2 if side > 0 else 1)):
            for seed in range(3):
                chances = np.where(
                    kinds == 0, 1 - shift / 4, np.where(kinds == its, 1 - shift, shift)
                )
                right = random.random(360) < chances
                best = 100 * float(right.mean())
                answers = Answers(right, right)
                runs[f"{name}-s{seed}"] = replace(scored(best), test_examples=360, answers=answers)
        return runs, PICTURES

    rates, _ = claim_rates("composite-hidden-outputs", QUICK, draw)
    assert claims_held_too_often(rates) == {}


NOISY = {
    0: ((81.2, 0.3), (80.0, 0.4), (80.3, 0.2), (79.3, 0.4)),
    25: ((76.1, 0.6), (63.1, 0.7), (74.7, 0.5), (72.3, 0.2), (76.9, 0.1), (76.9, 0.4)),
    50: ((70.9, 0.8), (41.5, 1.1), (69.9, 0.3), (66.8, 0.1), (73.4, 0.3), (73.6, 0.4)),
    75: ((56.9, 0.4), (23.4, 0.4), (63.9, 0.4), (60.0, 0.3), (68.1, 0.4), (67.7, 0.6)),
}


def under_noise(table: dict[int, Any], seeds: int, flat: float = 0.0) -> Draw:
    """Networks of means and spreads (best, end, M2 … M5); M1's curve is flat between its ends."""

    def draw(random: np.random.Generator) -> tuple[Runs, Values]:
        runs = {}
        for level, seed in product(table, range(seeds)):
            best, last, *others = (random.normal(*cell) for cell in table[level])
            curve = best + random.normal(0, flat, 20)
            first = random.normal(*table[level][1])
            runs[f"m1-{level}-s{seed}"] = scored(best, last, (first, *curve, last))
            for model, value in zip(("m2", "m3", "m4", "m5"), others, strict=False):
                runs[f"{model}-{level}-s{seed}"] = scored(value)
        return runs, NOTHING

    return draw


@pytest.mark.wide
@pytest.mark.parametrize(("request_", "seeds"), [(QUICK, 3), (FULL, 5)])
@pytest.mark.parametrize("side", [1, -1])
def test_claims_about_noise_where_they_are_just_false(
    request_: Request, seeds: int, side: int
) -> None:
    """M2 lies at M1's end, or as far above M4 as that lies below; curves turn by a point."""
    falls = {25: 4.3, 50: 7.6, 75: 13.1}

    def level(fall: float) -> list[tuple[float, float]]:
        m4 = 80 - fall - 2 * side
        end = m4 - 4
        m2 = end if side > 0 else m4 + 4
        return [(mean, 0.4) for mean in (end + 1, end, m2, 50, m4, m4 - 2 * side)]

    table = {gamma: level(fall) for gamma, fall in falls.items()}
    table[0] = [(mean, 0.4) for mean in (80, 70, 75, 73)]
    rates, _ = claim_rates("duality-noise", request_, under_noise(table, seeds, flat=0.4))
    assert claims_held_too_often(rates) == {}
    assert sum(rate > 0 for rate in rates.values()) > 6, "at the edge, some are held by chance"


@pytest.mark.parametrize("flat", [3.0, *nightly(0.3)])
def test_a_flat_noisy_curve_has_no_peak(flat: float) -> None:
    table: dict[int, Any] = {level: [(60, flat)] * (6 if level else 4) for level in NOISY}
    rates, _ = claim_rates("duality-noise", QUICK, under_noise(table, 3, flat))
    peaks = {words: rate for words, rate in rates.items() if "peak" in words}
    assert len(peaks) == 6
    assert max(peaks.values()) <= 0.05


def test_claims_about_noise_as_printed_are_held_as_often_as_the_power_says() -> None:
    """What a curve's peak adds by its noise is not in the design, and is none here."""
    table = {
        level: [(mean, half * np.sqrt(5 / 4)) for mean, half in numbers]
        for level, numbers in NOISY.items()
    }
    rates, claims = claim_rates("duality-noise", FULL, under_noise(table, 5))
    quoted = [claim for claim in claims if not np.isnan(claim.power)]
    assert len(claims) - len(quoted) == 3, "of the first epoch nothing is printed"
    for claim in quoted:
        rate = rates.get(f"{claim.id} {claim.statistic}", 0.0)
        assert abs(errors_above_power(rate, claim.power)) < 3.5, (claim, rate)
    powers = {claim.statistic: claim.power for claim in claims}
    assert min(powers[one] for one in powers if one.startswith(("M3(0)", "M4(25)"))) > 0.8


def widths(slope: float, seeds: int, spread: float = 0.06) -> Draw:
    """Distances that fall with the width by this power, the slope itself drawn."""

    def draw(random: np.random.Generator) -> tuple[Runs, Values]:
        values = {}
        for kind, seed in product(("", "gamma-"), range(seeds)):
            steep = random.normal(slope, spread)
            for width in (32, 64, 128, 256, 512):
                values[f"{kind}w{width}-s{seed}"] = (
                    {
                        "paths": [0.2] * 5,
                        "weighted": [0.2] * 5,
                        "sum": 0.0,
                        "weighted_sum": 0.0,
                        "product": 0.0,
                        "distance": width**steep,
                    },
                    1.0,
                )
        return {}, values

    return draw


@pytest.mark.parametrize("slope", [-0.35, *nightly(-0.65)])
def test_a_slope_at_the_margin_is_seldom_held_to_be_that_of_theory(slope: float) -> None:
    rates, _ = claim_rates("composite-resnet-kernel", QUICK, widths(slope, 5))
    slopes = {words: rate for words, rate in rates.items() if "slope" in words}
    assert len(slopes) == 2
    assert claims_held_too_often(slopes) == {}
    flat, _ = claim_rates("composite-resnet-kernel", QUICK, widths(-0.05, 5), 20)
    assert {rate for words, rate in flat.items() if "slope" in words} == {0.0}


def test_the_slope_of_theory_is_held_as_often_as_the_power_says() -> None:
    rates, claims = claim_rates("composite-resnet-kernel", FULL, widths(-0.5, 10))
    for claim in (one for one in claims if "slope" in one.statistic):
        assert abs(errors_above_power(rates[f"{claim.id} {claim.statistic}"], claim.power)) < 3.5
        assert claim.power > 0.8
