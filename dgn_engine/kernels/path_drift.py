"""How far path features and path values have moved between two times, without listing paths.

‖φ_t - φ_0‖² = H_tt - 2 H_t0 + H_00 for each example, where H_t0 is the path kernel of the example
with itself under the gates of two times: the recursion of a pair whose two members are the same
input under two sets of gates. ‖v_t - v_0‖² follows in the same way from ⟨v_t, v_0⟩, the sum over
paths of the product of both values, which one pass of the products of the weights gives.
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
    """⟨φ_t, φ_t⟩, ⟨φ_t, φ_0⟩ and ⟨φ_0, φ_0⟩ of each example, (n,) float64."""

    now: Tensor
    both: Tensor
    then: Tensor

    @property
    def moved(self) -> Tensor:
        """‖φ_t - φ_0‖² (n,), not below zero by rounding."""
        return (self.now - 2.0 * self.both + self.then).clamp(min=0.0)


@torch.no_grad()
@full_precision
def feature_moments(
    architecture: arch.Architecture, now: PathInputs, then: PathInputs
) -> FeatureMoments:
    """Of the same n examples at two times; exact, O(n) recursions of a pair.

    Bundles of convolutional paths as in `neural_path_kernel`; factors of residual blocks are part
    of φ. Source: [NPF], with the gates of two times in the place of two inputs.
    """
    moments = [_pair(architecture, now, then, place) for place in range(len(now.gates[0]))]
    found = torch.stack(moments)
    return FeatureMoments(found[:, 0], found[:, 1], found[:, 2])


def _pair(architecture: arch.Architecture, now: PathInputs, then: PathInputs, place: int) -> Tensor:
    pair = slice(place, place + 1)
    one, two = (_part(inputs, pair) for inputs in (now, then))
    both, _ = one.joined(two)
    assert both.x_value is not None
    kernel = neural_path_kernel(architecture, both.gates, both.x_value, masks=both.masks)
    return torch.stack([kernel[0, 0], kernel[0, 1], kernel[1, 1]])


def _part(inputs: PathInputs, rows: slice) -> PathInputs:
    gates = [gate[rows] for gate in inputs.gates]
    x = None if inputs.x_value is None else inputs.x_value[rows]
    return PathInputs(gates, x, [mask[rows] for mask in inputs.masks])


@torch.no_grad()
def value_product(
    architecture: arch.Architecture, one: Sequence[Tensor], two: Sequence[Tensor]
) -> float:
    """⟨v, v'⟩ = Σ_p v(p) v'(p) over all paths and logits, for two sets of weights, one tensor per
    weight layer; paths that share their weights (a bundle) count once, every sub-network of
    residual blocks counts. float64, one pass of the elementwise products W_l ∘ W'_l.
    """
    weights = [a.double() * b.double() for a, b in zip(one, two, strict=True)]
    z = weights[0].new_ones(architecture.input_shape[0])
    kept: list[Tensor] = []
    place = 0
    for node, shape, _ in architecture.steps():
        match node:
            case arch.Flatten():
                z = z.repeat_interleave(prod(shape[1:]))
            case arch.Fork():
                kept.append(z)
            case arch.Skip():
                z, kept[-1] = kept[-1], z
            case arch.Merge():
                z = z + kept.pop()
            case arch.Dense() | arch.Conv():
                z = (
                    weights[place].flatten(2).sum(2) @ z
                    if weights[place].dim() > 2
                    else (weights[place] @ z)
                )
            case arch.ChannelScale():
                z = weights[place] * z
        place += arch.is_weighted(node)
    return float(z.sum())


def relative_drift(now: float, both: float, then: float) -> tuple[float, float]:
    """‖a_t - a_0‖/‖a_0‖ and cos(a_t, a_0), from the squares and the product; NaN where it is 0/0.

    By cancellation the former is known to about 10⁻⁸ of itself in float64, whatever its size.
    """
    nothing = float("nan")
    moved = (max(now - 2.0 * both + then, 0.0) / then) ** 0.5 if then > 0 else nothing
    turned = both / (now * then) ** 0.5 if now > 0 and then > 0 else nothing
    return moved, turned
