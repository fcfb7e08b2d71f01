"""Kernels that count paths, exactly: H, Λ and the sensitive S, their scalings and their cost
(THEORY §3, §5); overlap and churn of single layers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_architecture,
    check_count,
    check_inputs,
    check_kernel,
    check_tensor,
    check_tensors,
    check_word,
)
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.recursion import pair_numbers, path_diagonal, path_recursion
from dgn_engine.model.architecture import Architecture, AveragePool, Conv, Dense, Gating, MaxPool

Normalise = Literal["none", "trace", "width", "cosine"]
SIDE = 0.5  # a soft gate counts as open from here on


@full_precision
def neural_path_kernel(
    architecture: Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> Tensor:
    """H (n, n), float64, for x^v (n, *input_shape) and gates[l] (n, *gated_shapes[l]); against
    `other` the block (n, m).

    Dense networks: Σ ⊙ Λ. Convolutions: the exact recursion over pairs of positions, any stride,
    zero or circular padding, average pooling (path counts: its 1/P² is left to β), max pooling
    (`masks` as in `Trace.masks`: one more hard gate), flattening, then τ of each dense layer. One
    row of pairs at a time, symmetric half only. A block has no 'trace': divide it by that of the
    square kernel it belongs to.
    Source: [NPF].
    """
    check_tensor("x_value", x_value)  # None would be Λ
    return paths(architecture, PathInputs(gates, x_value, masks), normalise, other)[0]


@full_precision
def overlap(
    architecture: Architecture,
    gates: Sequence[Tensor],
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> Tensor:
    """Λ (n, n), float64: the NPK recursion with K_0 ≡ 1; Π_l τ_l for dense networks. Against
    `other` the block (n, m).

    `gates[l]` is (n, *gated_shapes[l]), after the wiring. 'none' counts active paths (per input
    unit) and overflows float64 only beyond 10³⁰⁸; 'width' divides each τ_l by its width. With
    max pooling its masks (`Trace.masks`) are needed too.
    """
    return paths(architecture, PathInputs(gates, None, masks), normalise, other)[0]


@full_precision
def sensitive_overlap(
    architecture: Architecture,
    gates: Sequence[Tensor],
    sensitivities: Sequence[Tensor],
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> Tensor:
    """S (n, n), float64: the derivative of Λ at ε = 0 under G_lG_lᵀ → G_lG_lᵀ + εD_lD_lᵀ. Against
    `other` the block (n, m).

    For dense networks Σ_l (D_lD_lᵀ) ⊙ Π_{l'≠l} τ_{l'}. Computed for every architecture with dual
    numbers in the recursion of Λ, O(d). `gates[l]`, `sensitivities[l]`: (n, *gated_shapes[l]).
    Max-pooling `masks` are held fixed.
    """
    check_tensors("sensitivities", sensitivities)  # None would be Λ
    inputs = PathInputs(gates, None, masks, sensitivities)
    found = paths(architecture, inputs, normalise, other)[1]
    assert found is not None
    return found


@full_precision
def paths(
    architecture: Architecture,
    inputs: PathInputs,
    normalise: Normalise = "none",
    other: PathInputs | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The recursion's kernel and, where there are sensitivities, its derivative, each scaled:
    (n, n), or (n, m) against `other`."""
    check_word("normalise", normalise, Normalise)
    check_path_inputs(architecture, inputs, other)
    both, block = inputs.joined(other)
    result = path_recursion(architecture, both, by_width=normalise == "width", block=block)
    own: tuple[Tensor | None, Tensor | None] = (None, None)
    if not block.symmetric and normalise == "cosine":
        own = path_diagonal(architecture, both)
    kernel = normalised(result.kernel, normalise, result.widths, block, own[0])
    if result.derivative is None:
        return kernel, None
    return kernel, normalised(result.derivative, normalise, result.widths, block, own[1])


def unit_diagonal(kernel: Tensor) -> Tensor:
    """K[s, s'] / √(K[s, s] K[s', s']) for K (n, n).

    Rows and columns of examples with a zero diagonal become NaN: they are shown empty (THEORY §5).

    Examples:
        >>> unit_diagonal(torch.tensor([[4.0, 1.0], [1.0, 1.0]])).tolist()
        [[1.0, 0.5], [0.5, 1.0]]
    """
    check_kernel("kernel", kernel)
    diagonal = kernel.diagonal()
    root = torch.where(diagonal > 0, diagonal, torch.nan).sqrt()
    scaled = kernel / root[:, None] / root[None, :]
    scaled.diagonal()[diagonal > 0] = 1.0
    return scaled


