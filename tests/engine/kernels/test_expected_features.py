"""δ against every path and feature weight, E[K^F_0] against every sign pattern of the values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.kernels.kernel_report import KernelSettings, kernel_arrays
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.feature_layers import parallel_features
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.model.wiring import Route
from tests.engine.kernels.allocated import peak_bytes
from tests.engine.kernels.conftest import Take
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, make_network
from tests.refusals import refused

CHAIN = Architecture((1,), (Dense(1, 2), Dense(2, 2), Dense(2, 1, gated=False)))  # 8 signs
NARROW = Architecture((1,), (Dense(1, 1), Dense(1, 1), Dense(1, 1, gated=False)))
SIGMAS = [0.7, 1.1, 0.9]


def gated(**settings: bool) -> GatedNetwork:
    return make_network(CHAIN, own=False, soft=True, **settings)


def permuted() -> GatedNetwork:
    network = gated()
    network.wiring, network.routes = (1, 0), (Route(rotate=1), Route())
    return network


def tiled() -> GatedNetwork:
    network = GatedNetwork(CHAIN, feature_architecture=NARROW).double()
    network.own_gates, network.gate = False, Gate(soft=True, beta=1.5)
    network.routes = (Route(tile=2), Route(tile=2))
    generator = torch.Generator().manual_seed(2)
    for weight in network.feature.parameters():
        weight.data.copy_(torch.randn(weight.shape, generator=generator))
    return network


def linear() -> GatedNetwork:
    network = gated()
    network.feature_activation, network.value_input = "linear", "ones"
    return network


def with_feature_biases() -> GatedNetwork:
    network, biased = gated(), make_network(CHAIN, bias=True)
    network.feature = biased.feature
    return network


def parallel() -> GatedNetwork:
    """Permuted and rotated, with feature biases."""
    network = GatedNetwork(CHAIN, feature_architecture=parallel_features(CHAIN)).double()
    network.feature = Stack(network.feature.architecture, bias=True).double()
    network.own_gates, network.gate = False, Gate(soft=True, beta=1.5)
    network.wiring, network.routes = (1, 0), (Route(rotate=1), Route())
    generator = torch.Generator().manual_seed(2)
    for weight in network.feature.parameters():
        weight.data.copy_(torch.randn(weight.shape, generator=generator))
    return network


KINDS = {
    "plain": gated,
    "permuted and rotated": permuted,
    "tiled": tiled,
    "linear features, ones": linear,
    "feature biases": with_feature_biases,
    "parallel": parallel,
}


def mean_over_signs(network: GatedNetwork, x: Tensor, other: Tensor | None = None) -> Tensor:
    weights = list(network.value.weights)
    sizes = [weight.numel() for weight in weights]
    found = []
    for signs in product((-1.0, 1.0), repeat=sum(sizes)):
        parts = torch.tensor(signs, dtype=torch.float64).split(sizes)
        for weight, part, sigma in zip(weights, parts, SIGMAS, strict=True):
            weight.data.copy_(sigma * part.reshape(weight.shape))
        kernel = k.tangent_kernels(network, x, other=other).feature
        assert kernel is not None
        found.append(kernel)
    return torch.stack(found).mean(0)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_expected_feature_kernel_is_the_mean_over_all_signs(kind: str, take: Take) -> None:
    network, x = KINDS[kind](), draw_images(CHAIN, 3)
    mean = mean_over_signs(network, x)
    found = k.expected_feature_kernel(network, x)
    torch.testing.assert_close(found, mean, rtol=1e-12, atol=1e-12)
    given = k.expected_feature_kernel(network, x, sigmas=SIGMAS)
    torch.testing.assert_close(given, mean, rtol=1e-12, atol=1e-12)
    take("limits in tiles")
    block = k.expected_feature_kernel(network, x[:2], other=x[1:])
    torch.testing.assert_close(block, mean[:2, 1:], rtol=1e-12, atol=1e-12)


def delta_by_paths(network: GatedNetwork, x: Tensor) -> Tensor:
    """Σ_θ Σ_p ∂_θA(x_s, p) ∂_θA(x_s', p), path by path."""
    parameters = list(network.feature.parameters())
    widths = [shape[0] for shape in network.architecture.gated_shapes]
    gradients = []
    for row in range(len(x)):
        with torch.enable_grad():
            gates = network.trace(x[row : row + 1]).value.gates
            paths = torch.stack(
                [
                    torch.stack([layer[0, unit] for layer, unit in zip(gates, path, strict=True)])
                    for path in product(*map(range, widths))
                ]
            ).prod(1)
        options = {"retain_graph": True, "materialize_grads": True}  # no path uses the head
        single = [
            torch.cat([grad.flatten() for grad in torch.autograd.grad(path, parameters, **options)])
            for path in paths
        ]
        gradients.append(torch.stack(single).flatten())
    found = torch.stack(gradients)
    return found @ found.T


@pytest.mark.parametrize("kind", list(KINDS))
def test_delta_is_the_sum_over_all_paths_and_feature_weights(kind: str) -> None:
    network, x = KINDS[kind](), draw_images(CHAIN, 3)
    slow = delta_by_paths(network, x)
    found = k.path_gradient_overlap(network, x)
    torch.testing.assert_close(found, slow, rtol=1e-12, atol=1e-12)
    block = k.path_gradient_overlap(network, x[:2], other=x[1:])
    torch.testing.assert_close(block, slow[:2, 1:], rtol=1e-12, atol=1e-12)
    diagonal = slow.diagonal().sqrt()
    cosine = k.path_gradient_overlap(network, x, normalise="cosine")
    torch.testing.assert_close(cosine, slow / torch.outer(diagonal, diagonal))
    for scale in ("trace", "cosine"):
        with refused("contradiction"):
            k.path_gradient_overlap(network, x, other=x, normalise=scale)


def test_the_expected_kernel_is_delta_times_the_inner_products_of_the_inputs() -> None:
    network, x = permuted(), draw_images(CHAIN, 3)
    squares = torch.tensor(SIGMAS, dtype=torch.float64).square().prod()
    found = k.path_gradient_overlap(network, x) * (x @ x.T) * squares
    expected = k.expected_feature_kernel(network, x, sigmas=SIGMAS)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_report_has_delta_only_where_it_is_asked_for() -> None:
    network, x, labels = gated(), draw_images(CHAIN, 3), torch.tensor([0, 1, 1])
    assert not [
        name for name in kernel_arrays(network, x, labels, KernelSettings()) if "delta" in name
    ]
    wanted = KernelSettings(normalise="cosine", only=("delta", "eigenvalues"))
    found = kernel_arrays(network, x, labels, wanted)
    assert set(found) == {"delta", "eigenvalues_delta"}
    delta = k.path_gradient_overlap(network, x, normalise="cosine").numpy()
    assert (found["delta"] == delta).all()
    with refused("singular"):
        kernel_arrays(make_network(CHAIN, own=False), x, labels, wanted)


def test_delta_takes_at_most_the_memory_that_is_said_of_it(take: Take) -> None:
    take("nothing hidden")
    for width, hidden, n in ((40, 4, 60), (300, 2, 40), (50, 1, 200)):
        nodes = [Dense(30, width), *[Dense(width, width)] * (hidden - 1)]
        architecture = Architecture((30,), (*nodes, Dense(width, 2, gated=False)))
        _check_delta_memory(make_network(architecture, own=False, soft=True), n)


def _check_delta_memory(network: GatedNetwork, n: int) -> None:
    x, settings = draw_images(network.architecture, n), KernelSettings(only=("delta",))
    plan = settings.make_plan(network, x, None)
    taken = peak_bytes(partial(kernel_arrays, network, x, None, settings, plan))
    assert 0 < taken <= plan.whole


def test_delta_in_tiles_of_units_is_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False, soft=True)
    x = draw_images(network.architecture, 3)
    whole = k.path_gradient_overlap(network, x)
    monkeypatch.setattr("dgn_engine.kernels.expected_features.TILE_BYTES", 1)
    tiled = k.path_gradient_overlap(network, x)
    torch.testing.assert_close(tiled, whole, rtol=1e-12, atol=0.0)


