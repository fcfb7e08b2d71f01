"""Expectations at initialisation: E[K^V_0] = βH, and the spectrum under random gating."""

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
    """Compute β of E[K^V_0] = βH for a network without residual blocks.

        β = Σ_l Π_{l'≠l} σ_{l'}² / P²

    with P the number of pooled positions (theory §4). For one σ and d dense layers,
    β = d·σ^{2(d-1)}; for d_cv convolutions, global average pooling and d_fc dense layers,
    β = (d_cv σ_cv^{2(d_cv-1)} σ_fc^{2d_fc} + d_fc σ_cv^{2d_cv} σ_fc^{2(d_fc-1)})/P².

    Args:
        architecture: The network.
        sigmas: Standard deviation of the weights of each weight layer.

    Returns:
        β.

    Raises:
        ArgumentError: The network has residual blocks, whose sub-networks have a constant each, or
          `sigmas` does not fit it.
    """
    check_architecture(architecture)
    if architecture.is_residual:
        raise ArgumentError(
            "architecture has residual blocks, and each of their sub-networks has its own "
            "constant; use expected_value_kernel, which sums them.",
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
    """Compute the expected value tangent kernel at initialisation, E[K^V_0] = βH.

    It is exact at any width, for gates that do not depend on Θ^v and independent zero-mean weights
    with standard deviations `sigmas`. For residual networks it is Σ_J β_J H^J over all
    sub-networks. β and Π w_l are multiplied as logarithms, so that deep wide networks do not
    overflow.

    Args:
        architecture: The network.
        gates: One tensor `(n, *gated_shapes[l])` per gate layer.
        x_value: Value input x^v, `(n, *input_shape)`.
        sigmas: Standard deviation of the weights of each weight layer.
        masks: Arg-max positions of the max poolings.
        other: Second set of inputs.

    Returns:
        E[K^V_0] per logit, `(n, n)` or, with `other`, `(n, m)`, float64.

    Raises:
        ArgumentError: An argument does not fit the architecture.

    References:
        [NPF]; [DGN] Lemma 2.2; [WS] Theorem 4.1.
    """
    check_tensor("x_value", x_value)  # None would give Λ
    check_path_inputs(architecture, PathInputs(gates, x_value, masks), other)
    check_sigmas(architecture, sigmas)
    inputs, block = PathInputs(gates, x_value, masks).join_with(other)
    if architecture.is_residual:
        return _residual_expectation(architecture, inputs, block, sigmas)
    paths = path_recursion(architecture, inputs, block=block)
    widths = sum(math.log(layer.outputs) for layer in architecture.weight_layers[:-1])
    return paths.kernel.mul_(math.exp(_log_constant(architecture, sigmas) + widths))


def _residual_expectation(
    architecture: Architecture, inputs: PathInputs, block: KernelBlock, sigmas: Sequence[float]
) -> Tensor:
    """Compute Σ_J β_J H^J = Σ_l ∂/∂σ_l² of the path kernel in which layer l is scaled by σ_l².

    The derivative is computed with dual numbers at the weight layers.
    """
    # The recursion divides by widths, so the scales are σ_l²·w_l.
    widths = [float(layer.outputs) for layer in architecture.weight_layers[:-1]]
    scales = [
        LayerScale(sigma**2 * width, width) for sigma, width in zip(sigmas, widths, strict=False)
    ]
    paths = path_recursion(architecture, inputs, by_width=True, scales=scales, block=block)
    assert paths.derivative is not None
    # Product rule for the output layer: ∂(σ_d² P)/∂σ² = σ_d² ∂P + P
    total = paths.derivative.mul_(sigmas[-1] ** 2).add_(paths.kernel)
    return total.div_(architecture.pooled_paths**2)


def weight_sigmas(weights: Sequence[Tensor]) -> list[float]:
    """Compute the root mean square of each layer's weights.

    This is σ as the weights were drawn; it is exact for ±σ.

    Args:
        weights: Weight tensors, one per layer.

    Returns:
        One number per layer.

    Raises:
        ArgumentError: A tensor is empty, not finite or of another dtype.
    """
    for index, weight in enumerate(check_tensors("weights", weights)):
        check_tensor(f"Layer {index} of weights", weight)
    return [float(weight.detach().double().square().mean().sqrt()) for weight in weights]


def random_gating_kernel(n: int, p: float, depth: int) -> Tensor:
    """Return E[K_0]/d under fixed random gating.

    For gates that are open with probability p, identical unit-norm inputs and σ = √(1/(pw)),
    E[K_0]/d is 1 on the diagonal and p^{d-1} off it (theory §7, [DGN]).

    Args:
        n: Number of examples.
        p: Probability of an open gate, in (0, 1].
        depth: Number of weight layers d.

    Returns:
        The kernel, `(n, n)`, float64.

    Raises:
        ArgumentError: `n`, `p` or `depth` is out of bounds.
    """
    check_count("n", n)
    overlap = random_gating_level(p, depth)
    return torch.full((n, n), overlap, dtype=torch.float64).fill_diagonal_(1.0)


def random_gating_eigenvalues(n: int, p: float, depth: int) -> Tensor:
    """Return the eigenvalues of `random_gating_kernel` in closed form.

    They are 1 + (n−1)p^{d-1} once and 1 − p^{d-1} otherwise.

    Args:
        n: Number of examples.
        p: Probability of an open gate, in (0, 1].
        depth: Number of weight layers d.

    Returns:
        The eigenvalues in descending order, `(n,)`, float64.

    Raises:
        ArgumentError: `n`, `p` or `depth` is out of bounds.

    Examples:
        >>> random_gating_eigenvalues(n=4, p=0.5, depth=3).tolist()
        [1.75, 0.75, 0.75, 0.75]
    """
    check_count("n", n)
    overlap = random_gating_level(p, depth)
    values = torch.full((n,), 1.0 - overlap, dtype=torch.float64)
    values[0] = 1.0 + (n - 1) * overlap
    return values


def random_gating_level(p: float, depth: int) -> float:
    """Return p^{d-1}, the overlap of two examples after d − 1 layers of random gates.

    Args:
        p: Probability of an open gate, in (0, 1].
        depth: Number of weight layers d.

    Returns:
        p^{d-1}.

    Raises:
        ArgumentError: `p` or `depth` is out of bounds.
    """
    check_number("p", p, above=0.0)
    check_count("depth", depth)
    if p > 1.0:
        raise ArgumentError(
            f"p is {p} and depth is {depth}; they must satisfy 0 < p ≤ 1 and depth ≥ 1.",
            kind="out-of-bounds",
        )
    return float(p ** (depth - 1))


def check_sigmas(architecture: Architecture, sigmas: object) -> None:
    """Check that there is one positive standard deviation per weight layer.

    Args:
        architecture: The network.
        sigmas: The argument.

    Raises:
        ArgumentError: Their number or a value is wrong, or βH is not defined for the network.
    """
    if any(isinstance(layer, ChannelScale) for layer in architecture.weight_layers):
        raise ArgumentError(
            "βH is not defined for channels that are scaled outside weight layers (a BatchNorm "
            "that follows no weight layer, as in pre-activation).",
            kind="not-supported",
        )
    why = "expected {} positive standard deviations, one per weight layer"
    numbers = check_tensors("sigmas", sigmas, len(architecture.weight_layers), why)
    for index, sigma in enumerate(numbers):
        check_number(f"Entry {index} of sigmas", sigma, above=0.0)


def _log_constant(architecture: Architecture, sigmas: Sequence[float]) -> float:
    """Compute log β with the log-sum-exp trick."""
    check_sigmas(architecture, sigmas)
    # log β = Σ log σ² + log Σ_l σ_l⁻² − 2 log P
    logs = [2 * math.log(sigma) for sigma in sigmas]
    largest = max(-log for log in logs)
    terms = sum(math.exp(-log - largest) for log in logs)
    return sum(logs) + largest + math.log(terms) - 2 * math.log(architecture.pooled_paths)
