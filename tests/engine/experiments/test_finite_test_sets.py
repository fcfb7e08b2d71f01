"""Networks that are tested on the same few images: no claim of accuracies is held too often.

Worlds are drawn at random: an accuracy of each cell, a test set of 360 images of which some are
hard for all networks and some for those of one cell, and the networks of each seed. Results go
through the experiments' own findings; what is true is what the same findings say of the accuracies
on all images there could be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from dgn_engine.experiments import Request, all_experiments
from dgn_engine.experiments import find_experiment as find
from dgn_engine.protocol.experiments import Claim
from dgn_engine.sweep.unit import Training, Unit
from dgn_engine.sweep.unit_results import Answers, TrainedRun
from tests.engine.experiments.made_up import QUICK, MadeUpResults, make_run_of
from tests.engine.experiments.worlds import (
    Runs,
    Values,
    claim_rates,
    claimed_region,
    claims_held_too_often,
    scored,
)
from tests.plugins import each

EXAMPLES, EPOCHS, DRAWS = 360, 3, 12
SHARED, OWN, NOISE, SEED = 1.0, 0.4, 0.4, 0.02  # spreads of what makes an image hard
SPREAD = math.sqrt(SHARED**2 + OWN**2 + NOISE**2 + SEED**2)
Cells = Mapping[str, float]  # accuracies (0…1) on all images there could be

pytestmark = pytest.mark.usefixtures("quick_worlds")


def run(curve: Sequence[float], answers: Answers | None, loss: float) -> TrainedRun:
    return make_run_of(
        1009,
        best=max(curve),
        last=curve[-1],
        epochs=tuple(float(epoch + 1) for epoch in range(len(curve))),
        train=(0.999,) * len(curve),
        train_loss=(loss,) * len(curve),
        test=tuple(curve),
        seconds=1.0,
        answers=answers,
        test_examples=EXAMPLES,
    )


def cell_of(unit: Unit) -> str:
    return unit.id.rpartition("-s")[0]


def on_all(units: Sequence[Unit], cells: Cells) -> Runs:
    """Runs with the accuracies on all images."""
    return {unit.id: run((cells[cell_of(unit)],) * EPOCHS, None, 0.1) for unit in units}


def on_few(units: Sequence[Unit], cells: Cells, draw: np.random.Generator) -> Runs:
    """Runs that were tested, at each epoch, on one small test set."""
    shared = SHARED * draw.standard_normal(EXAMPLES)
    own = {cell: OWN * draw.standard_normal(EXAMPLES) for cell in cells}
    found = {}
    for unit in units:
        cell = cell_of(unit)
        hard = shared + own[cell] + NOISE * draw.standard_normal(EXAMPLES) + SEED * draw.normal()
        right = hard < norm.ppf(cells[cell]) * SPREAD
        curve = (float(right.mean()),) * EPOCHS
        found[unit.id] = run(curve, Answers(right, right), 0.1 * math.exp(0.1 * draw.normal()))
    return found


def of_accuracies(name: str) -> bool:
    """Whether all that an experiment reads on the quick scale are runs."""
    return all(isinstance(unit, Training) for unit in find(name).plan(QUICK).units)


NAMES = [name for name in all_experiments() if of_accuracies(name)]


def claims(name: str, request: Request, runs: Runs) -> Iterator[Claim]:
    for claim in find(name).findings(request, MadeUpResults(runs)).claims:
        if not claim.exact and claim.n:
            yield claim


@pytest.mark.parametrize("name", each(NAMES))
def test_what_is_false_of_all_images_is_seldom_held_on_few(name: str) -> None:
    units, draw = find(name).plan(QUICK).units, np.random.default_rng(20261123)
    wrong = held = covered = seen = 0
    for _ in range(DRAWS):
        cells = {cell_of(unit): 0.9 + 0.02 * float(draw.uniform(-1, 1)) for unit in units}
        truths = claims(name, QUICK, on_all(units, cells))
        for truth, claim in zip(
            truths, claims(name, QUICK, on_few(units, cells, draw)), strict=True
        ):
            if "loss" in claim.statistic:  # which no test set has a part in
                continue
            low, high = claimed_region(claim.statistic)
            seen += 1
            is_unbounded = math.isnan(claim.low)  # a share of a gap that may be none
            covered += is_unbounded or claim.low <= truth.value <= claim.high
            if not low < truth.value < high:
                wrong += 1
                held += claim.verdict == "held"
    assert covered >= 0.93 * seen - 1  # of an added experiment they are few
    assert held <= 0.05 * wrong + 3 * math.sqrt(0.05 * 0.95 * wrong)


@pytest.mark.parametrize("name", each(NAMES))
def test_equal_networks_decide_nothing_finer_than_an_image(name: str) -> None:
    """All are right on the same images: every interval of theirs is as wide as one, at least."""
    units = find(name).plan(QUICK).units
    right = np.arange(EXAMPLES) < 350
    runs = {unit.id: run((350 / EXAMPLES,) * EPOCHS, Answers(right, right), 0.1) for unit in units}
    for claim in claims(name, QUICK, runs):
        if "loss" in claim.statistic or ")/(" in claim.statistic:  # or a share of no gap
            assert claim.verdict.startswith("not decided"), claim.statistic
        else:
            assert claim.high - claim.low >= 100 / EXAMPLES, claim.statistic


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("side", [1, -1])
def test_a_difference_at_the_margin_on_few_images_is_seldom_held_to_be_none(
    alike: bool, side: int
) -> None:
    """Three points apart in all the world's images, of which 360 are the test set of all seeds.

    Networks of all seeds answer alike, so that nothing varies over seeds, or each by chance.
    """

    pictures: Values = {"pictures-s0": ({"filters": [[0.5]], "means": [[0.5]]}, 1.0)}

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
                runs[f"{name}-s{seed}"] = replace(scored(best, examples=360), answers=answers)
        return runs, pictures

    rates, _ = claim_rates("composite-hidden-outputs", QUICK, draw, 60)
    assert claims_held_too_often(rates, 60) == {}
