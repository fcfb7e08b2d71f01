"""Designs of contrasts of accuracies: the expected value and spread, fixed before any run.

[NPF] and [WS] print a ± for every cell (`of_printed`). [DUAL] and [COMP] rarely do; for them the
spread of one network is taken from [NPF] Table 2, whose networks are nearly the same
(`of_regimes`). The contribution of the test set was estimated in a pilot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dgn_engine.experiments._power import Design
from dgn_engine.experiments._published import number_in
from dgn_engine.protocol.experiments import Printed

FC, CNN = "FC(w=128,d=6)/Adam/MNIST", "GCONV/Adam/CIFAR-10"  # rows of [NPF] Table 2
TABLE2 = "npf_npk_2020_table2"
TABLE2_COLUMNS = {  # column → regime
    "FRNPF(II)": "FR-II",
    "FRNPF(DI)": "FR-DI",
    "DNPFL": "DL",
    "FLNPF": "FL",
    "ReLU": "ReLU",
}
COLUMNS_OF = {regime: column for column, regime in TABLE2_COLUMNS.items()}
TEST_EXAMPLES = 10_000  # of MNIST and of CIFAR-10
# Variance of a difference of two accuracies over the test examples, divided by the sum of their
# errors: 0.11 to 0.30 for pairs of these regimes on MNIST (three seeds, 4 epochs, 2026-11).
ALONE = 0.2


def of_regimes(expected: float, network: str, *regimes: str) -> Design:
    """Return the design of a contrast of accuracies of these regimes, per seed.

    Models of one seed that share gates are correlated. The spread of their mean is taken to be that
    of a single model, which is an upper bound.

    Args:
        expected: the contrast in percentage points if the paper is exactly right.
        network: `FC` or `CNN`.
        regimes: the regimes in the contrast.
    """
    terms = [(1.0, number_in(TABLE2, network, COLUMNS_OF[regime])) for regime in regimes]
    return _contrast_design(expected, terms, f"the ± of [NPF] Table 2, {network}")


def with_spread(value: float, network: str, regime: str) -> Printed:
    """Return an accuracy printed without a ±, with that of [NPF] Table 2."""
    return Printed(value, number_in(TABLE2, network, COLUMNS_OF[regime]).half_width)


def of_printed(*terms: tuple[float, Printed]) -> Design:
    """Return the design of Σ coefficient · accuracy, for cells printed with a ±."""
    expected = sum(factor * cell.value for factor, cell in terms)
    return _contrast_design(expected, terms, "the printed ± of these cells")


def _contrast_design(
    expected: float, terms: Sequence[tuple[float, Printed]], source: str
) -> Design:
    spread = math.hypot(*(factor * cell.spread for factor, cell in terms))
    if len(terms) == 1:
        ((_, cell),) = terms
        variance = cell.value * (100 - cell.value) / TEST_EXAMPLES
    else:  # examples that are hard for all networks cancel out
        errors = sum(factor**2 * (100 - cell.value) for factor, cell in terms)
        variance = ALONE * 100 * errors / TEST_EXAMPLES
    return Design(expected, spread, source, variance)
