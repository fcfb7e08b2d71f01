"""The expensive readings of a convolutional network, as the window computes them."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Method, Work
from benchmarks.floors import ITEM, count_inputs, count_weights
from benchmarks.networks import (
    convolutional_architecture,
    draw_examples,
    draw_hard_gates,
    make_network,
)
from dgn_engine.kernels import neural_path_kernel, npk_cost, ntk_cost, overlap, tangent_kernels

ARCHITECTURE = convolutional_architecture(128, 32, 10)


def _compare_nothing(_: Tensor) -> Tensor:
    """Return an empty result: the methods compute different kernels."""
    return torch.empty(0)


def _path_kernel(device: torch.device, n: int) -> Work:
    x, gates = draw_examples(ARCHITECTURE, n, device), draw_hard_gates(ARCHITECTURE, n, device)
    return lambda: neural_path_kernel(ARCHITECTURE, gates, x)


def _overlap(device: torch.device, n: int) -> Work:
    gates = draw_hard_gates(ARCHITECTURE, n, device)
    return lambda: overlap(ARCHITECTURE, gates)


def _tangent(device: torch.device, n: int) -> Work:
    model, x = (
        make_network(ARCHITECTURE, device, gated=True),
        draw_examples(ARCHITECTURE, n, device),
    )
    return lambda: tangent_kernels(model, x).total_kernel


def _floor_of_paths(n: int) -> Amounts:
    gates = 128 * 32 * 32 * 4  # of one example, as float32
    return Amounts(npk_cost(ARCHITECTURE, n), ITEM * (n * gates + 2 * n * n))


def _floor_of_tangent(n: int) -> Amounts:
    """Return the least work of K^V and K^F: twice that of one network."""
    numbers = 2 * count_weights(ARCHITECTURE) + count_inputs(ARCHITECTURE, n) + n * n
    return Amounts(2 * ntk_cost(ARCHITECTURE, n), ITEM * numbers)


CASE = Case(
    title="Four convolutions of 128 channels, 32×32: H, Λ and K of 64 examples",
    n=64,
    quick=8,
    methods=(
        Method(
            "H (neural path kernel)",
            _path_kernel,
            comparable=_compare_nothing,
            floor=_floor_of_paths,
        ),
        Method("Λ (overlap)", _overlap, comparable=_compare_nothing, floor=_floor_of_paths),
        Method(
            "K (tangent kernel), DL", _tangent, comparable=_compare_nothing, floor=_floor_of_tangent
        ),
    ),
    bars=(),
    rank=9,
    dry=2,
)
