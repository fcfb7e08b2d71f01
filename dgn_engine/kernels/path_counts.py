"""Paths of one example through a dense network: how many are active and sensitive, what they add
up to, and how many of them pass each unit, by dynamic programming forwards and backwards.

A path is an input and one unit of each layer; it ends in the chosen logit. Its activity is the
product of its gates, its contribution x(p_0)·A(x, p)·v(p), and the contributions of all paths sum
to the output ([NPF]). For chains of dense layers without biases and blocks.
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
    """`total`: how many paths end in a logit; `active`: the sum of their activities, their number
    with hard gates; `sensitive`: of pairs of a path and a sensitive gate on it; `output`: the
    logit. By layer (w_l,): `through`, the part of `active` that passes a unit; `near`, the
    pairs whose sensitive gate is this unit's; `contributed`, the part of the output through it.
    """

    total: float
    active: float
    sensitive: float
    output: float
    through: tuple[Tensor, ...]
    near: tuple[Tensor, ...]
    contributed: tuple[Tensor, ...]


def is_plain_chain(architecture: Architecture) -> bool:
    """Dense layers only, each but the last one gated."""
    nodes = [node for node in architecture.nodes if not isinstance(node, Flatten)]
    dense = all(isinstance(node, Dense) for node in nodes)
    return dense and architecture.gated == architecture.weighted[:-1]


@torch.no_grad()
def path_sums(
    x: Tensor,
    gates: Sequence[Tensor],
    sensitivities: Sequence[Tensor],
    weights: Sequence[Tensor],
    logit: int,
) -> PathSums:
    """Of one example x (a,) with gates and sensitivities (w_l,) and weights (w_l, w_{l-1}), the
    last of them (C, w); all in float64. O(number of weights)."""
    x, wide = x.double().flatten(), [weight.double() for weight in weights]
    open_, slopes = ([one.double() for one in layers] for layers in (gates, sensitivities))
    sums = [float(layer.sum()) for layer in open_]
    active = float(x.numel()) * prod(sums)
    through = tuple(layer * _others(x.numel(), sums, at) for at, layer in enumerate(open_))
    near = tuple(layer * _others(x.numel(), sums, at) for at, layer in enumerate(slopes))
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


def _others(inputs: int, sums: Sequence[float], at: int) -> float:
    """Paths through one unit of a layer, its own gate left aside."""
    return float(inputs) * prod(one for place, one in enumerate(sums) if place != at)
