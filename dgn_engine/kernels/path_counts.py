"""Path counts of one example in a dense network, by dynamic programming forwards and backwards.

A path is an input and one unit of each layer, ending in the chosen logit. Its activity A(x, p) is
the product of its gates and its contribution is x(p_0)·A(x, p)·v(p); the contributions of all
paths sum to the output ([NPF]). For chains of dense layers without biases and residual blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from dgn_engine.model.architecture import Architecture, Dense, Flatten


@dataclass(frozen=True)
class PathSums:
    """Path counts and contributions for one example and one logit.

    Attributes:
        total: Number of paths that end in the logit.
        active: Sum of their activities; their number for hard gates.
        sensitive: Sum over pairs of a path and a gate on it: the gate's sensitivity times the other
          gates of the path; the number of sensitive ones for hard gates.
        output: The logit.
        through: Part of `active` that passes each unit, `(w_l,)` per layer.
        near: Part of `sensitive` whose sensitive gate is that of each unit.
        contributed: Part of the output that passes each unit.
    """

    total: float
    active: float
    sensitive: float
    output: float
    through: tuple[Tensor, ...]
    near: tuple[Tensor, ...]
    contributed: tuple[Tensor, ...]


def is_plain_chain(architecture: Architecture) -> bool:
    """Check that a network has dense layers only, each but the last one gated.

    Args:
        architecture: The network.

    Returns:
        Whether `path_sums` supports it.
    """
    nodes = [node for node in architecture.nodes if not isinstance(node, Flatten)]
    dense = all(isinstance(node, Dense) for node in nodes)
    return dense and architecture.gated_nodes == architecture.weight_layers[:-1]


@torch.no_grad()
def path_sums(
    x: Tensor,
    gates: Sequence[Tensor],
    sensitivities: Sequence[Tensor],
    weights: Sequence[Tensor],
    logit: int,
) -> PathSums:
    """Count the paths of one example and sum their contributions.

    All sums are computed in float64, in O(number of weights).

    Args:
        x: Input, `(a,)`.
        gates: Gates of each layer, `(w_l,)`.
        sensitivities: Sensitivities of each layer, `(w_l,)`.
        weights: Weights of each layer, `(w_l, w_{l-1})`; the last is `(C, w)`.
        logit: The logit.

    Returns:
        The counts and contributions.
    """
    x, wide = x.double().flatten(), [weight.double() for weight in weights]
    open_, slopes = (
        [layer_values.double() for layer_values in layers] for layers in (gates, sensitivities)
    )
    sums = [float(layer.sum()) for layer in open_]
    active = float(x.numel()) * prod(sums)
    # d_in · G_l(i) · Π_{l'≠l} Σ_j G_{l'}(j)
    through = tuple(
        layer * _paths_through_unit(x.numel(), sums, at) for at, layer in enumerate(open_)
    )
    near = tuple(
        layer * _paths_through_unit(x.numel(), sums, at) for at, layer in enumerate(slopes)
    )
    # contribution through a unit: z_l(i) · ∂ŷ/∂z_l(i)
    forwards, z = [], x
    for weight, layer in zip(wide[:-1], open_, strict=True):
        z = layer * (weight @ z)
        forwards.append(z)
    backwards, delta = [], wide[-1][logit]
    for weight, layer in zip(reversed(wide[:-1]), reversed(open_), strict=True):
        backwards.append(delta)
        delta = weight.T @ (layer * delta)
    contributed = tuple(z * d for z, d in zip(forwards, reversed(backwards), strict=True))
    return PathSums(
        total=float(x.numel()) * prod(float(layer.numel()) for layer in open_),
        active=active,
        sensitive=float(sum(float(layer.sum()) for layer in near)),
        output=float(forwards[-1] @ wide[-1][logit]),
        through=through,
        near=near,
        contributed=contributed,
    )


def _paths_through_unit(inputs: int, sums: Sequence[float], at: int) -> float:
    """Count the paths through one unit of a layer, regardless of its own gate."""
    return float(inputs) * prod(layer_sum for index, layer_sum in enumerate(sums) if index != at)
