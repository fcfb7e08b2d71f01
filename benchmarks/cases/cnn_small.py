"""The tangent kernel of a small convolutional network, 10 logits, against the tutorial."""

from __future__ import annotations

import torch

from benchmarks.case import Amounts, Case, Faster, Leaner, Method, Work
from benchmarks.floors import count_tangent_work
from benchmarks.networks import (
    convolutional_architecture,
    draw_examples,
    make_network,
    make_plain_module,
)
from benchmarks.reference import tutorial_kernel
from dgn_engine.kernels import tangent_kernels

CLASSES = 10


def _ours(device: torch.device, n: int) -> Work:
    architecture = convolutional_architecture(32, 16, CLASSES)
    model, x = make_network(architecture, device), draw_examples(architecture, n, device)
    return lambda: tangent_kernels(model, x).total_kernel


def _tutorial(device: torch.device, n: int) -> Work:
    architecture = convolutional_architecture(32, 16, CLASSES)
    module, x = make_plain_module(architecture, device), draw_examples(architecture, n, device)
    return lambda: tutorial_kernel(module, x, x, "trace") / CLASSES


def _floor(n: int) -> Amounts:
    return count_tangent_work(convolutional_architecture(32, 16, CLASSES), n)


CASE = Case(
    title="CNN 4×32, 16×16, 10 logits, NTK",
    n=32,
    quick=16,
    methods=(Method("dgn_engine", _ours), Method("torch.func tutorial", _tutorial)),
    bars=(Faster("torch.func tutorial", 2.0), Leaner("torch.func tutorial", 3.0)),
    memory=True,
    floor=_floor,
)
