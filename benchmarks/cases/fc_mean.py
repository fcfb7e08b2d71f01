"""The tangent kernel of a dense network, mean over logits, against the PyTorch tutorial."""

from __future__ import annotations

import torch

from benchmarks.case import Case, Faster, Leaner, Method, Work
from benchmarks.networks import dense, examples, network, plain_module
from benchmarks.reference import tutorial
from dgn_engine.kernels import tangent_kernels

CLASSES = 10


def _ours(device: torch.device, n: int) -> Work:
    architecture = dense(CLASSES)
    made, x = network(architecture, device), examples(architecture, n, device)
    return lambda: tangent_kernels(made, x).total_kernel


def _tutorial(device: torch.device, n: int) -> Work:
    architecture = dense(CLASSES)
    module, x = plain_module(architecture, device), examples(architecture, n, device)
    return lambda: tutorial(module, x, x, "trace") / CLASSES


CASE = Case(
    title="FC 784-128×5-10, NTK, mean over logits",
    n=200,
    quick=50,
    methods=(Method("dgn_engine", _ours), Method("torch.func tutorial", _tutorial)),
    bars=(Faster("torch.func tutorial", 250), Leaner("torch.func tutorial", 100)),
    memory=True,
)
