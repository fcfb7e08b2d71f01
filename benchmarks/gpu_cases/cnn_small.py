"""A kernel on the card against torch.func on the card: the case of `make bench`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.case import Amounts
from benchmarks.cases import cnn_small
from benchmarks.cases.cnn_small import CLASSES
from benchmarks.floors import ITEM, count_inputs, count_weights
from benchmarks.networks import convolutional_architecture
from dgn_engine.kernels import ntk_cost


def _floor(n: int) -> Amounts:
    architecture = convolutional_architecture(32, 16, CLASSES)
    return Amounts(
        ntk_cost(architecture, n),
        ITEM * (count_weights(architecture) + count_inputs(architecture, n) + n * n),
    )


CASE = replace(cnn_small.CASE, rank=4, dry=4, floor=_floor)
