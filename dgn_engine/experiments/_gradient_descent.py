"""Full-batch gradient descent on ½Σe² in float64, for a network and for a constant kernel."""

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
    """The state before a step: errors e_t (n,), K_t (n, n), gates by layer."""

    step: int
    error: Tensor
    kernel: Tensor | None
    gates: tuple[Tensor, ...]


@dataclass(frozen=True)
class Descent:
    """A complete descent: K_0 (n, n), its eigenvalues (n,) ascending, ‖e_t‖²/‖e_0‖² by step."""

    kernel: Tensor
    eigenvalues: Tensor
    errors: list[float]


def train_full_batch(network: GatedNetwork, x: Tensor, y: Tensor, steps: int) -> Descent:
    """Train the value network by full-batch descent with α = 0.1/ρ_max(K_0).

    Args:
        network: the network, in float64.
        x: inputs (n, *input_shape).
        y: targets (n,) of the only logit.
        steps: number of steps.
    """
    kernel = tangent_kernels(network, x, trains=("value",)).total_kernel
    values = torch.linalg.eigvalsh(kernel)
    descent = iterate_descent(network, x, y, 0.1 / float(values[-1]), steps, kernels=False)
    squares = [float(step.error.square().sum()) for step in descent]
    return Descent(kernel, values, [square / squares[0] for square in squares])


def descend_with_kernel(kernel: Tensor, y: Tensor, steps: int) -> list[float]:
    """Return ‖e_t‖²/‖e_0‖², t = 0 … steps, of e ← (I − αK)e from e = y, with α = 0.1/ρ_max.

    This is gradient descent of a network with constant kernel.
    """
    values, vectors = torch.linalg.eigh(kernel)
    share = (vectors.T @ y).square() / y.square().sum()
    rate = (1 - 0.1 * values.clamp(min=0) / values[-1]).square()
    return [float((share * rate**t).sum()) for t in range(steps + 1)]


def log_remainder(share: float) -> float:
    """Return log10 of the remaining share of ‖e‖²; at least −30."""
    return math.log10(max(share, 1e-30))


def iterate_descent(
    network: GatedNetwork, x: Tensor, y: Tensor, rate: float, steps: int, kernels: bool = True
) -> Iterator[DescentStep]:
    """Train the value network with rate α and yield the state before each step 0 … `steps`.

    Args:
        network: the network, in float64.
        x: inputs (n, *input_shape).
        y: targets (n,) of the only logit.
        rate: learning rate α.
        steps: number of steps.
        kernels: whether to compute K_t.
    """
    network.value.requires_grad_(True)
    weights = list(network.value.parameters())
    for step in range(steps + 1):
        trace = network.trace(x)
        error = trace.value.output[:, 0] - y
        kernel = None
        if kernels:
            with torch.no_grad():
                both = tangent_kernels(network, x, trains=("value",), trace=trace)
                kernel = both.total_kernel.detach()
        yield DescentStep(
            step, error.detach(), kernel, tuple(g.detach() for g in trace.value.gates)
        )
        if step == steps:
            return
        slopes = torch.autograd.grad(0.5 * error.square().sum(), weights)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight.sub_(rate * slope)
