"""A Monte-Carlo estimate of the NPK with its error bar, linear in the examples (THEORY §3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_architecture,
    check_count,
    check_generator,
    check_tensor,
    check_word,
)
from dgn_engine.kernels.gram import accumulator, flat_gram
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.path_kernels import Normalise, normalised
from dgn_engine.model.architecture import Architecture, ChannelScale, weight_shape
from dgn_engine.model.stack import run


@dataclass(frozen=True)
class KernelEstimate:
    """`kernel` (n, n) or a block (n, m), unbiased; `error`, one standard error of each entry before
    the normalisation's own scale varies; `relative` the same over the whole kernel (Frobenius)."""

    kernel: Tensor
    error: Tensor
    relative: float


@torch.no_grad()
def estimate_path_kernel(
    architecture: Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    draws: int,
    generator: torch.Generator,
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> KernelEstimate:
    """H (n, n) from `draws` ≥ 2 value networks with random ±σ weights and these gates; against
    `other` the block (n, m).

    With zz' summed over the last hidden layer, E = H·Πσ²: the output weights are integrated out.
    σ_l² = 1/w_l, so that nothing overflows. The relative error falls as 1/√draws. Weights are
    drawn on the CPU: a seed means the same estimate on every device, to rounding.
    """
    check_architecture(architecture)
    check_word("normalise", normalise, Normalise)
    if architecture.residual and normalise != "width":
        raise ArgumentError(
            "For residual blocks the estimate is weighted by σ; use normalise 'width'."
        )
    check_tensor("x_value", x_value)  # None would be Λ
    check_path_inputs(architecture, PathInputs(gates, x_value, masks), other)
    check_count("draws", draws, 2)  # of fewer there is no error bar
    check_generator(generator)
    inputs, block = PathInputs(gates, x_value, masks).joined(other)
    assert inputs.x_value is not None
    widths = 1.0
    for layer in architecture.weighted[:-1]:
        widths *= 1.0 if isinstance(layer, ChannelScale) else float(layer.outputs)
    total = torch.zeros(block.shape, dtype=accumulator(x_value), device=x_value.device)
    squares = torch.zeros_like(total)
    nothing: list[Tensor | None] = [None] * len(architecture.weighted)
    positions = architecture.pooled_paths
    for _ in range(draws):
        weights = _signs(architecture, generator, x_value)
        trace = run(
            architecture, weights, nothing, inputs.x_value, lambda i, _: inputs.gates[i],
            inputs.masks,
        )  # fmt: skip
        hidden = trace.inputs[-1]
        sample = flat_gram(hidden[block.rows], hidden[block.columns]).to(total.dtype)
        sample = sample * positions**2
        total += sample
        squares += sample.square()
    mean = total / draws
    variance = (squares / draws - mean.square()).clamp(min=0) / (draws - 1)
    relative = float(variance.sum().sqrt() / mean.norm())
    plain = mean.clone()
    if not block.symmetric and normalise == "cosine":
        raise ValueError(
            "The estimate of a block has no 'cosine': its diagonals are not estimated; take 'none' "
            "or 'width'."
        )
    kernel = normalised(mean, normalise, widths, block)
    scale = torch.where(plain != 0, kernel / plain, 0.0)
    return KernelEstimate(kernel, variance.sqrt() * scale.abs(), relative)


def _signs(architecture: Architecture, generator: torch.Generator, like: Tensor) -> list[Tensor]:
    weights = []
    last = len(architecture.weighted) - 1
    for place, layer in enumerate(architecture.weighted):
        signs = torch.randint(0, 2, weight_shape(layer), generator=generator)
        sigma = 1.0 if place == last else layer.outputs**-0.5
        one = isinstance(layer, ChannelScale)
        weights.append((torch.ones(signs.shape) if one else sigma * (2.0 * signs - 1.0)).to(like))
    return weights
