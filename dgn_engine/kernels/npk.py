"""The neural path kernel H = Φᵀ Φ, exact for dense and convolutional networks (THEORY §3)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.kernels.normalise import Normalise, normalised
from dgn_engine.kernels.recursion import pair_numbers, path_recursion
from dgn_engine.model.architecture import Architecture, AveragePool, Conv, Dense, Gating, MaxPool


def neural_path_kernel(
    architecture: Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
) -> Tensor:
    """H (n, n), float64, for x^v (n, *input_shape) and gates[l] (n, *gated_shapes[l]).

    Dense networks: Σ ⊙ Λ. Convolutions: the exact recursion over pairs of positions, any stride,
    zero or circular padding, average pooling (path counts: its 1/P² is left to β), max pooling
    (`masks` as in `Trace.masks`: one more hard gate), flattening, then τ of each dense layer. One
    row of pairs at a time, symmetric half only.
    Source: [NPF] Lemma 2.1 and Theorem 5.1.
    """
    n = gates[0].shape[0] if gates else x_value.shape[0]
    if tuple(x_value.shape) != (n, *architecture.input_shape):
        raise UserError(
            f"The inputs have shape {tuple(x_value.shape)}; "
            f"{(n, *architecture.input_shape)} is needed."
        )
    result = path_recursion(
        architecture, gates, x_value, masks=masks, by_width=normalise == "width"
    )
    return normalised(result.kernel, normalise, result.widths)


def npk_cost(architecture: Architecture, n: int) -> float:
    """Estimated floating-point operations of `neural_path_kernel` for n examples."""
    pairs = n * (n + 1) / 2
    cost = 0.0
    shape = architecture.input_shape
    if len(shape) == 3 and isinstance(architecture.nodes[0], Conv):
        cost += pairs * 2 * shape[0] * (shape[1] * shape[2]) ** 2
    else:
        cost += 2.0 * n * n * _size(shape)
    for node, after in architecture.shapes():
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
        shape = after
    return cost


def pair_bytes(architecture: Architecture) -> int:
    """Working memory of one pair of examples in `neural_path_kernel`, at least: about eight
    float64 numbers for each pair of positions, of each channel where a gate after an addition
    meets channels that a max pooling or an average left apart."""
    return 8 * 8 * pair_numbers(architecture)


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size
