"""The path kernel of a dense network for many examples: bounded memory."""

from __future__ import annotations

import torch

from benchmarks.case import Amounts, Bounded, Case, Method, Work
from benchmarks.floors import count_path_work
from benchmarks.networks import dense_architecture, draw_examples, draw_hard_gates
from dgn_engine.kernels import neural_path_kernel

N = 10_000


def _ours(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(10)
    gates, x = draw_hard_gates(architecture, n, device), draw_examples(architecture, n, device)
    return lambda: neural_path_kernel(architecture, gates, x, "width")


def _floor(n: int) -> Amounts:
    return count_path_work(dense_architecture(10), n, bits=True)


CASE = Case(
    title="FC 784-128×5-10, NPK",
    n=N,
    quick=N,
    methods=(Method("dgn_engine", _ours),),
    bars=(Bounded("dgn_engine", result=8 * N**2, at_most=2 << 30),),
    memory=True,
    most_rounds=5,
    floor=_floor,
)
