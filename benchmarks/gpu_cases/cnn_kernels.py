"""The heavy readings of a convolutional network: what the window shows of it, beside training."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Method, Work
from benchmarks.floors import ITEM, input_count, weight_count
from benchmarks.networks import convolutional, examples, hard_gates, network
from dgn_engine.kernels import neural_path_kernel, npk_cost, ntk_cost, overlap, tangent_kernels

ARCHITECTURE = convolutional(128, 32, 10)


def _nothing(_: Tensor) -> Tensor:
    """Each method has another result."""
    return torch.empty(0)


def _path_kernel(device: torch.device, n: int) -> Work:
    x, gates = examples(ARCHITECTURE, n, device), hard_gates(ARCHITECTURE, n, device)
    return lambda: neural_path_kernel(ARCHITECTURE, gates, x)


def _overlap(device: torch.device, n: int) -> Work:
    gates = hard_gates(ARCHITECTURE, n, device)
    return lambda: overlap(ARCHITECTURE, gates)


def _tangent(device: torch.device, n: int) -> Work:
    made, x = network(ARCHITECTURE, device, gated=True), examples(ARCHITECTURE, n, device)
    return lambda: tangent_kernels(made, x).total_kernel


def _floor_of_paths(n: int) -> Amounts:
    gates = 128 * 32 * 32 * 4  # of one example, as float32
    return Amounts(npk_cost(ARCHITECTURE, n), ITEM * (n * gates + 2 * n * n))


def _floor_of_tangent(n: int) -> Amounts:
    """K^V and K^F: twice what one network costs."""
    numbers = 2 * weight_count(ARCHITECTURE) + input_count(ARCHITECTURE, n) + n * n
    return Amounts(2 * ntk_cost(ARCHITECTURE, n), ITEM * numbers)


CASE = Case(
    title="Four convolutions of 128 channels, 32×32: H, Λ and K of 64 examples",
    n=64,
    quick=8,
    methods=(
        Method("H (neural path kernel)", _path_kernel, comparable=_nothing, floor=_floor_of_paths),
        Method("Λ (overlap)", _overlap, comparable=_nothing, floor=_floor_of_paths),
        Method("K (tangent kernel), DL", _tangent, comparable=_nothing, floor=_floor_of_tangent),
    ),
    bars=(),
    rank=9,
    dry=2,
)
