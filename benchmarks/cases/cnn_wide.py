"""The one-logit tangent kernel of a wide convolutional network, in training steps."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Method, Within, Work
from benchmarks.floors import count_tangent_work, count_training_work
from benchmarks.networks import (
    convolutional_architecture,
    draw_examples,
    make_network,
    make_plain_module,
)
from dgn_engine.config import GatingConfig, RunConfig, TrainingConfig
from dgn_engine.kernels import tangent_kernels


def _ours(device: torch.device, n: int) -> Work:
    architecture = convolutional_architecture(128, 32, 1)
    model, x = make_network(architecture, device), draw_examples(architecture, n, device)
    return lambda: tangent_kernels(model, x).total_kernel


def _step(device: torch.device, n: int) -> Work:
    architecture = convolutional_architecture(128, 32, 1)
    module, x = make_plain_module(architecture, device), draw_examples(architecture, n, device)
    optimiser = torch.optim.SGD(module.parameters(), lr=1e-6)

    def work() -> Tensor:
        optimiser.zero_grad()
        module(x).square().mean().backward()
        optimiser.step()
        return x[:0]

    return work


def _floor(n: int) -> Amounts:
    return count_tangent_work(convolutional_architecture(128, 32, 1), n)


def _floor_of_step(n: int) -> Amounts:
    """Return the least work of a step of SGD, whose optimiser has no state."""
    sgd = RunConfig(
        training=TrainingConfig(optimiser="sgd", batch=n), gating=GatingConfig(regime="ReLU")
    )
    return count_training_work(sgd, convolutional_architecture(128, 32, 1), n, 1)


CASE = Case(
    title="CNN 4×128, 32×32, one logit, NTK",
    n=64,
    quick=16,
    methods=(
        Method("dgn_engine", _ours),
        Method("training step of the same batch", _step, floor=_floor_of_step),
    ),
    bars=(Within("training step of the same batch", 1.2),),
    memory=True,
    floor=_floor,
)
