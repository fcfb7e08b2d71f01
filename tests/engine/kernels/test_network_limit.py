"""Limits with biases and variances, pooling, residual blocks and given gates: against the numbers
of neural-tangents 0.6.5 (float64) and against wide networks within their standard error."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.model.architecture import (
    Architecture,
    AveragePool,
    ChannelScale,
    Conv,
    Dense,
    Flatten,
    Fork,
    Gating,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
    Node,
    Skip,
)
from dgn_engine.model.feature_layers import parallel_features
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from tests.engine.kernels.conftest import Take
from tests.refusals import refused

SIGMAS = {"sigma_w": [1.3, 0.9, 1.1], "sigma_b": [0.3, 0.0, 0.5]}


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(np.random.RandomState(seed).randn(*shape))


def maps(seed: int, n: int) -> Tensor:
    """Images (n, 2, 4, 4), drawn with channels last as neural-tangents has them."""
    return drawn(seed, n, 4, 4, 2).permute(0, 3, 1, 2)


def equal(found: Tensor, expected: list[float], rtol: float = 1e-12) -> None:
    numbers = torch.tensor(expected, dtype=torch.float64).reshape(found.shape)
    torch.testing.assert_close(found, numbers, rtol=rtol, atol=0.0)


def test_the_dense_limit_with_biases_and_variances_is_that_of_neural_tangents() -> None:
    x, other = drawn(0, 4, 5), drawn(1, 3, 5)
    block = k.relu_limit(x, 3, other, **SIGMAS).tangent
    equal(block, [
        0.87007885, 0.6461826, 1.11884124, 0.36868803, 1.15092574, 0.36196155,
        0.44780674, 0.73959319, 0.40491659, 0.42499076, 0.84836307, 0.38138157,
    ], rtol=2e-8)  # fmt: skip
    covariance = k.relu_limit(x, 3, **SIGMAS).covariance
    equal(covariance.diagonal(), [1.32710213, 0.4426495, 0.51443351, 0.5381638], rtol=2e-8)
    layers = (Dense(5, 1), Dense(1, 1), Dense(1, 1, gated=False))
    whole = k.network_limit(Architecture((5,), layers), x, other, **SIGMAS).tangent
    torch.testing.assert_close(whole, block, rtol=1e-12, atol=0.0)


def conv(inputs: int = 1, gated: bool = True, kernel: int = 3) -> Conv:
    return Conv(inputs, 1, kernel=kernel, padding=kernel // 2, gated=gated)


LAST = Dense(1, 1, gated=False)
FIRST = conv(2)
CHAINS: dict[str, tuple[tuple[Node, ...], list[float], list[float]]] = {
    "average pooling": (
        (FIRST, AveragePool(), conv(), GlobalAveragePool(), LAST),
        [0.27309021057534333, 0.24168737240617885, 0.234455717901417,
         0.2427424550820069, 0.24195469391979463, 0.227922042850744],
        [0.373246576748834, 0.34325462581382166, 0.2839081222961457],
    ),
    "overlapping windows": (
        (FIRST, AveragePool(2, 1), conv(), Flatten(), Dense(9, 1, gated=False)),
        [0.5570266771879295, 0.4684250164700222, 0.3942963149438914,
         0.5104726581805058, 0.4925820479317087, 0.433379396370848],
        [1.0978783183436556, 0.9973853088797543, 0.8245342255030159],
    ),
    "identity skip, pre-activation": (
        (conv(2, gated=False), Fork(), Gating(), conv(), conv(gated=False), Merge(), Gating(),
         GlobalAveragePool(), LAST),
        [0.8804551035042307, 0.7462538879020467, 0.7013212570581833,
         0.7436800880266048, 0.7415095173905002, 0.6943057936027311],
        [1.2415395945760614, 1.1084768478190834, 0.8477698107344436],
    ),
    "projected skip": (
        (FIRST, Fork(), conv(), conv(gated=False), Skip(), conv(gated=False, kernel=1), Merge(),
         Gating(), GlobalAveragePool(), LAST),
        [1.2465834176751014, 1.0726725364644907, 1.0420640082233001,
         1.02742170514481, 1.0669368708531037, 0.9712068766045643],
        [1.6622626516186811, 1.4268115926259801, 1.182741785830321],
    ),
    "flattened": (
        (FIRST, conv(), Flatten(), Dense(16, 1), LAST),
        [0.947669829113873, 0.8432977851639742, 0.5936159267209785,
         0.9125284763668062, 0.7730555776216768, 0.67068908682095],
        [2.973196602406733, 2.363574275915957, 2.2309550148300645],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CHAINS))
def test_the_limit_of_a_network_is_that_of_neural_tangents(name: str, take: Take) -> None:
    nodes, block, diagonal = CHAINS[name]
    architecture = Architecture((2, 4, 4), nodes)
    x, other = maps(0, 3), maps(1, 2)
    equal(k.network_limit(architecture, x, other, 1.3, 0.2).tangent, block)
    square = k.network_limit(architecture, x, None, 1.3, 0.2)
    equal(square.tangent.diagonal(), diagonal, rtol=1e-9)  # theirs is rounded near ρ = 1
    assert torch.equal(square.tangent, square.tangent.T)
    take("limits in tiles")
    one_by_one = k.network_limit(architecture, x, None, 1.3, 0.2)
    torch.testing.assert_close(one_by_one.tangent, square.tangent, rtol=1e-12, atol=0.0)
    torch.testing.assert_close(one_by_one.covariance, square.covariance, rtol=1e-12, atol=0.0)


def test_a_dense_residual_limit_is_that_of_neural_tangents() -> None:
    hidden = (Fork(), Gating(), Dense(1, 1), Dense(1, 1, gated=False), Merge(), Gating())
    architecture = Architecture((5,), (Dense(5, 1, gated=False), *hidden, LAST))
    found = k.network_limit(architecture, drawn(0, 4, 5), drawn(1, 3, 5), 1.3, 0.2).tangent
    equal(found, [
        3.321214022526939, 1.6736427769943634, 4.711422237588163, 0.494059538350995,
        4.987909229204934, 0.3230978156047887, 0.9796684708204613, 2.67308421413597,
        0.5758177874648225, 0.8106537526957032, 3.2906314167101067, 0.3331128960005178,
    ])  # fmt: skip


UNPOOLED: dict[str, tuple[Node, ...]] = {
    "pooled": (conv(2), conv(), GlobalAveragePool(), LAST),
    "cyclic": (Conv(2, 1, circular=True), conv(), GlobalAveragePool(), LAST),
    "strides": (Conv(2, 1, stride=2), conv(), GlobalAveragePool(), LAST),
    "flattened": (conv(2), conv(), Flatten(), Dense(16, 1, gated=False)),
    "dense above": (conv(2), conv(), GlobalAveragePool(), Dense(1, 1), LAST),
}


@pytest.mark.parametrize("name", UNPOOLED)
def test_without_pooling_in_between_it_is_the_convolutional_limit_in_other_units(name: str) -> None:
    architecture, x = Architecture((2, 4, 4), UNPOOLED[name]), maps(0, 5)
    # There the first layer is N(0, 1/kernel²): σ_w² is the number of channels.
    sigmas = [math.sqrt(2)] * len(architecture.weight_layers)
    for one, other in ((x, None), (x[:2], x[2:])):
        found = k.network_limit(architecture, one, other, sigma_w=sigmas)
        expected = k.convolutional_limit(architecture, one, other)
        torch.testing.assert_close(found.tangent, expected.tangent, rtol=1e-8, atol=1e-12)


def test_the_limits_of_a_chain_in_units_of_their_own_differ_by_the_first_layer() -> None:
    x = drawn(0, 4, 6)
    plain, given = k.relu_limit(x, 4), k.relu_limit(x, 4, sigma_w=math.sqrt(2))
    torch.testing.assert_close(given.tangent, plain.tangent * 2 / 6)
    linear = k.linear_limit(x, 4, sigma_w=math.sqrt(2)).tangent
    torch.testing.assert_close(linear, k.linear_limit(x, 4).tangent * 2 / 6)
    soft = k.soft_relu_limit(x, 3, beta=3.0)
    same = k.soft_relu_limit(x, 3, beta=3.0, sigma_w=math.sqrt(2), sigma_b=0.0)
    torch.testing.assert_close(same.tangent, soft.tangent)


def test_a_linear_network_with_biases_is_its_recursion() -> None:
    x = drawn(0, 3, 5)
    found = k.linear_limit(x, 2, sigma_w=[1.2, 0.7], sigma_b=[0.4, 0.3])
    first = 1.44 * x @ x.T / 5 + 0.16
    torch.testing.assert_close(found.covariance, 0.49 * first + 0.09)
    torch.testing.assert_close(found.tangent, 0.49 * first + 0.49 * first + 0.09)


def within_error(draws: list[Tensor], limit: Tensor, finite: float) -> None:
    """The mean lies within four standard errors, and what a finite width leaves, of the limit."""
    kernels = torch.stack(draws).double()
    error = kernels.std(0) / math.sqrt(len(draws))
    assert bool(((kernels.mean(0) - limit).abs() <= 4 * error + finite * limit.abs().max()).all())
    assert float(error.max()) < 0.2 * float(limit.abs().max()), "the check would see nothing"


@pytest.mark.parametrize(
    ("soft", "value_input", "features"),
    [
        (True, "image", "relu"),
        (True, "ones", "linear"),
        (False, "image", "relu"),
        (True, "image", "parallel"),
    ],
)
def test_a_wide_deep_gated_network_has_its_limit_part_by_part(
    soft: bool, value_input: str, features: str
) -> None:
    # With d_in = w every layer has the same √(2/w): one factor turns K into NTK parametrisation.
    w, beta = 300, 1.5
    x = drawn(3, 3, w)
    x[1] = x[0] + 0.4 * x[1]
    architecture = Architecture((w,), (Dense(w, w), Dense(w, w), Dense(w, 1, gated=False)))
    linear, parallel = features == "linear", features == "parallel"
    makers = parallel_features(architecture) if parallel else architecture
    network = GatedNetwork(architecture, feature_architecture=makers)
    network.own_gates, network.gate = False, Gate(soft=soft, beta=beta)
    network.value_input = value_input  # type: ignore[assignment]  # parametrised by word
    network.feature_activation = "linear" if linear else "relu"
    generator = torch.Generator().manual_seed(0)
    parts: dict[str, list[Tensor]] = {"value": [], "feature": []}
    for _ in range(16):
        for weight in network.parameters():
            draw = torch.randn(weight.shape, generator=generator)
            weight.data.copy_(math.sqrt(2 / w) * draw)
        found = k.tangent_kernels(network, x.float())
        for part, kernels in parts.items():
            kernel = getattr(found, part)
            if kernel is not None:
                kernels.append(kernel * 2 / w)
    limit = k.gated_limit(
        *(x, 3, beta if soft else None),
        value_input=value_input,
        linear_features=linear,
        parallel_features=parallel,
    )
    assert limit.value is not None
    within_error(parts["value"], limit.value, 0.02)
    torch.testing.assert_close(limit.value, 3 * limit.covariance)
    if soft:
        assert limit.feature is not None
        within_error(parts["feature"], limit.feature, 0.02)
        torch.testing.assert_close(limit.tangent, limit.value + limit.feature)
    else:
        assert limit.feature is None
        assert not parts["feature"]
        assert torch.equal(limit.tangent, limit.value)


def test_beta_times_the_path_kernel_of_a_wide_feature_network_tends_to_the_gated_limit() -> None:
    w, x = 500, drawn(4, 4, 10)
    generator = torch.Generator().manual_seed(0)
    layers = (Dense(10, w), Dense(w, w), Dense(w, w), Dense(w, 1, gated=False))
    draws = []
    for _ in range(20):
        z, gates = x, []
        for size in (10, w, w):
            weight = torch.randn((w, size), generator=generator, dtype=torch.float64)
            q = z @ weight.T * math.sqrt(2 / size)
            gates.append((q > 0).double())
            z = q * gates[-1]
        sigmas = [math.sqrt(2 / w)] * 4
        found = k.expected_value_kernel(Architecture((10,), layers), gates, x, sigmas)
        draws.append(found * 2 / 10)
    within_error(draws, k.gated_limit(x, 4).tangent, 0.005)


def test_a_block_of_the_gated_limit_is_the_corner_of_both() -> None:
    x = drawn(5, 6, 4)
    whole = k.gated_limit(x, 3, beta=3.0)
    block = k.gated_limit(x[:4], 3, beta=3.0, other=x[4:])
    torch.testing.assert_close(block.tangent, whole.tangent[:4, 4:], rtol=1e-8, atol=1e-10)


REFUSED: dict[str, tuple[Node, ...]] = {
    "max pooling": (FIRST, MaxPool(), Flatten(), Dense(4, 1, gated=False)),
    "global max pooling": (FIRST, GlobalMaxPool(), LAST),
    "a sum with a gated skip": (
        FIRST, Fork(), conv(), conv(gated=False), Merge(), Gating(), GlobalAveragePool(), LAST,
    ),
    "a gated branch": (FIRST, Fork(), conv(), Merge(), GlobalAveragePool(), LAST),
    "scaled channels": (
        conv(2, gated=False), ChannelScale(1), Gating(), GlobalAveragePool(), LAST,
    ),
    "BatchNorm": (Conv(2, 1, normal=True), GlobalAveragePool(), LAST),
    "a factor": (FIRST, GlobalAveragePool(), Dense(1, 1, factor=0.5), LAST),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_closed_form_is_refused(name: str) -> None:
    with refused("not-supported"):
        k.network_limit(Architecture((2, 4, 4), REFUSED[name]), maps(0, 2))


def test_biases_without_variances_are_refused() -> None:
    with refused("contradiction"):
        k.relu_limit(drawn(0, 3, 4), 2, sigma_b=0.1)
    with refused("wrong-length"):
        k.relu_limit(drawn(0, 3, 4), 3, sigma_w=[1.0, 1.0])
    with refused("contradiction"):
        k.soft_relu_limit(drawn(0, 3, 4), 3, 4.0, as_printed=True, sigma_w=1.0)
