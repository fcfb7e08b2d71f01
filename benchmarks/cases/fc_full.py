"""The tangent kernel of a dense network for every pair of logits, against the tutorial."""

from __future__ import annotations

import torch

from benchmarks.case import Amounts, Case, Faster, Method, Work
from benchmarks.floors import count_tangent_work
from benchmarks.networks import dense_architecture, draw_examples, make_network, make_plain_module
from benchmarks.reference import tutorial_kernel
from dgn_engine.kernels import tangent_kernels

CLASSES = 10


def _ours(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(CLASSES)
    model, x = make_network(architecture, device), draw_examples(architecture, n, device)
    return lambda: tangent_kernels(model, x, "full").total_kernel


def _tutorial(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(CLASSES)
    module, x = make_plain_module(architecture, device), draw_examples(architecture, n, device)
    return lambda: tutorial_kernel(module, x, x, "full")


def _floor(n: int) -> Amounts:
    return count_tangent_work(dense_architecture(CLASSES), n, full=True)


CASE = Case(
    title="FC 784-128×5-10, NTK, full (n, C, n, C)",
    n=200,
    quick=50,
    methods=(
        Method("dgn_engine", _ours, comparable=lambda kernel: kernel.permute(0, 2, 1, 3)),
        Method("torch.func tutorial", _tutorial),
    ),
    bars=(Faster("torch.func tutorial", 250),),
    memory=True,
    floor=_floor,
)
