"""Exact expectations as means over all sign patterns of the value weights (theory §4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from dgn_engine.experiments._initial_networks import (
    dense_architecture,
    draw_network,
    relative_distance,
    unit_inputs,
)
from dgn_engine.kernels import expected_value_kernel, tangent_kernels, weight_sigmas
from dgn_engine.model.architecture import Architecture, Conv, Dense, Fork, GlobalAveragePool, Merge
from dgn_engine.model.network import GatedNetwork

SIGMA = 0.7
TINY = {
    "fc": Architecture((2,), (Dense(2, 2), Dense(2, 2), Dense(2, 1, gated=False))),
    "cnn": Architecture(
        (1, 3, 2),
        (Conv(1, 1, kernel=2), GlobalAveragePool(), Dense(1, 2), Dense(2, 1, gated=False)),
    ),
    "resnet": Architecture(
        (2,), (Dense(2, 2), Fork(), Dense(2, 1), Dense(1, 2), Merge(), Dense(2, 1, gated=False))
    ),
}


def value_kernel_error(name: str, seed: int) -> float:
    """Return the relative distance of the mean of K^V over all sign patterns from βH."""
    network = draw_network(TINY[name], seed, soft=True, sigma=SIGMA)
    x = unit_inputs(3, TINY[name].input_shape, seed)
    mean = torch.stack(
        [
            tangent_kernels(network, x, trains=("value",)).total_kernel
            for _ in _sign_patterns(network)
        ]
    ).mean(0)
    gates = network.trace(x).value.gates
    sigmas = weight_sigmas(network.value.folded_tensors()[0])
    return relative_distance(mean, expected_value_kernel(TINY[name], gates, x, sigmas))


def feature_kernel_error(seed: int) -> float:
    """Return the relative distance of the mean of K^F over all sign patterns from σ^{2d} Σ ⊙ δ.

    This is [DGN] Lemma 3.1.
    """
    network = draw_network(dense_architecture(2, 2, 3), seed, soft=True, sigma=SIGMA)
    x = unit_inputs(3, (2,), seed)
    means = []
    for _ in _sign_patterns(network):
        feature = tangent_kernels(network, x).feature
        assert feature is not None
        means.append(feature)
    expected = SIGMA**6 * (x @ x.T) * _enumerate_delta(network, x)
    return relative_distance(torch.stack(means).mean(0), expected)


def _enumerate_delta(network: GatedNetwork, x: Tensor) -> Tensor:
    """Return δ(s,s') = Σ_θ Σ_p ∂_θA(x_s,p) ∂_θA(x_s',p) by enumerating the hidden paths p."""

    def path_activities(first: Tensor, second: Tensor) -> Tensor:
        q = x @ first.T
        hidden = network.gate(q)
        other = network.gate(torch.relu(q) @ second.T)
        return (hidden[:, :, None] * other[:, None, :]).flatten(1)

    weights = [weight.detach() for weight in network.feature.weights][:2]
    total = torch.zeros(len(x), len(x), dtype=x.dtype)
    for slopes in torch.func.jacrev(path_activities, argnums=(0, 1))(*weights):
        flat = slopes.flatten(1)
        total += flat @ flat.T
    return total


def _sign_patterns(network: GatedNetwork) -> Iterator[tuple[float, ...]]:
    """Set the value weights to each pattern of ±σ in turn, and yield it."""
    weights = network.value.folded_tensors()[0]
    sizes = [weight.numel() for weight in weights]
    for signs in product((-SIGMA, SIGMA), repeat=sum(sizes)):
        parts = torch.split(torch.tensor(signs, dtype=torch.float64), sizes)
        for weight, part in zip(weights, parts, strict=True):
            weight.copy_(part.reshape(weight.shape))
        yield signs
