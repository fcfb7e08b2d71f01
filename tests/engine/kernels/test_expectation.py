"""E[K^V_0] = βH holds exactly, at any width: the mean over every sign pattern of tiny networks."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    Fork,
    Gating,
    GlobalAveragePool,
    Merge,
    Node,
    Skip,
    weight_shape,
)
from dgn_engine.model.stack import run_chain
from tests.engine.kernels.tiny import (
    draw_images,
    make_network,
)

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


@pytest.mark.wide
@pytest.mark.parametrize("architecture", [DENSE, POOLED], ids=["fc", "cnn"])
@pytest.mark.parametrize("soft", [False, True])
def test_the_mean_value_kernel_over_all_signs_is_beta_times_the_npk(
    architecture: Architecture, soft: bool
) -> None:
    network = make_network(architecture, own=False, soft=soft)
    x = draw_images(architecture, 3)
    sigma_conv, sigma_dense = 0.6, 0.8
    layers = list(zip(architecture.weight_layers, network.value.weights, strict=True))
    sizes = [weight.numel() for _, weight in layers]
    assert sum(sizes) == 10
    total = torch.zeros((3, 3), dtype=torch.float64)
    for signs in product((-1.0, 1.0), repeat=sum(sizes)):
        parts = torch.tensor(signs, dtype=torch.float64).split(sizes)
        with torch.no_grad():
            for (layer, weight), part in zip(layers, parts, strict=True):
                sigma = sigma_conv if isinstance(layer, Conv) else sigma_dense
                weight.copy_(sigma * part.reshape(weight.shape))
        total += k.tangent_kernels(network, x, trains=("value",)).value
    gates = network.trace(x).value.gates
    sigmas = [sigma_conv if isinstance(layer, Conv) else sigma_dense for layer, _ in layers]
    assert k.weight_sigmas([weight for _, weight in layers]) == pytest.approx(sigmas)
    expected = k.expected_value_kernel(architecture, gates, x, sigmas).detach()
    torch.testing.assert_close(total / 2**10, expected, rtol=1e-12, atol=1e-12)
    H = k.neural_path_kernel(architecture, gates, x).detach()
    conv = sum(isinstance(layer, Conv) for layer, _ in layers)
    dense = len(layers) - conv
    a, b = sigma_conv**2, sigma_dense**2
    positions = 6 if conv else 1  # the second convolution leaves 3×2 of the 4×3 map
    beta = conv * a ** max(conv - 1, 0) * b**dense + dense * a**conv * b ** (dense - 1)
    assert k.value_kernel_constant(architecture, sigmas) == pytest.approx(beta / positions**2)
    torch.testing.assert_close(expected, beta / positions**2 * H, rtol=1e-12, atol=1e-12)


PLAIN_BLOCKS = (
    Dense(2, 1),
    Fork(),
    Dense(1, 2),
    Dense(2, 1),
    Merge(pre=0.7, post=1.3),
    Fork(),
    Dense(1, 1),
    Merge(),
    Dense(1, 2),
    Dense(2, 1, gated=False),
)
GATED_SUMS = (  # projected and plain skips, ungated ends of blocks, gates after the additions
    Dense(2, 1),
    Fork(),
    Dense(1, 2, gated=False),
    Skip(),
    Dense(1, 2, gated=False),
    Merge(pre=0.7),
    Gating(),
    Fork(),
    Dense(2, 1),
    Dense(1, 2, gated=False),
    Merge(post=1.3),
    Gating(),
    Dense(2, 1, gated=False),
)


def mean_over_signs(
    architecture: Architecture, gates: list[Tensor], x: Tensor, sigmas: list[float]
) -> Tensor:
    """E[JJᵀ] (n, n) of the one logit, J by automatic differentiation, over every sign pattern."""
    sizes = [torch.zeros(weight_shape(layer)) for layer in architecture.weight_layers]
    bits = sum(size.numel() for size in sizes)
    nothing: list[Tensor | None] = [None] * len(sizes)

    def logits(weights: list[Tensor]) -> Tensor:
        return run_chain(architecture, weights, nothing, x, lambda place, _: gates[place]).output[
            :, 0
        ]

    def kernel(signs: Tensor) -> Tensor:
        parts = signs.split([size.numel() for size in sizes])
        weights = [s * p.reshape(z.shape) for s, p, z in zip(sigmas, parts, sizes, strict=True)]
        J = torch.cat([leaf.flatten(1) for leaf in torch.func.jacrev(logits)(weights)], dim=1)
        return J @ J.T

    patterns = torch.tensor(list(product((-1.0, 1.0), repeat=bits)), dtype=torch.float64)
    return torch.func.vmap(kernel, chunk_size=1024)(patterns).mean(0)


@pytest.mark.parametrize("nodes", [PLAIN_BLOCKS, GATED_SUMS], ids=["plain", "gated sums"])
def test_the_mean_value_kernel_of_a_residual_network_is_the_weighted_sum_of_sub_networks(
    nodes: tuple[Node, ...],
) -> None:
    architecture = Architecture((2,), nodes)
    network = make_network(architecture, own=False, soft=True)
    x = draw_images(architecture, 3)
    sigmas = [0.6, 0.8, 1.1, 0.9, 0.7, 1.2]
    gates = [gate.detach() for gate in network.trace(x).value.gates]
    expected = k.expected_value_kernel(architecture, gates, x, sigmas)
    mean = mean_over_signs(architecture, gates, x, sigmas)
    torch.testing.assert_close(mean, expected, rtol=1e-12, atol=1e-12)
    terms = torch.zeros((3, 3), dtype=torch.float64)
    for kept in ((), (0,), (1,), (0, 1)):
        part = k.sub_network(architecture, kept)
        used = [sigmas[place] for place in part.weights]
        beta = k.value_kernel_constant(part.architecture, used)
        terms += beta * k.sub_network_kernel(architecture, gates, x, kept)
    torch.testing.assert_close(terms, expected, rtol=1e-12, atol=1e-12)


def test_the_mean_feature_kernel_over_all_signs_is_lemma_3_1() -> None:
    # E[K^F_0] = σ^{2d}·Σ ⊙ δ, δ(s,s') = Σ_θ Σ_p ∂_θA(x_s,p)∂_θA(x_s',p), counted path by path.
    network = make_network(DENSE, own=False, soft=True)
    x, sigma = draw_images(DENSE, 3), 0.8
    weights = list(network.value.weights)
    sizes = [weight.numel() for weight in weights]
    total = torch.zeros((3, 3), dtype=torch.float64)
    for signs in product((-1.0, 1.0), repeat=sum(sizes)):
        parts = torch.tensor(signs, dtype=torch.float64).split(sizes)
        with torch.no_grad():
            for weight, part in zip(weights, parts, strict=True):
                weight.copy_(sigma * part.reshape(weight.shape))
        feature = k.tangent_kernels(network, x).feature
        assert feature is not None
        total += feature
    first, second = network.trace(x).value.gates
    activity = torch.einsum("ni,nj->nij", first, second)
    hidden = list(network.feature.weights)[:2]
    delta = torch.zeros((3, 3), dtype=torch.float64)
    for i, j in product(range(2), repeat=2):
        rows = [
            torch.cat(
                [g.flatten() for g in torch.autograd.grad(a[i, j], hidden, retain_graph=True)]
            )
            for a in activity
        ]
        J = torch.stack(rows)
        delta += J @ J.T
    # Each of these paths starts at every input unit: Σ ⊙ δ sums over them through Σ.
    expected = sigma**6 * k.input_gram(x) * delta
    torch.testing.assert_close(total / 2**10, expected, rtol=1e-12, atol=1e-12)


def test_a_constant_for_the_wrong_number_of_layers_is_refused() -> None:
    with pytest.raises(UserError, match="3 positive"):
        k.value_kernel_constant(DENSE, [0.5, 0.5])


def test_the_expectation_for_a_deep_wide_network_does_not_overflow() -> None:
    layers = [Dense(4, 512), *[Dense(512, 512) for _ in range(150)]]
    architecture = Architecture((4,), (*layers, Dense(512, 1, gated=False)))
    gates = [torch.ones((2, 512)) for _ in layers]
    x = torch.ones((2, 4))
    sigmas = [512**-0.5] * 152
    expected = k.expected_value_kernel(architecture, gates, x, sigmas)
    torch.testing.assert_close(expected, torch.full((2, 2), 152 * 4.0, dtype=torch.float64))
