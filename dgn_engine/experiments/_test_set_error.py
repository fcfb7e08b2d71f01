"""The variance of a contrast of accuracies due to the finite test set, in points².

All networks are tested on the same N examples, so that more seeds do not average this error away.
A contrast is Σ c · accuracy, averaged over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dgn_engine.storage.runs.run_answers import Mask

_POINTS = 100.0  # percentage points per unit accuracy


def one_image(examples: int) -> float:
    """Return the square of one image in `examples`, a lower bound of the variance.

    0 if the number of examples is unknown (0).
    """
    return (_POINTS / examples) ** 2 if examples else 0.0


def paired_variance(terms: Sequence[tuple[float, Sequence[Mask]]]) -> float:
    """Return the variance of Σ c · accuracy for networks tested on the same examples.

    For each example i, let d_i be the mean over seeds of Σ c · correct_i. The contrast is the mean
    of the d_i, and its variance Var(d_i)/N, so that errors shared by all networks cancel.

    Args:
        terms: a coefficient and the correct examples (N,) of each seed; all N are equal.
    """
    sums: NDArray[np.float64] = np.sum(
        [coefficient * np.mean(masks, axis=0) for coefficient, masks in terms], axis=0
    )
    examples = len(sums)
    if examples < 2:
        return math.inf
    return _POINTS**2 * float(sums.var(ddof=1)) / examples


def binomial_variance(terms: Sequence[tuple[float, float]], examples: int) -> float:
    """Return an upper bound of the variance from the accuracies p (0…1) alone.

    Errors c √(p(1 − p)/N) of the same sign are taken to be fully correlated and those of opposite
    sign independent. As errors of networks are positively correlated, this is an overestimate.

    Args:
        terms: coefficients and accuracies.
        examples: N; 0 if unknown, which gives 0.
    """
    if not examples:
        return 0.0
    errors = [coefficient * math.sqrt(p * (1 - p) / examples) for coefficient, p in terms]
    plus, minus = (sum(max(0.0, sign * error) for error in errors) for sign in (1, -1))
    return _POINTS**2 * (plus**2 + minus**2)
