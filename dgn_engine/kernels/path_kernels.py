"""Exact kernels that count paths: H, Λ and S, their normalisations and cost (theory §3, §5).

It also has overlap and churn of single gate layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_architecture,
    check_choice,
    check_count,
    check_inputs,
    check_kernel,
    check_tensor,
    check_tensors,
)
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.recursion import pair_numbers, path_diagonal, path_recursion
from dgn_engine.model.architecture import Architecture, AveragePool, Conv, Dense, Gating, MaxPool

Normalise = Literal["none", "trace", "width", "cosine"]
SIDE = 0.5  # a soft gate counts as open from this value on


@full_precision
def neural_path_kernel(
    architecture: Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> Tensor:
    """Compute the neural path kernel H(s, s') = ⟨φ(x_s), φ(x_{s'})⟩.

    For dense networks

        H = Σ ⊙ Λ,   Σ = X^v X^vᵀ,   Λ = Π_l τ_l,   τ_l = G_l G_lᵀ.

    For convolutions it is the exact recursion over pairs of positions,

        K_0(s, p; s', p') = ⟨x_s(·, p), x_{s'}(·, p')⟩,
        K_l(s, p; s', p') = ⟨G_l(s, ·, p), G_l(s', ·, p')⟩ · Σ_r K_{l-1}(s, p + r; s', p' + r),

    with r over the window, any stride, and zero or circular padding. Global average pooling sums
    over p and p' (path counts; its 1/P² is left to β), flattening over p = p', max pooling is one
    more hard gate, and dense layers multiply by their τ. One row of pairs is computed at a time,
    for the symmetric half only.

    Args:
        architecture: The network.
        gates: One tensor `(n, *gated_shapes[l])` per gate layer, after the wiring.
        x_value: Value input x^v, `(n, *input_shape)`.
        normalise: 'none' for path counts, 'width' to divide each τ_l by its width, 'trace' for
          trace 1, 'cosine' for a unit diagonal.
        masks: Arg-max positions of the max poolings, as in `Trace.masks`.
        other: Second set of inputs. The block has no trace, so 'trace' is not available.

    Returns:
        H, `(n, n)` or `(n, m)`, float64.

    Raises:
        ValueError: An argument does not fit the architecture.

    References:
        [NPF].
    """
    check_tensor("x_value", x_value)  # None would give Λ
    return scaled_path_kernels(architecture, PathInputs(gates, x_value, masks), normalise, other)[0]


@full_precision
def overlap(
    architecture: Architecture,
    gates: Sequence[Tensor],
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> Tensor:
    """Compute the overlap of active paths, Λ.

    For dense networks Λ = Π_l τ_l with τ_l = G_l G_lᵀ; for every architecture it is the recursion
    of `neural_path_kernel` with K_0 ≡ 1.

    Args:
        architecture: The network.
        gates: One tensor `(n, *gated_shapes[l])` per gate layer, after the wiring.
        normalise: 'none' counts active paths per input unit and overflows float64 only beyond
          10³⁰⁸; 'width' divides each τ_l by its width; 'trace' and 'cosine' as for
          `neural_path_kernel`.
        masks: Arg-max positions of the max poolings, as in `Trace.masks`.
        other: Second set of inputs.

    Returns:
        Λ, `(n, n)` or `(n, m)`, float64.

    Raises:
        ValueError: An argument does not fit the architecture.
    """
    return scaled_path_kernels(architecture, PathInputs(gates, None, masks), normalise, other)[0]


@full_precision
def sensitive_overlap(
    architecture: Architecture,
    gates: Sequence[Tensor],
    sensitivities: Sequence[Tensor],
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> Tensor:
    """Compute the sensitive overlap S.

    S is the derivative of Λ at ε = 0 under G_l G_lᵀ → G_l G_lᵀ + ε D_l D_lᵀ. For dense networks

        S = Σ_l (D_l D_lᵀ) ⊙ Π_{l'≠l} τ_{l'}.

    It is computed with dual numbers in the recursion of Λ, at O(d) for every architecture.

    Args:
        architecture: The network.
        gates: One tensor `(n, *gated_shapes[l])` per gate layer, after the wiring.
        sensitivities: Sensitivities D_l, shaped as the gates.
        normalise: As for `overlap`.
        masks: Arg-max positions of the max poolings, held fixed.
        other: Second set of inputs.

    Returns:
        S, `(n, n)` or `(n, m)`, float64.

    Raises:
        ValueError: An argument does not fit the architecture.
    """
    check_tensors("sensitivities", sensitivities)  # None would give Λ
    inputs = PathInputs(gates, None, masks, sensitivities)
    kernel = scaled_path_kernels(architecture, inputs, normalise, other)[1]
    assert kernel is not None
    return kernel


@full_precision
def scaled_path_kernels(
    architecture: Architecture,
    inputs: PathInputs,
    normalise: Normalise = "none",
    other: PathInputs | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Compute a path kernel and, with sensitivities, its derivative, both normalised.

    Args:
        architecture: The network.
        inputs: Gates, and x^v, masks and sensitivities as needed.
        normalise: As for `neural_path_kernel`.
        other: Second set of inputs.

    Returns:
        H (or Λ, without x^v) and S (or `None`), `(n, n)` or `(n, m)`, float64.

    Raises:
        ValueError: An argument does not fit the architecture.
    """
    check_choice("normalise", normalise, Normalise)
    check_path_inputs(architecture, inputs, other)
    both, block = inputs.join_with(other)
    result = path_recursion(architecture, both, by_width=normalise == "width", block=block)
    diagonals: tuple[Tensor | None, Tensor | None] = (None, None)
    if not block.is_symmetric and normalise == "cosine":
        diagonals = path_diagonal(architecture, both)
    kernel = normalise_kernel(result.kernel, normalise, result.widths, block, diagonals[0])
    if result.derivative is None:
        return kernel, None
    return kernel, normalise_kernel(
        result.derivative, normalise, result.widths, block, diagonals[1]
    )


