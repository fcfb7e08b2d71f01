"""Full-batch gradient descent on ½Σe², in float64, with everything the dynamics are about."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.kernels import tangent_kernels
from dgn_engine.model.network import GatedNetwork


@dataclass(frozen=True)
class DescentStep:
    """One step as it is about to be taken: errors e_t (n,), K_t (n, n), gates by layer."""

    step: int
    error: Tensor
    kernel: Tensor | None
    gates: tuple[Tensor, ...]


@dataclass(frozen=True)
class Descent:
    """From start to end: K_0 (n, n), its eigenvalues (n,) ascending, ‖e_t‖²/‖e_0‖² by step."""

    kernel: Tensor
    eigenvalues: Tensor
    errors: list[float]


def course(network: GatedNetwork, x: Tensor, y: Tensor, steps: int) -> Descent:
    """Full-batch descent at α = 0.1/ρ_max(K_0). The network is trained."""
    kernel = tangent_kernels(network, x, feature_trained=False).value
    values = torch.linalg.eigvalsh(kernel)
    moments = descend(network, x, y, 0.1 / float(values[-1]), steps, kernels=False)
    squares = [float(moment.error.square().sum()) for moment in moments]
    return Descent(kernel, values, [square / squares[0] for square in squares])


def log_left(share: float) -> float:
    """log10 of what is left of the error's square; -30 where that is nothing."""
    return math.log10(max(share, 1e-30))


def descend(
    network: GatedNetwork, x: Tensor, y: Tensor, rate: float, steps: int, kernels: bool = True
) -> Iterator[DescentStep]:
    """The moments 0 … `steps`; y (n,) are targets of the one logit. The network is trained."""
    network.value.requires_grad_(True)
    weights = list(network.value.parameters())
    for step in range(steps + 1):
        trace = network.trace(x)
        error = trace.value.output[:, 0] - y
        kernel = None
        if kernels:
            with torch.no_grad():
                found = tangent_kernels(network, x, feature_trained=False, trace=trace)
                kernel = found.value.detach()
        yield DescentStep(
            step, error.detach(), kernel, tuple(g.detach() for g in trace.value.gates)
        )
        slopes = torch.autograd.grad(0.5 * error.square().sum(), weights)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight.sub_(rate * slope)
