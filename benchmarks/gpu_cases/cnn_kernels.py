"""The expensive readings of a convolutional network, as the window computes them."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Method, Work
from benchmarks.floors import count_path_work, count_tangent_work
from benchmarks.networks import (
    convolutional_architecture,
    draw_examples,
    draw_hard_gates,
    make_network,
)
from dgn_engine.kernels import neural_path_kernel, overlap, tangent_kernels

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
    """Return the least work of H by products: a card multiplies hard gates like soft ones."""
    return count_path_work(ARCHITECTURE, n, bits=False)


def _floor_of_tangent(n: int) -> Amounts:
    return count_tangent_work(ARCHITECTURE, n, feature=True)


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
