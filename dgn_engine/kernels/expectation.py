"""Expectations at initialisation: E[K^V_0] = βH, and the spectrum of random gating."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_architecture,
    check_count,
    check_number,
    check_tensor,
    check_tensors,
)
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.recursion import path_recursion
from dgn_engine.kernels.walk import LayerScale
from dgn_engine.model.architecture import Architecture, ChannelScale


def value_kernel_constant(architecture: Architecture, sigmas: Sequence[float]) -> float:
    """β = Σ_l Π_{l'≠l} σ_{l'}² / P² for the standard deviation of each weight layer's weights
    (networks without residual blocks, where every sub-network has a constant of its own).

    With one σ: d·σ^{2(d-1)} (FC); with σ_cv and σ_fc and global average pooling over P positions
    (d_cv σ_cv^{2(d_cv-1)} σ_fc^{2d_fc} + d_fc σ_cv^{2d_cv} σ_fc^{2(d_fc-1)})/P² (THEORY §4).
    """
    check_architecture(architecture)
    if architecture.residual:
        raise ArgumentError(
            "architecture has residual blocks, whose sub-networks have a constant each; "
            "expected_value_kernel sums them.",
            kind="not-supported",
        )
    return math.exp(_log_constant(architecture, sigmas))


def expected_value_kernel(
    architecture: Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    sigmas: Sequence[float],
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> Tensor:
    """E[K^V_0] = βH (n, n), float64, per logit; exact at any width, for gates that do not depend
    on Θ^v and independent zero-mean weights with the standard deviations `sigmas`. Against `other`
    the block (n, m).

    Computed in logarithms of β and Π w_l, so that deep wide networks do not overflow.
    Sources: [NPF], [DGN] Lemma 2.2, [WS] Theorem 4.1.
    """
    check_tensor("x_value", x_value)  # None would be Λ
    check_path_inputs(architecture, PathInputs(gates, x_value, masks), other)
    check_sigmas(architecture, sigmas)
    inputs, block = PathInputs(gates, x_value, masks).joined(other)
    if architecture.residual:
        return _residual_expectation(architecture, inputs, block, sigmas)
    paths = path_recursion(architecture, inputs, block=block)
    widths = sum(math.log(layer.outputs) for layer in architecture.weighted[:-1])
    return paths.kernel.mul_(math.exp(_log_constant(architecture, sigmas) + widths))


def _residual_expectation(
    architecture: Architecture, inputs: PathInputs, block: KernelBlock, sigmas: Sequence[float]
) -> Tensor:
    """Σ_J β_J H^J as Σ_l ∂/∂σ_l² of the path kernel in which each layer weighs σ_l²: dual
    numbers, as they give S, at the weight layers."""
    # The recursion divides by widths: σ_l² is multiplied with them.
    widths = [float(layer.outputs) for layer in architecture.weighted[:-1]]
    scales = [
        LayerScale(sigma**2 * width, width) for sigma, width in zip(sigmas, widths, strict=False)
    ]
    paths = path_recursion(architecture, inputs, by_width=True, scales=scales, block=block)
    assert paths.derivative is not None
    # The output layer weighs σ², too, and is the last term of the sum.
    total = paths.derivative.mul_(sigmas[-1] ** 2).add_(paths.kernel)
    return total.div_(architecture.pooled_paths**2)


def weight_sigmas(weights: Sequence[Tensor]) -> list[float]:
    """Root mean square of each layer's weights: σ as it was drawn, exactly for ±σ."""
    for place, weight in enumerate(check_tensors("weights", weights)):
        check_tensor(f"Layer {place} of weights", weight)
    return [float(weight.detach().double().square().mean().sqrt()) for weight in weights]


def random_gating_kernel(n: int, p: float, depth: int) -> Tensor:
    """E[K_0]/d (n, n) under fixed random gating with probability p, identical unit inputs and
    σ = √(1/(pw)): one on the diagonal, p^{d-1} off it (THEORY §7, [DGN])."""
    check_count("n", n)
    level = random_gating_level(p, depth)
    return torch.full((n, n), level, dtype=torch.float64).fill_diagonal_(1.0)


def random_gating_eigenvalues(n: int, p: float, depth: int) -> Tensor:
    """Its eigenvalues (n,) in closed form, descending: 1 + (n-1)p^{d-1} once, 1 - p^{d-1} else.

    Examples:
        >>> random_gating_eigenvalues(n=4, p=0.5, depth=3).tolist()
        [1.75, 0.75, 0.75, 0.75]
    """
    check_count("n", n)
    level = random_gating_level(p, depth)
    values = torch.full((n,), 1.0 - level, dtype=torch.float64)
    values[0] = 1.0 + (n - 1) * level
    return values


def random_gating_level(p: float, depth: int) -> float:
    """p^{d-1}, how alike two examples stay after d-1 layers of random gates."""
    check_number("p", p, above=0.0)
    check_count("depth", depth)
    if p > 1.0:
        raise ArgumentError(
            f"p is {p} and the depth {depth}; 0 < p ≤ 1 and depth ≥ 1 are needed.",
            kind="out-of-bounds",
        )
    return float(p ** (depth - 1))


def check_sigmas(architecture: Architecture, sigmas: object) -> None:
    """One positive standard deviation for each weight layer."""
    if any(isinstance(layer, ChannelScale) for layer in architecture.weighted):
        raise ArgumentError(
            "βH is not defined where channels are scaled apart from weight layers (a BatchNorm of "
            "its own, as in pre-activation).",
            kind="not-supported",
        )
    why = "{} positive standard deviations are needed, one per weight layer"
    found = check_tensors("sigmas", sigmas, len(architecture.weighted), why)
    for place, sigma in enumerate(found):
        check_number(f"Number {place} of sigmas", sigma, above=0.0)


def _log_constant(architecture: Architecture, sigmas: Sequence[float]) -> float:
    check_sigmas(architecture, sigmas)
    logs = [2 * math.log(sigma) for sigma in sigmas]
    largest = max(-log for log in logs)
    terms = sum(math.exp(-log - largest) for log in logs)
    return sum(logs) + largest + math.log(terms) - 2 * math.log(architecture.pooled_paths)
