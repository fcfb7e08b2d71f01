"""The tangent kernel of a dense network, mean over logits, against the PyTorch tutorial."""

from __future__ import annotations

import torch

from benchmarks.case import Amounts, Case, Faster, Leaner, Method, Work
from benchmarks.floors import count_tangent_work
from benchmarks.networks import dense_architecture, draw_examples, make_network, make_plain_module
from benchmarks.reference import tutorial_kernel
from dgn_engine.kernels import tangent_kernels

CLASSES = 10


def _ours(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(CLASSES)
    model, x = make_network(architecture, device), draw_examples(architecture, n, device)
    return lambda: tangent_kernels(model, x).total_kernel


def _tutorial(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(CLASSES)
    module, x = make_plain_module(architecture, device), draw_examples(architecture, n, device)
    return lambda: tutorial_kernel(module, x, x, "trace") / CLASSES


def _floor(n: int) -> Amounts:
    return count_tangent_work(dense_architecture(CLASSES), n)


CASE = Case(
    title="FC 784-128×5-10, NTK, mean over logits",
    n=200,
    quick=50,
    methods=(Method("dgn_engine", _ours), Method("torch.func tutorial", _tutorial)),
    bars=(Faster("torch.func tutorial", 250), Leaner("torch.func tutorial", 100)),
    memory=True,
    floor=_floor,
)
