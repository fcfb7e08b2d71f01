"""Networks at initialisation in float64, and inputs, targets and kernels for theorems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from dgn_engine.kernels import tangent_kernels
from dgn_engine.model import architecture as arch
from dgn_engine.model.choices import Initialisation
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.random_streams import random_stream


def dense_architecture(inputs: int, width: int, depth: int, logits: int = 1) -> arch.Architecture:
    """Return a dense architecture of d weight layers, d − 1 of them gated, with `width` units."""
    sizes = (inputs, *[width] * (depth - 1))
    nodes: list[arch.Node] = [arch.Dense(a, b) for a, b in pairwise(sizes)]
    return arch.Architecture((inputs,), (*nodes, arch.Dense(sizes[-1], logits, gated=False)))


def conv_architecture(channels: int, side: int) -> arch.Architecture:
    """Return three circular 3×3 convolutions on one channel, global pooling and one logit."""
    convs = [arch.Conv(1 if not layer else channels, channels, circular=True) for layer in range(3)]
    head = (arch.GlobalAveragePool(), arch.Dense(channels, 1, gated=False))
    return arch.Architecture((1, side, side), (*convs, *head))


def residual_architecture(
    inputs: int, width: int, blocks: int, block_depth: int
) -> arch.Architecture:
    """Return the dense ResNet of theory §3: b skips, d_blk layers in each of b + 2 blocks."""
    nodes: list[arch.Node] = [
        arch.Dense(inputs if not i else width, width) for i in range(block_depth)
    ]
    for _ in range(blocks):
        nodes += [
            arch.Fork(),
            *(arch.Dense(width, width) for _ in range(block_depth)),
            arch.Merge(),
        ]
    nodes += [arch.Dense(width, width) for _ in range(block_depth - 1)]
    return arch.Architecture((inputs,), (*nodes, arch.Dense(width, 1, gated=False)))


def draw_network(
    architecture: arch.Architecture,
    seed: int,
    *,
    own: bool = False,
    soft: bool = False,
    init: Initialisation = "bernoulli",
    sigma: float = 0.0,
) -> GatedNetwork:
    """Draw value and feature network independently (FR-II).

    Args:
        architecture: the architecture.
        seed: the seed.
        own: whether the network uses its own gates (ReLU).
        soft: whether the gates are soft.
        init: initialisation of the value network.
        sigma: σ of the weights; 0: √(2/fan-in).
    """
    network = GatedNetwork(architecture).double()
    network.own_gates, network.gate = own, Gate(soft=soft)
    network.value.init_weights(init, random_stream("value", seed), sigma)
    network.feature.init_weights("kaiming", random_stream("feature", seed), sigma)
    return network.requires_grad_(False)


def draw_normal_network(
    inputs: int, width: int, depth: int, seed: int, *, own: bool
) -> GatedNetwork:
    """Draw a dense ReLU (`own`) or GaLU network with weights N(0, 2/w) and one logit."""
    architecture = dense_architecture(inputs, width, depth)
    return draw_network(architecture, seed, own=own, init="kaiming", sigma=math.sqrt(2 / width))


def unit_inputs(n: int, shape: Sequence[int], seed: int, correlation: float = 0.0) -> Tensor:
    """Draw float64 inputs (n, *shape) of unit norm with a pairwise correlation."""
    draw = random_stream("inputs", seed)
    size = math.prod(shape)
    common = torch.randn(1, size, generator=draw, dtype=torch.float64)
    own = torch.randn(n, size, generator=draw, dtype=torch.float64)
    own -= (own @ common.T) * common / common.square().sum()
    own, common = (part / part.norm(dim=1, keepdim=True) for part in (own, common))
    x: Tensor = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own
    return x.reshape(n, *shape)


def draw_targets(n: int, seed: int) -> Tensor:
    """Draw targets y ~ U[−1, 1], (n,)."""
    return 2 * torch.rand(n, generator=random_stream("targets", seed), dtype=torch.float64) - 1


def bernoulli_gates(
    n: int, width: int, depth: int, p: float, generator: torch.Generator
) -> tuple[Tensor, ...]:
    """Draw d − 1 layers of gates (n, width), each open with probability p (FRG)."""
    return tuple((torch.rand(n, width, generator=generator) < p).double() for _ in range(depth - 1))


def random_gate_kernel(n: int, width: int, depth: int, p: float, seed: int) -> Tensor:
    """Return K_0/d (n, n) for identical unit inputs, FRG gates, weights ±√(1/(pw)) ([DGN])."""
    network = draw_network(
        dense_architecture(10, width, depth), seed, sigma=(1 / (p * width)) ** 0.5
    )
    gates = bernoulli_gates(n, width, depth, p, random_stream("coins", seed))
    x = unit_inputs(1, (10,), seed).expand(n, -1)
    kernel = tangent_kernels(network.with_gates(gates), x, trains=("value",)).total_kernel
    return kernel / depth


def eigenvalue_distribution(kernel: Tensor) -> list[float]:
    """Return the cumulative distribution of the eigenvalues, divided by the trace (theory §7)."""
    values = torch.linalg.eigvalsh(kernel)
    shares: list[float] = (values / values.sum()).cumsum(0).tolist()
    return shares


def relative_distance(kernel: Tensor, expected: Tensor) -> float:
    """Return ‖K − E‖/‖E‖ in the Frobenius norm."""
    return float((kernel - expected).norm() / expected.norm())


def log_slope(x: Sequence[float], y: Sequence[float]) -> float:
    import numpy as np

    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
