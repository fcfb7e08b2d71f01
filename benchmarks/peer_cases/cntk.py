"""The convolutional limit kernel, seconds per pair of examples, against neural-tangents."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Case, Faster, Method, Work
from benchmarks.cases.cntk import NO_FLOOR
from benchmarks.networks import convolutional_architecture, draw_examples
from benchmarks.peer import PeerWork
from dgn_engine.kernels import convolutional_limit

RIVAL = "neural-tangents, float32, jitted, 4 pairs"
N = 8


def _ours(device: torch.device, n: int) -> Work:
    architecture = convolutional_architecture(1, 32, 1)
    x = draw_examples(architecture, n, device).double()
    return lambda: convolutional_limit(architecture, x).tangent


def _theirs(device: torch.device, n: int) -> Work:
    x = draw_examples(convolutional_architecture(1, 32, 1), n, device)
    return PeerWork("cntk", {"one": x[:2], "two": x[2:4]})


def _the_same_pairs(kernel: Tensor) -> Tensor:
    return kernel[:2, 2:4]


CASE = Case(
    title="CNTK with GAP, 32×32, L = 4, one pair",
    n=N,
    quick=N,
    methods=(
        Method("dgn_engine, float64, 36 pairs", _ours, N * (N + 1) / 2, _the_same_pairs),
        Method(RIVAL, _theirs, share=4),
    ),
    bars=(Faster(RIVAL, 50),),
    agreement=1e-3,
    no_floor=NO_FLOOR,
    most_rounds=7,
)
