"""Made-up worlds: results drawn so that a claim is just false, or the paper exactly right.

They go through the experiment's own findings; what counts is how often each claim is held.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from dgn_engine.experiments import Request, _grid
from dgn_engine.experiments import find_experiment as find
from dgn_engine.experiments._accuracy_designs import ALONE
from dgn_engine.protocol.experiments import Claim
from dgn_engine.sweep.unit_results import TrainedRun
from tests.engine.experiments.made_up import MadeUpResults

FALSE = 0.05  # of the draws of a null world may be held
MANY = 10**12  # test examples, so that their chance error is none
Runs = Mapping[str, TrainedRun]
Values = Mapping[str, tuple[Any, float]]


Draw = Callable[[np.random.Generator], tuple[Runs, Values]]


class QuickT:
    """Student's t without scipy's checks, which take most of the time of a simulation."""

    @staticmethod
    def ppf(q: Any, freedom: Any) -> Any:
        return stdtrit(freedom, q)

    @staticmethod
    def sf(x: Any, freedom: Any) -> Any:
        return stdtr(freedom, -x)


def scored(
    best: float, last: float = math.nan, test: Sequence[float] = (), examples: int = MANY
) -> TrainedRun:
    """A run with these test accuracies, in percent."""
    end = best if math.isnan(last) else last
    curve = test or (end,)
    return TrainedRun(
        path=Path(),
        best=best / 100,
        last=end / 100,
        epochs=tuple(map(float, range(len(curve)))),
        train=(1.0,),
        train_loss=(0.1,),
        test=tuple(a / 100 for a in curve),
        seconds=1.0,
        diverged_at=None,
        test_examples=examples,
    )


def shared_error(
    random: np.random.Generator, middle: float, examples: int
) -> Callable[[float], float]:
    """Chance errors of a test set: one that all networks share, and one of each, by its accuracy.

    Their variances are those that `variance_of` gives to a contrast.
    """
    common = math.sqrt(max(0.0, (100 - middle) * (middle - 100 * ALONE)) / examples)
    shift = common * random.normal()

    def of_network(accuracy: float) -> float:
        return shift + math.sqrt(ALONE * 100 * (100 - accuracy) / examples) * random.normal()

    return of_network


def variance_of(terms: Sequence[_grid._Scored], examples: int, _at: str) -> float:
    """The variance of a contrast due to such a test set, which recorded answers would show."""
    parts = [(one.coefficient, sum(one.accuracies) / len(one.accuracies)) for one in terms]
    alone = ALONE * 100 * sum(factor**2 * (100 - mean) for factor, mean in parts)
    common = sum(factor for factor, _ in parts) ** 2
    mean = parts[0][1]
    return float(alone + common * max(0.0, (100 - mean) * (mean - 100 * ALONE))) / examples


def claimed_region(statistic: str) -> tuple[float, float]:
    """The region that the words after a statistic claim."""
    words = statistic.rpartition("; ")[2]
    if found := re.fullmatch(r"within ±(\S+)(?: of (\S+))?", words):
        middle, half = float(found[2] or 0), float(found[1])
        return middle - half, middle + half
    side, limit = words.split()
    return (float(limit), math.inf) if side == "above" else (-math.inf, float(limit))


def claim_rates(
    name: str,
    request: Request,
    draw: Callable[[np.random.Generator], tuple[Runs, Values]],
    draws: int,
) -> tuple[dict[str, float], list[Claim]]:
    """How often each claim was held in so many draws, by its words; and the claims of the last."""
    findings = find(name).findings
    random, held = np.random.default_rng(20261123), Counter[str]()
    claims: tuple[Claim, ...] = ()
    for _ in range(draws):
        claims = findings(request, MadeUpResults(*draw(random))).claims
        held.update(_words(claim) for claim in claims if claim.verdict == "held")
    return {_words(claim): held[_words(claim)] / draws for claim in claims}, list(claims)


def _words(claim: Claim) -> str:
    return f"{claim.id} {claim.statistic}"


def claims_held_too_often(rates: Mapping[str, float], draws: int) -> dict[str, float]:
    """The claims whose rate is more than 5 %, by more than chance (99 %)."""
    error = math.sqrt(FALSE * (1 - FALSE) / draws)
    return {words: rate for words, rate in rates.items() if rate > FALSE + 2.33 * error}
