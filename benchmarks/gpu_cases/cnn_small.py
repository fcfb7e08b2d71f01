"""A kernel on the card against torch.func on the card: the case of `make bench`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.case import Amounts
from benchmarks.cases import cnn_small
from benchmarks.cases.cnn_small import CLASSES
from benchmarks.floors import ITEM, input_count, weight_count
from benchmarks.networks import convolutional
from dgn_engine.kernels import ntk_cost


def _floor(n: int) -> Amounts:
    made = convolutional(32, 16, CLASSES)
    return Amounts(ntk_cost(made, n), ITEM * (weight_count(made) + input_count(made, n) + n * n))


CASE = replace(cnn_small.CASE, rank=4, dry=4, floor=_floor)
