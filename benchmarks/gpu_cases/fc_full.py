"""A kernel on the card against torch.func on the card: the case of `make bench`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.case import Amounts
from benchmarks.cases import fc_full
from benchmarks.cases.fc_full import CLASSES
from benchmarks.floors import ITEM, count_inputs, count_weights
from benchmarks.networks import dense_architecture
from dgn_engine.model.architecture import weight_shape


def _floor(n: int) -> Amounts:
    """Return the least work over layers a → b: a forward pass, a backward pass per logit, then
    ZZᵀ ⊙ ΔΔᵀ, that is Σ 2nab(1 + C) + 2n²a + 2(nC)²b operations; the result is written once."""
    architecture = dense_architecture(CLASSES)
    flops = sum(
        2.0 * n * a * b * (1 + CLASSES) + 2.0 * n * n * a + 2.0 * (n * CLASSES) ** 2 * b
        for b, a in map(weight_shape, architecture.weight_layers)
    )
    return Amounts(
        flops,
        ITEM * (count_weights(architecture) + count_inputs(architecture, n) + (n * CLASSES) ** 2),
    )


CASE = replace(fc_full.CASE, rank=3, dry=8, floor=_floor)
