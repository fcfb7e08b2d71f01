"""Networks at their initialisation, in float64, and inputs for them: what theorems are about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from dgn_engine.config import Initialisation
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    Fork,
    GlobalAveragePool,
    Merge,
    Node,
)
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.random_streams import random_stream


def dense(inputs: int, width: int, depth: int, logits: int = 1) -> Architecture:
    """d weight layers, d - 1 of them gated, of `width` units."""
    sizes = (inputs, *[width] * (depth - 1))
    nodes: list[Node] = [Dense(a, b) for a, b in pairwise(sizes)]
    return Architecture((inputs,), (*nodes, Dense(sizes[-1], logits, gated=False)))


def convolutional(channels: int, side: int) -> Architecture:
    """Three 3×3 convolutions with circular padding on one channel, pooling, one logit."""
    convs = [Conv(1 if not place else channels, channels, circular=True) for place in range(3)]
    head = (GlobalAveragePool(), Dense(channels, 1, gated=False))
    return Architecture((1, side, side), (*convs, *head))


def residual(inputs: int, width: int, blocks: int, block_depth: int) -> Architecture:
    """The FC-block ResNet of THEORY §3: b skips, d_blk layers in each of the b + 2 blocks."""
    nodes: list[Node] = [Dense(inputs if not i else width, width) for i in range(block_depth)]
    for _ in range(blocks):
        nodes += [Fork(), *(Dense(width, width) for _ in range(block_depth)), Merge()]
    nodes += [Dense(width, width) for _ in range(block_depth - 1)]
    return Architecture((inputs,), (*nodes, Dense(width, 1, gated=False)))


def gated(
    architecture: Architecture,
    seed: int,
    *,
    own: bool = False,
    soft: bool = False,
    init: Initialisation = "bernoulli",
    sigma: float = 0.0,
) -> GatedNetwork:
    """Both networks drawn anew (independently: FR-II), 'bernoulli' ±σ, √(2/fan_in) unless given."""
    network = GatedNetwork(architecture).double()
    network.own_gates, network.gate = own, Gate(soft=soft)
    network.value.draw(init, random_stream("value", seed), sigma)
    network.feature.draw("kaiming", random_stream("feature", seed), sigma)
    return network.requires_grad_(False)


def normal(inputs: int, width: int, depth: int, seed: int, *, own: bool) -> GatedNetwork:
    """A dense pair with N(0, 2/w) in every layer and one logit; `own` gates: ReLU, else GaLU."""
    architecture = dense(inputs, width, depth)
    return gated(architecture, seed, own=own, init="kaiming", sigma=math.sqrt(2 / width))


def unit_inputs(n: int, shape: Sequence[int], seed: int, correlation: float = 0.0) -> Tensor:
    """(n, *shape), float64, of unit norm; pairwise correlation about `correlation`."""
    draw = random_stream("inputs", seed)
    size = math.prod(shape)
    common = torch.randn(1, size, generator=draw, dtype=torch.float64)
    own = torch.randn(n, size, generator=draw, dtype=torch.float64)
    own -= (own @ common.T) * common / common.square().sum()
    own, common = (part / part.norm(dim=1, keepdim=True) for part in (own, common))
    x: Tensor = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own
    return x.reshape(n, *shape)


def relative(kernel: Tensor, expected: Tensor) -> float:
    """‖K - E‖/‖E‖ (Frobenius)."""
    return float((kernel - expected).norm() / expected.norm())


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of log y against log x, least squares."""
    import numpy as np

    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
