"""The path kernel of a convolutional network with hard gates, against plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Faster, Method, Work
from benchmarks.floors import count_path_work
from benchmarks.networks import convolutional_architecture, draw_examples, draw_hard_gates
from benchmarks.reference import path_kernel_of_pair
from dgn_engine.kernels import neural_path_kernel

N = 64
PAIRS_TIMED = 32  # of the plain recursion, spread over the whole kernel


def _ours(device: torch.device, n: int) -> Work:
    architecture = convolutional_architecture(128, 32, 1)
    gates, x = draw_hard_gates(architecture, n, device), draw_examples(architecture, n, device)
    return lambda: neural_path_kernel(architecture, gates, x, "width")


def _plain(device: torch.device, n: int) -> Work:
    architecture = convolutional_architecture(128, 32, 1)
    gates, x = draw_hard_gates(architecture, n, device), draw_examples(architecture, n, device)
    places = [(i % n, 5 * i % n) for i in range(PAIRS_TIMED)]

    def work() -> Tensor:
        return torch.stack([path_kernel_of_pair(gates, x, s, t) for s, t in places])

    return work


def _the_same_pairs(kernel: Tensor) -> Tensor:
    n = len(kernel)
    return torch.stack([kernel[i % n, 5 * i % n] for i in range(PAIRS_TIMED)])


def _floor(n: int) -> Amounts:
    return count_path_work(convolutional_architecture(128, 32, 1), n, bits=True)


CASE = Case(
    title="CNN + GAP 4×128, 32×32, NPK with hard gates",
    n=N,
    quick=N,
    methods=(
        Method("dgn_engine", _ours, comparable=_the_same_pairs),
        Method("plain torch, pair by pair", _plain, share=PAIRS_TIMED / (N * (N + 1) / 2)),
    ),
    bars=(Faster("plain torch, pair by pair", 3.0),),
    most_rounds=7,
    floor=_floor,
)
