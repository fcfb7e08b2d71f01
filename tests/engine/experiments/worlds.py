"""Made-up worlds: results drawn so that a claim is just false, or the paper exactly right.

They go through the experiment's own findings; what counts is how often each claim is held.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from dgn_engine.experiments import Request
from dgn_engine.experiments import find_experiment as find
from dgn_engine.protocol.experiments import Claim
from dgn_engine.sweep.unit_results import TrainedRun
from tests.engine.experiments.made_up import MadeUpResults

DRAWS = 80  # 400 by `make faults`: see the fixture `draws`
FALSE = 0.05  # of the draws of a null world may be held
MANY = 10**12  # test examples, so that their chance error is none
Runs = Mapping[str, TrainedRun]
Values = Mapping[str, tuple[Any, float]]


class QuickT:
    """Student's t without scipy's checks, which take most of the time of a simulation."""

    @staticmethod
    def ppf(q: Any, freedom: Any) -> Any:
        return stdtrit(freedom, q)

    @staticmethod
    def sf(x: Any, freedom: Any) -> Any:
        return stdtr(freedom, -x)


def scored(best: float, last: float = math.nan, test: Sequence[float] = ()) -> TrainedRun:
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
        test_examples=MANY,
    )


def claim_rates(
    name: str,
    request: Request,
    draw: Callable[[np.random.Generator], tuple[Runs, Values]],
    draws: int = 0,
) -> tuple[dict[str, float], list[Claim]]:
    """How often each claim was held in so many draws, or `DRAWS`, by its words; and the claims of
    the last draw."""
    draws = draws or DRAWS
    findings = find(name).findings
    random, held = np.random.default_rng(20261123), Counter[str]()
    claims: tuple[Claim, ...] = ()
    for _ in range(draws):
        claims = findings(request, MadeUpResults(*draw(random))).claims
        held.update(_words(claim) for claim in claims if claim.verdict == "held")
    return {_words(claim): held[_words(claim)] / draws for claim in claims}, list(claims)


def _words(claim: Claim) -> str:
    return f"{claim.id} {claim.statistic}"


def claims_held_too_often(rates: Mapping[str, float], draws: int = 0) -> dict[str, float]:
    """The claims whose rate is more than 5 %, by more than chance (99 %)."""
    error = math.sqrt(FALSE * (1 - FALSE) / (draws or DRAWS))
    return {words: rate for words, rate in rates.items() if rate > FALSE + 2.33 * error}


def errors_above_power(rate: float, power: float, draws: int = 0) -> float:
    """How many standard errors a rate lies above the quoted power."""
    error = math.sqrt(max(power * (1 - power), 0.005) / (draws or DRAWS))
    return (rate - power) / error
