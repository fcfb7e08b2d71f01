"""The convolutional limit kernel (CNTK), against plain torch; see `bench-peers` for a rival."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Case, Method, Work
from benchmarks.networks import convolutional_architecture, draw_examples
from benchmarks.reference import limit_kernel_of_pair
from dgn_engine.kernels import convolutional_limit

N = 8
NO_FLOOR = "it is mostly arc cosines and roots, whose rate no product or copy gives"
PLAIN = ((0, 1), (2, 5))  # the pairs on which plain torch is timed


def _ours(device: torch.device, n: int) -> Work:
    architecture = convolutional_architecture(1, 32, 1)
    x = draw_examples(architecture, n, device).double()
    return lambda: convolutional_limit(architecture, x).tangent


def _plain(device: torch.device, n: int) -> Work:
    x = draw_examples(convolutional_architecture(1, 32, 1), n, device).double()
    return lambda: torch.stack([limit_kernel_of_pair(x, s, t, depth=4) for s, t in PLAIN])


def _the_same_pairs(kernel: Tensor) -> Tensor:
    return torch.stack([kernel[s, t] for s, t in PLAIN])


CASE = Case(
    title="CNTK with GAP, 32×32, L = 4, 36 pairs in float64",
    n=N,
    quick=N,
    methods=(
        Method("dgn_engine", _ours, comparable=_the_same_pairs),
        Method("plain torch, pair by pair", _plain, share=len(PLAIN) / (N * (N + 1) / 2)),
    ),
    bars=(),
    agreement=1e-9,
    no_floor=NO_FLOOR,
)
