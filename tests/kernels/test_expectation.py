"""E[K^V_0] = βH holds exactly, at any width: the mean over every sign pattern of tiny networks."""

from __future__ import annotations

from itertools import product

import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.architecture import Architecture, Conv, Dense, GlobalAveragePool
from tests.kernels.tiny import images, make_network

DENSE = Architecture((2,), (Dense(2, 2), Dense(2, 2), Dense(2, 1, gated=False)))
POOLED = Architecture(
    (1, 3, 2),
    (
        Conv(1, 1, kernel=2),
        Conv(1, 1, kernel=2, padding=0),
        GlobalAveragePool(),
        Dense(1, 1),
        Dense(1, 1, gated=False),
    ),
)


@pytest.mark.parametrize("architecture", [DENSE, POOLED], ids=["fc", "cnn"])
@pytest.mark.parametrize("soft", [False, True])
def test_the_mean_value_kernel_over_all_signs_is_beta_times_the_npk(
    architecture: Architecture, soft: bool
) -> None:
    network = make_network(architecture, own=False, soft=soft)
    x = images(architecture, 3)
    sigma_conv, sigma_dense = 0.6, 0.8
    layers = list(zip(architecture.weighted, network.value.weights, strict=True))
    sizes = [weight.numel() for _, weight in layers]
    assert sum(sizes) == 10
    total = torch.zeros((3, 3), dtype=torch.float64)
    for signs in product((-1.0, 1.0), repeat=sum(sizes)):
        parts = torch.tensor(signs, dtype=torch.float64).split(sizes)
        with torch.no_grad():
            for (layer, weight), part in zip(layers, parts, strict=True):
                sigma = sigma_conv if isinstance(layer, Conv) else sigma_dense
                weight.copy_(sigma * part.reshape(weight.shape))
        total += k.tangent_kernels(network, x, feature_trained=False).value
    H = k.neural_path_kernel(architecture, network.trace(x).value.gates, x).detach()
    conv = sum(isinstance(layer, Conv) for layer, _ in layers)
    dense = len(layers) - conv
    a, b = sigma_conv**2, sigma_dense**2
    positions = 6 if conv else 1  # the second convolution leaves 3×2 of the 4×3 map
    beta = conv * a ** max(conv - 1, 0) * b**dense + dense * a**conv * b ** (dense - 1)
    expected = beta / positions**2 * H
    torch.testing.assert_close(total / 2**10, expected, rtol=1e-12, atol=1e-12)
