"""What a finite test set adds to the variance of a contrast of accuracies, in points².

All networks are tested on the same N examples. More seeds do not average that away: another test
set would have given another difference. A contrast is Σ c · accuracy, the mean over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dgn_engine.storage.runs.run_answers import Mask

_POINTS = 100.0  # in an accuracy of 1


def one_image(examples: int) -> float:
    """The variance below which no contrast is known: one image of so many, squared.

    0 where it is not known how many there are.
    """
    return (_POINTS / examples) ** 2 if examples else 0.0


def paired_variance(terms: Sequence[tuple[float, Sequence[Mask]]]) -> float:
    """Of Σ c · accuracy over networks that answered the same examples.

    Each example i has d_i, the mean over seeds of Σ c · right_i; the mean of the d_i is the
    contrast, and its variance Var(d_i)/N. So errors that all networks share cancel.

    Args:
        terms: a coefficient with the right answers (N,) of each seed; all N are equal.
    """
    sums: NDArray[np.float64] = np.sum(
        [coefficient * np.mean(masks, axis=0) for coefficient, masks in terms], axis=0
    )
    examples = len(sums)
    if examples < 2:
        return math.inf
    return _POINTS**2 * float(sums.var(ddof=1)) / examples


def binomial_variance(terms: Sequence[tuple[float, float]], examples: int) -> float:
    """A bound on the same where answers are not known, by accuracies p (0…1) alone.

    Networks that are right on the same examples add up: the errors c √(p(1 − p)/N) of one sign
    are summed before they are squared. Those of opposite signs are taken for independent; where
    errors go together, as they do, that is too large.
    """
    if not examples:
        return 0.0
    errors = [coefficient * math.sqrt(p * (1 - p) / examples) for coefficient, p in terms]
    plus, minus = (sum(max(0.0, sign * one) for one in errors) for sign in (1, -1))
    return _POINTS**2 * (plus**2 + minus**2)
