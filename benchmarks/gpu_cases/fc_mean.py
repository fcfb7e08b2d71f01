"""A kernel on the card against torch.func on the card: the case of `make bench`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.case import Amounts
from benchmarks.cases import fc_mean
from benchmarks.cases.fc_mean import CLASSES
from benchmarks.floors import ITEM, count_inputs, count_weights
from benchmarks.networks import dense_architecture
from dgn_engine.kernels import ntk_cost


def _floor(n: int) -> Amounts:
    architecture = dense_architecture(CLASSES)
    return Amounts(
        ntk_cost(architecture, n),
        ITEM * (count_weights(architecture) + count_inputs(architecture, n) + n * n),
    )


CASE = replace(fc_mean.CASE, rank=5, dry=8, floor=_floor)
