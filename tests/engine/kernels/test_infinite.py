from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.kernels.infinite import diagonal_expectation, gaussian_expectations
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from tests.refusals import refused


def inputs(n: int, size: int, seed: int = 0) -> Tensor:
    return torch.randn(
        (n, size), generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def wide(layers: tuple[Dense, ...], scales: list[float], gate: Gate, seed: int) -> GatedNetwork:
    network = GatedNetwork(Architecture((layers[0].inputs,), layers))
    network.gate = gate
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight, scale in zip(network.value.weights, scales, strict=True):
            weight.copy_(scale * torch.randn(weight.shape, generator=generator))
    return network


def distance(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize(("output", "kind"), [(2.0, "tangent"), (1.0, "average_kernel")])
def test_a_wide_relu_network_has_the_closed_form_as_its_kernel(output: float, kind: str) -> None:
    x, w = inputs(6, 10), 800
    layers = (Dense(10, w), Dense(w, w), Dense(w, 1, gated=False))
    scales = [math.sqrt(2 / w), math.sqrt(2 / w), math.sqrt(output / w)]
    draws = [
        k.tangent_kernels(wide(layers, scales, Gate(), seed), x.float()).value for seed in range(3)
    ]
    expected = getattr(k.relu_limit(x, 3), kind)
    assert distance(torch.stack(draws).mean(0), expected) < 0.08
    other = k.relu_limit(x, 3).average_kernel if kind == "tangent" else k.relu_limit(x, 3).tangent
    assert distance(torch.stack(draws).mean(0), other) > 0.15


def test_a_wide_soft_relu_network_has_the_series_as_its_kernel_part_by_part() -> None:
    # With d_in = w every layer has the same √(2/w): one factor turns K into NTK parametrisation.
    w, beta, epsilon = 1200, 2.0, 0.1
    x = inputs(5, w) * torch.linspace(0.5, 1.5, 5, dtype=torch.float64)[:, None]
    x[1] = x[0] + 0.3 * x[1]
    layers = (Dense(w, w), Dense(w, w), Dense(w, 1, gated=False))
    scales = [math.sqrt(2 / w)] * 3
    gate = Gate(soft=True, beta=beta, epsilon=epsilon)
    draws = [k.tangent_kernels(wide(layers, scales, gate, seed), x.float()) for seed in range(3)]
    limit = k.soft_relu_limit(x, 3, beta, epsilon)
    assert limit.error < 1e-10
    for part in ("value", "feature", "cross"):
        found = torch.stack([getattr(draw, part) for draw in draws]).mean(0) * 2 / w
        error = (found.double() - getattr(limit, part)).norm()
        assert float(error / limit.tangent.norm()) < 0.04, part
        assert distance(found, getattr(limit, part)) < 0.15, part
    found = torch.stack([draw.total_kernel for draw in draws]).mean(0) * 2 / w
    assert distance(found, limit.tangent) < 0.05


def test_the_parts_of_the_soft_limit_add_up() -> None:
    limit = k.soft_relu_limit(inputs(6, 4), 4, beta=8.0)
    assert limit.value is not None
    assert limit.feature is not None
    assert limit.cross is not None
    torch.testing.assert_close(limit.value + limit.feature + limit.cross, limit.tangent)
    for part in (limit.value, limit.feature, limit.tangent):
        assert float(torch.linalg.eigvalsh(part)[0]) > -1e-10


def test_a_very_steep_soft_gate_approaches_the_relu_limit() -> None:
    x = inputs(5, 8)
    steep = k.soft_relu_limit(x, 3, beta=300.0)
    relu = k.relu_limit(x * math.sqrt(2 / 8), 3)
    assert distance(steep.covariance, relu.covariance) < 1e-3
    assert distance(steep.value, relu.tangent) < 2e-2
    assert distance(steep.tangent, relu.tangent) < 2e-2


def test_the_printed_recursion_starts_at_the_plain_gram() -> None:
    x = inputs(4, 8)
    printed = k.soft_relu_limit(x, 3, beta=4.0, as_printed=True)
    scaled = k.soft_relu_limit(x * math.sqrt(8 / 2), 3, beta=4.0)
    torch.testing.assert_close(printed.tangent, scaled.tangent)


def test_depth_one_is_the_gram_and_a_linear_network_doubles_it_per_layer() -> None:
    x = inputs(4, 3)
    gram = k.input_gram(x)
    torch.testing.assert_close(k.relu_limit(x, 1).tangent, gram)
    torch.testing.assert_close(k.linear_limit(x, 4).tangent, 4 * 8 * gram)
    torch.testing.assert_close(k.linear_limit(x, 4).covariance, 8 * gram)


def test_the_relu_diagonal_is_depth_times_the_squared_norm() -> None:
    x = inputs(5, 7)
    x[3] = x[2]
    limit = k.relu_limit(x, 6)
    squares = x.square().sum(1)
    torch.testing.assert_close(limit.tangent.diagonal(), 6 * squares, rtol=1e-13, atol=0.0)
    torch.testing.assert_close(limit.tangent[2, 3], limit.tangent[2, 2], rtol=1e-7, atol=0.0)


@pytest.mark.parametrize("kind", ["relu", "soft", "linear"])
def test_a_limit_between_two_sets_is_a_block_of_the_limit_of_both(kind: str) -> None:
    x = inputs(7, 5)
    x[5] = x[1]  # the same example on both sides

    def limit(one: Tensor, other: Tensor | None = None) -> k.LimitKernels:
        if kind == "relu":
            return k.relu_limit(one, 3, other)
        if kind == "linear":
            return k.linear_limit(one, 3, other)
        return k.soft_relu_limit(one, 3, beta=4.0, other=other)

    block, square = limit(x[:4], x[4:]), limit(x)
    torch.testing.assert_close(block.tangent, square.tangent[:4, 4:], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("std", [0.3, 1.0, 3.0])
def test_the_series_is_the_gaussian_integral(std: float) -> None:
    gate = Gate(soft=True, beta=4.0)

    def chi(q: Tensor) -> Tensor:
        return q * gate(q)

    def slope(q: Tensor) -> Tensor:
        return gate(q) + q * gate.derivative(q)

    rho = torch.tensor([[-0.9, 0.0, 0.5, 0.9, 0.99, 1.0]], dtype=torch.float64)
    one, many = torch.full((1,), std).double(), torch.full((6,), 1.5 * std).double()
    grid = torch.linspace(-9, 9, 901, dtype=torch.float64)
    weight = torch.exp(-grid.square() / 2) / math.sqrt(2 * math.pi) * (grid[1] - grid[0])
    for f in (chi, slope):
        (found,), bound = gaussian_expectations([(f, chi)], one, many, rho)
        assert bound < 1e-6
        for place, r in enumerate(rho[0].tolist()):
            q = std * grid[:, None].expand(-1, 901)
            partner = 1.5 * std * (r * grid[:, None] + math.sqrt(max(0.0, 1 - r * r)) * grid[None])
            expected = weight @ (f(q) * chi(partner)) @ weight
            assert float(found[0, place]) == pytest.approx(float(expected), rel=1e-5, abs=1e-8)


def test_the_diagonal_is_the_one_dimensional_moment() -> None:
    std = torch.tensor([0.5, 2.0], dtype=torch.float64)
    found = diagonal_expectation(lambda q: q, lambda q: q**3, std)
    torch.testing.assert_close(found, 3 * std**4, rtol=1e-12, atol=0.0)


def test_nonsense_is_refused() -> None:
    with refused("out-of-bounds"):
        k.relu_limit(torch.ones((2, 2)), 0)
    dense = Architecture((2,), (Dense(2, 2), Dense(2, 1, gated=False)))
    with refused("not-supported"):
        k.convolutional_limit(dense, torch.ones((2, 2)))


@pytest.mark.parametrize("value_input", ["image", "ones"])
def test_an_input_of_zeros_opens_no_hard_gate_of_the_limit(value_input: Any) -> None:
    x = torch.cat([torch.zeros((1, 5), dtype=torch.float64), inputs(2, 5)])
    found = k.gated_limit(x, 3, value_input=value_input).value
    assert not found[0].any()
    assert not found[:, 0].any()
    assert bool((found[1:, 1:].diagonal() > 0).all())


@pytest.mark.wide
@pytest.mark.parametrize("depth", [2, 5])
@pytest.mark.parametrize("kind", ["relu", "soft", "gated", "soft gates"])
def test_repeated_inputs_make_the_limit_singular_and_no_noise(kind: str, depth: int) -> None:
    limits = {
        "relu": lambda x, other: k.relu_limit(x, depth, other, sigma_w=1.4, sigma_b=0.1),
        "soft": lambda x, other: k.soft_relu_limit(x, depth, 4.0, other=other),
        "gated": lambda x, other: k.gated_limit(x, depth, other=other),
        "soft gates": lambda x, other: k.gated_limit(x, depth, 4.0, other=other),
    }
    x = inputs(6, 5)
    twice = torch.cat([x, x[:3]])
    whole = limits[kind](twice, None).tangent
    torch.testing.assert_close(whole[6:], whole[:3], rtol=1e-13, atol=0.0)
    block = limits[kind](x, twice).tangent
    torch.testing.assert_close(block, whole[:6], rtol=1e-13, atol=0.0)
    assert k.spectrum(whole).rank == 6


def test_repeated_images_make_the_convolutional_limit_singular() -> None:
    architecture = Architecture(
        (2, 4, 4), (Conv(2, 3), Conv(3, 3), GlobalAveragePool(), Dense(3, 2, gated=False))
    )
    images = torch.cat([inputs(5, 32), inputs(5, 32)[:2]]).reshape(-1, 2, 4, 4)
    whole = k.convolutional_limit(architecture, images)
    assert k.spectrum(whole.tangent).rank == len(images.unique(dim=0)) < len(images)
    alone = k.convolutional_limit(architecture, images[:5])
    torch.testing.assert_close(whole.tangent[:5, :5], alone.tangent)
    torch.testing.assert_close(whole.covariance[:5, :5], alone.covariance)