def test_a_deeper_network_lies_between_draws_within_their_standard_error() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False, soft=True)
    x, draws = draw_images(network.architecture, 3), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(300):
        network.value.init_weights("bernoulli", generator, sigma=0.6)
        draws.append(k.tangent_kernels(network, x).feature)
    kernels = torch.stack([draw for draw in draws if draw is not None])
    error = kernels.std(0) / len(kernels) ** 0.5
    apart = (kernels.mean(0) - k.expected_feature_kernel(network, x)).abs()
    assert bool((apart <= 4 * error).all())


def test_wide_networks_have_the_gated_limit_as_their_expectation_on_average() -> None:
    w, sigma = 100, (2 / 100) ** 0.5
    architecture = Architecture((w,), (Dense(w, w), Dense(w, w), Dense(w, 1, gated=False)))
    network = GatedNetwork(architecture).double()
    network.own_gates, network.gate = False, Gate(soft=True, beta=1.5)
    generator, x, draws = torch.Generator().manual_seed(1), draw_images(architecture, 2), []
    for _ in range(25):
        for weight in network.feature.parameters():
            draw = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight.data.copy_(sigma * draw)
        draws.append(k.expected_feature_kernel(network, x, sigmas=[sigma] * 3) * 2 / w)
    limit = k.gated_limit(x, 3, beta=1.5).feature
    assert limit is not None
    kernels = torch.stack(draws)
    error = kernels.std(0) / len(draws) ** 0.5
    assert float(error.max()) < 0.05 * float(limit.max())
    assert bool(((kernels.mean(0) - limit).abs() <= 4 * error + 0.01 * limit.max()).all())


REFUSED = [
    (lambda: make_network(CHAIN, soft=True), "not-supported"),  # gates of its own
    (lambda: make_network(CHAIN, own=False), "singular"),  # hard gates: K^F is zero
    (lambda: gated(bias=True), "not-supported"),
    (lambda: make_network(ARCHITECTURES["conv-gap"], own=False, soft=True), "not-supported"),
]


@pytest.mark.parametrize(("make", "kind"), REFUSED)
def test_of_other_networks_it_is_refused(make: Callable[[], GatedNetwork], kind: str) -> None:
    network = make()
    with refused(kind):
        k.expected_feature_kernel(network, draw_images(network.architecture, 2))
    with refused(kind):
        k.path_gradient_overlap(network, draw_images(network.architecture, 2))