def unit_diagonal(kernel: Tensor) -> Tensor:
    """Scale a kernel to unit diagonal, K[s, s'] / √(K[s, s] K[s', s']).

    Args:
        kernel: K, `(n, n)`.

    Returns:
        The scaled kernel, `(n, n)`. Rows and columns of examples with a zero diagonal are NaN, and
        are shown empty (theory §5).

    Raises:
        ArgumentError: `kernel` is not a square float tensor.

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


def normalise_kernel(
    kernel: Tensor,
    how: Normalise,
    widths: float,
    block: KernelBlock | None = None,
    own: Tensor | None = None,
) -> Tensor:
    """Normalise a kernel whose τ_l are all divided by their widths; only 'cosine' copies it.

    Args:
        kernel: The kernel, `(n, n)` or a block `(n, m)`.
        how: 'width' leaves it unchanged, 'none' multiplies by `widths`, 'trace' divides by the
          trace (zero stays zero), 'cosine' scales to unit diagonal.
        widths: Π_l w_l.
        block: The block of two sets of examples that `kernel` is, if it is one.
        own: Kernel of each example of both sets with itself, which 'cosine' needs for a block.

    Returns:
        The normalised kernel.

    Raises:
        ArgumentError: `how` is none of these words.
        ValueError: The trace of a block was requested.
    """
    check_choice("normalise", how, Normalise)
    match how:
        case "width":
            return kernel
        case "none":
            return kernel.mul_(widths)
        case "trace" if block is not None and not block.is_symmetric:
            raise ValueError(
                "A block of two sets of examples has no trace; use 'none' or 'width' and divide "
                "by the trace of the square kernel it belongs to."
            )
        case "trace":
            trace = kernel.trace()
            return kernel.div_(torch.where(trace > 0, trace, 1.0))
        case "cosine" if block is not None and own is not None:
            root = torch.where(own > 0, own, torch.nan).sqrt()
            return kernel / root[block.rows, None] / root[None, block.columns]
        case "cosine":
            return unit_diagonal(kernel)
    raise AssertionError(f"{how!r} should have been refused")


@full_precision
def layer_overlap(gates: Tensor, other: Tensor | None = None) -> Tensor:
    """Compute the gate overlap of one layer, τ_l = G_l G_lᵀ.

    For a convolution it is averaged over positions, Σ_{c,p} G(s, c, p) G(s', c, p)/P; that is for
    display only, because Λ does not factor into it.

    Args:
        gates: Gates, `(n, w)` or `(n, C, H, W)`.
        other: Gates of a second set of examples, `(m, ...)`.

    Returns:
        τ_l, `(n, n)` or `(n, m)`.

    Raises:
        ArgumentError: An argument is not a finite float tensor, or the shapes differ.

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
    """Compute D_l D_lᵀ of one layer, averaged over positions for a convolution.

    Args:
        sensitivities: Sensitivities D_l, `(n, w)` or `(n, C, H, W)`.
        other: Those of a second set of examples, `(m, ...)`.

    Returns:
        The overlap, `(n, n)` or `(n, m)`.

    Raises:
        ArgumentError: An argument is not a finite float tensor, or the shapes differ.
    """
    check_tensor("sensitivities", sensitivities)
    return layer_overlap(sensitivities, other)


def gate_churn(before: Sequence[Tensor], after: Sequence[Tensor]) -> tuple[float, list[float]]:
    """Compute the fraction of gates that switched between two times.

    A gate is one unit for one example; it has switched if it is on the other side of ½.

    Args:
        before: Gates of each layer, `(n, *gated_shapes[l])`.
        after: Gates of the same examples later.

    Returns:
        The fraction over all layers, and the fraction of each layer.

    Raises:
        ArgumentError: The shapes differ, or there are no layers.

    Examples:
        One of the four gates of the only layer switches:

        >>> before = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
        >>> gate_churn([before], [torch.ones(2, 2)])
        (0.25, [0.25])
    """
    for name, layers in (("before", before), ("after", after)):
        for index, layer in enumerate(check_tensors(name, layers)):
            check_tensor(f"Layer {index} of {name}", layer)
    if not before or [g.shape for g in before] != [g.shape for g in after]:
        raise ArgumentError(
            "Gate churn compares gates of the same examples and layers, but before and after are "
            "empty or have different shapes.",
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
    """Estimate the floating-point operations of `neural_path_kernel`.

    Args:
        architecture: The network.
        n: Number of examples.

    Returns:
        Number of operations.

    Raises:
        ArgumentError: An argument is of the wrong type, or `n` is below 1.
    """
    check_architecture(architecture)
    check_count("n", n)
    pairs = n * (n + 1) / 2
    cost = 0.0
    shape = architecture.input_shape
    if len(shape) == 3 and isinstance(architecture.nodes[0], Conv):
        cost += pairs * 2 * shape[0] * (shape[1] * shape[2]) ** 2
    else:
        cost += 2.0 * n * n * prod(shape)
    for node, shape, after in architecture.shape_steps():
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
    """Estimate the working memory of `neural_path_kernel` for one pair of examples.

    It is a lower bound: about eight float64 numbers per pair of positions, and per channel if a
    gate after an addition acts on channels that a pooling kept apart.

    Args:
        architecture: The network.

    Returns:
        Bytes.

    Raises:
        ArgumentError: `architecture` is of the wrong type.
    """
    check_architecture(architecture)
    return 8 * 8 * pair_numbers(architecture)