def normalised(
    kernel: Tensor,
    how: Normalise,
    widths: float,
    block: KernelBlock | None = None,
    own: Tensor | None = None,
) -> Tensor:
    """Scale a kernel (n, n), in place, whose every τ_l was already divided by its width.

    'width' leaves it so, 'none' multiplies by `widths` = Π w_l, 'trace' divides by the trace
    (zero stays zero), 'cosine' makes the diagonal one. Of two sets of examples it is their `block`
    (n, m), and `own` the kernel of each example of both with itself, for 'cosine'.
    Raises `ArgumentError` for any other word.
    """
    check_word("normalise", how, Normalise)
    match how:
        case "width":
            return kernel
        case "none":
            return kernel.mul_(widths)
        case "trace" if block is not None and not block.symmetric:
            raise ValueError(
                "A block of two sets of examples has no trace; take 'none' or 'width' and divide "
                "by the trace of the square kernel that it belongs to."
            )
        case "trace":
            trace = kernel.trace()
            return kernel.div_(torch.where(trace > 0, trace, 1.0))
        case "cosine" if block is not None and own is not None:
            root = torch.where(own > 0, own, torch.nan).sqrt()
            return kernel / root[block.rows, None] / root[None, block.columns]
        case "cosine":
            return unit_diagonal(kernel)
    raise AssertionError(f"{how!r} was to be refused")


@full_precision
def layer_overlap(gates: Tensor, other: Tensor | None = None) -> Tensor:
    """τ_l = G_l G_lᵀ (n, n) for gates (n, w) or, averaged over positions, (n, C, H, W); against
    `other` (m, ...) the block (n, m).

    For convolutions Σ_{c,p} G(s,c,p)G(s',c,p)/P: for display only, Λ does not factor into it.

    Examples:
        Two examples with three units each; one unit is open for both:

        >>> gates = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
        >>> layer_overlap(gates).tolist()
        [[2.0, 1.0], [1.0, 2.0]]
    """
    check_tensor("gates", gates)
    if other is not None:
        check_inputs("other", other, tuple(gates.shape[1:]), like=gates)
    flat = gates.flatten(1)
    positions = flat.shape[1] // gates.shape[1]
    columns = flat if other is None else other.flatten(1)
    return (flat @ columns.T) / positions


@full_precision
def layer_sensitivity(sensitivities: Tensor, other: Tensor | None = None) -> Tensor:
    """D_l D_lᵀ (n, n) of one layer, averaged over positions for convolutions; against `other`
    (m, ...) the block (n, m)."""
    check_tensor("sensitivities", sensitivities)
    return layer_overlap(sensitivities, other)


def gate_churn(before: Sequence[Tensor], after: Sequence[Tensor]) -> tuple[float, list[float]]:
    """Share of (example, unit) gates on the other side of ½ than before: in all, and by layer.

    `before[l]`, `after[l]`: gates of the same examples, (n, *gated_shapes[l]).
    Raises `ArgumentError` where the shapes differ.

    Examples:
        One of the four gates of the only layer switches:

        >>> before = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
        >>> gate_churn([before], [torch.ones(2, 2)])
        (0.25, [0.25])
    """
    for name, layers in (("before", before), ("after", after)):
        for place, layer in enumerate(check_tensors(name, layers)):
            check_tensor(f"Layer {place} of {name}", layer)
    if not before or [g.shape for g in before] != [g.shape for g in after]:
        raise ArgumentError(
            "Gate churn compares gates of the same examples and layers; before and after have "
            "different shapes, or none.",
            kind="not-supported",
        )
    switched = [
        int(((now >= SIDE) != (then >= SIDE)).sum())
        for then, now in zip(before, after, strict=True)
    ]
    sizes = [gates.numel() for gates in after]
    by_layer = [count / size for count, size in zip(switched, sizes, strict=True)]
    return sum(switched) / max(sum(sizes), 1), by_layer


def npk_cost(architecture: Architecture, n: int) -> float:
    """Estimated floating-point operations of `neural_path_kernel` for n examples."""
    check_architecture(architecture)
    check_count("n", n)
    pairs = n * (n + 1) / 2
    cost = 0.0
    shape = architecture.input_shape
    if len(shape) == 3 and isinstance(architecture.nodes[0], Conv):
        cost += pairs * 2 * shape[0] * (shape[1] * shape[2]) ** 2
    else:
        cost += 2.0 * n * n * prod(shape)
    for node, shape, after in architecture.steps():
        if isinstance(node, Conv):
            before = (shape[1] + 2 * node.padding) * (shape[2] + 2 * node.padding)
            positions = after[1] * after[2]
            cost += pairs * (2 * after[0] * positions**2 + 2 * node.kernel * before**2)
        elif isinstance(node, Gating) and len(after) == 3:
            cost += pairs * 2 * after[0] * (after[1] * after[2]) ** 2
        elif isinstance(node, (MaxPool, AveragePool)):
            cost += pairs * 8 * after[0] * (after[1] * after[2]) ** 2
        elif isinstance(node, Dense) and node.gated:
            cost += 2.0 * n * n * node.outputs
    return cost


def pair_bytes(architecture: Architecture) -> int:
    """Working memory of one pair of examples in `neural_path_kernel`, at least: about eight
    float64 numbers for each pair of positions, of each channel where a gate after an addition
    meets channels that a max pooling or an average left apart."""
    check_architecture(architecture)
    return 8 * 8 * pair_numbers(architecture)
