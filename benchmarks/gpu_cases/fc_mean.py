"""A kernel on the card against torch.func on the card: the case of `make bench`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.case import Amounts
from benchmarks.cases import fc_mean
from benchmarks.cases.fc_mean import CLASSES
from benchmarks.floors import ITEM, input_count, weight_count
from benchmarks.networks import dense
from dgn_engine.kernels import ntk_cost


def _floor(n: int) -> Amounts:
    made = dense(CLASSES)
    return Amounts(ntk_cost(made, n), ITEM * (weight_count(made) + input_count(made, n) + n * n))


CASE = replace(fc_mean.CASE, rank=5, dry=8, floor=_floor)
