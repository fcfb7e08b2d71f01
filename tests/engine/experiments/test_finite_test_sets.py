"""Networks that are tested on the same few images: no claim of accuracies is held too often.

Worlds are drawn at random: an accuracy of each cell, a test set of 360 images of which some are
hard for all networks and some for those of one cell, and the networks of each seed. Results go
through the experiments' own findings; what is true is what the same findings say of the accuracies
on all images there could be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from scipy.stats import norm

from dgn_engine.experiments import Request, all_experiments
from dgn_engine.experiments import find_experiment as find
from dgn_engine.protocol.experiments import Claim
from dgn_engine.sweep.unit import Training, Unit
from dgn_engine.sweep.unit_results import Answers, TrainedRun
from tests.engine.experiments.made_up import QUICK, MadeUpResults, make_run_of
from tests.engine.experiments.worlds import Runs
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


def is_false(value: float, statistic: str) -> bool:
    """Whether a value does not lie where the words after the statistic want it."""
    words = statistic.rpartition("; ")[2]
    if found := re.fullmatch(r"within ±(\S+)(?: of (\S+))?", words):
        return abs(value - float(found[2] or 0)) >= float(found[1])
    side, limit = words.split()
    return value <= float(limit) if side == "above" else value >= float(limit)


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
            seen += 1
            covered += claim.low <= truth.value <= claim.high
            if is_false(truth.value, claim.statistic):
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
        if "loss" in claim.statistic:
            assert claim.verdict.startswith("not decided"), claim.statistic
        else:
            assert claim.high - claim.low >= 100 / EXAMPLES, claim.statistic
