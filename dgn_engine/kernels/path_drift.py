"""Distances that path features and path values move in training, without enumerating paths.

‖φ_t − φ_0‖² = H_tt − 2H_t0 + H_00 for each example, where H_t0 is the path kernel of the example
with itself under the gates of two times: the recursion of a pair of equal inputs with two sets of
gates. ‖v_t − v_0‖² follows likewise from ⟨v_t, v_0⟩, the sum over paths of the product of both
values, which one pass of the elementwise products of the weights gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from dgn_engine.kernels.path_inputs import PathInputs
from dgn_engine.kernels.path_kernels import neural_path_kernel
from dgn_engine.kernels.precision import full_precision
from dgn_engine.model import architecture as arch


@dataclass(frozen=True)
class FeatureMoments:
    """Products of path features at two times, `(n,)` each, float64.

    Attributes:
        now: ⟨φ_t, φ_t⟩.
        both: ⟨φ_t, φ_0⟩.
        then: ⟨φ_0, φ_0⟩.
    """

    now: Tensor
    both: Tensor
    then: Tensor

    @property
    def squared_drift(self) -> Tensor:
        """‖φ_t − φ_0‖², clamped at zero against rounding.

        Returns:
            Squared distances, `(n,)`.
        """
        return (self.now - 2.0 * self.both + self.then).clamp(min=0.0)


@torch.no_grad()
@full_precision
def feature_moments(
    architecture: arch.Architecture, now: PathInputs, then: PathInputs
) -> FeatureMoments:
    """Compute the products of path features of the same examples at two times.

    They are exact and cost O(n) recursions of a pair. Convolutional paths are bundled as in
    `neural_path_kernel`; the factors of residual blocks are part of φ.

    Args:
        architecture: The network.
        now: Gates, x^v and masks at time t.
        then: The same at time 0.

    Returns:
        The products.

    References:
        [NPF], with the gates of two times instead of two inputs.
    """
    moments = [_pair_moments(architecture, now, then, index) for index in range(len(now.gates[0]))]
    stacked = torch.stack(moments)
    return FeatureMoments(stacked[:, 0], stacked[:, 1], stacked[:, 2])


def _pair_moments(
    architecture: arch.Architecture, now: PathInputs, then: PathInputs, index: int
) -> Tensor:
    """Compute the three products of one example, `(3,)`."""
    pair = slice(index, index + 1)
    first, second = (_select_examples(inputs, pair) for inputs in (now, then))
    both, _ = first.join_with(second)
    assert both.x_value is not None
    # the same input twice, under the gates of both times: H_tt, H_t0 and H_00
    kernel = neural_path_kernel(architecture, both.gates, both.x_value, masks=both.masks)
    return torch.stack([kernel[0, 0], kernel[0, 1], kernel[1, 1]])


def _select_examples(inputs: PathInputs, rows: slice) -> PathInputs:
    """Select some examples of path inputs."""
    gates = [gate[rows] for gate in inputs.gates]
    x = None if inputs.x_value is None else inputs.x_value[rows]
    return PathInputs(gates, x, [mask[rows] for mask in inputs.masks])


@torch.no_grad()
def value_product(
    architecture: arch.Architecture, one: Sequence[Tensor], two: Sequence[Tensor]
) -> float:
    """Compute ⟨v, v'⟩ = Σ_p v(p) v'(p) over all paths and logits for two sets of weights.

    Paths that share their weights (a bundle) count once, and every sub-network of residual blocks
    counts. It is one forward pass with the elementwise products W_l ∘ W'_l.

    Args:
        architecture: The network.
        one: Weights v, one tensor per weight layer.
        two: Weights v', likewise.

    Returns:
        The product, summed in float64.
    """
    weights = [a.double() * b.double() for a, b in zip(one, two, strict=True)]
    z = weights[0].new_ones(architecture.input_shape[0])
    pending: list[Tensor] = []
    layer = 0
    for node, shape, _ in architecture.shape_steps():
        match node:
            case arch.Flatten():
                z = z.repeat_interleave(prod(shape[1:]))
            case arch.Fork():
                pending.append(z)
            case arch.Skip():
                z, pending[-1] = pending[-1], z
            case arch.Merge():
                z = z + pending.pop()  # paths of block and skip together
            case arch.Dense() | arch.Conv():
                z = (
                    weights[layer].flatten(2).sum(2) @ z
                    if weights[layer].dim() > 2
                    else (weights[layer] @ z)
                )
            case arch.ChannelScale():
                z = weights[layer] * z
        layer += arch.is_weighted(node)
    return float(z.sum())


def relative_drift(now: float, both: float, then: float) -> tuple[float, float]:
    """Compute the relative distance and the cosine of two vectors from their products.

    Cancellation limits the distance to about 10⁻⁸ relative accuracy in float64.

    Args:
        now: ⟨a_t, a_t⟩.
        both: ⟨a_t, a_0⟩.
        then: ⟨a_0, a_0⟩.

    Returns:
        ‖a_t − a_0‖/‖a_0‖ and cos(a_t, a_0); NaN for 0/0.
    """
    undefined = float("nan")
    moved = (max(now - 2.0 * both + then, 0.0) / then) ** 0.5 if then > 0 else undefined
    cosine = both / (now * then) ** 0.5 if now > 0 and then > 0 else undefined
    return moved, cosine
