"""Shared kernels are the separate ones, computed once; churn counts what switched."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.gates import Gate
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, every_architecture, make_network
from tests.refusals import refused


@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("how", ["none", "trace", "width", "cosine"])
@pytest.mark.parametrize("soft", [False, True])
def test_each_shared_kernel_equals_the_one_computed_alone(
    name: str, how: k.Normalise, soft: bool
) -> None:
    architecture = ARCHITECTURES[name]
    network = make_network(architecture, own=False, soft=soft)
    x = draw_images(architecture, 4)
    shared = k.SharedKernels(network, x)
    trace = network.trace(x)
    gates, masks = trace.value.gates, trace.value.masks
    slopes = [network.gate.sensitivity(q) for q in trace.gate_pre]
    for found, alone in (
        (shared.overlap(how), k.overlap(architecture, gates, how, masks)),
        (
            shared.sensitive_overlap(how),
            k.sensitive_overlap(architecture, gates, slopes, how, masks),
        ),
        (shared.npk(how), k.neural_path_kernel(architecture, gates, x, how, masks)),
        (shared.tangent.total_kernel, k.tangent_kernels(network, x).total_kernel),
    ):
        assert torch.allclose(found, alone, rtol=1e-12, atol=0, equal_nan=True)


def test_churn_is_the_share_of_gates_that_switched() -> None:
    before = [torch.tensor([[1.0, 0.0], [0.4, 0.6]]), torch.ones(2, 3)]
    after = [torch.tensor([[0.0, 0.0], [0.6, 0.9]]), torch.ones(2, 3)]
    assert k.gate_churn(before, after) == (2 / 10, [2 / 4, 0.0])
    with pytest.raises(UserError):
        k.gate_churn(before, after[:1])


@pytest.mark.parametrize("name", ["fc-deep", "conv-gap", "residual-dense"])
def test_the_expectation_lies_beside_the_measured_value_kernel(name: str) -> None:
    network = make_network(ARCHITECTURES[name], own=False, soft=True)
    x = draw_images(network.architecture, 3)
    draws = 120
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros((3, 3), dtype=torch.float64)
    for _ in range(draws):
        network.value.init_weights("bernoulli", generator, sigma=0.5)
        shared = k.SharedKernels(network, x)
        total += shared.tangent.value
    expected = shared.expected_value()
    sigmas = [0.5] * len(network.architecture.weight_layers)
    exact = k.expected_value_kernel(network.architecture, shared.gates, x, sigmas)
    assert torch.allclose(expected, exact, rtol=1e-12)
    assert torch.linalg.norm(total / draws - expected) < 0.4 * torch.linalg.norm(expected)


def test_the_expected_value_kernel_is_refused_where_what_trains_is_folded() -> None:
    nodes = (Dense(3, 4, factor=0.5), Dense(4, 2, gated=False))
    network = make_network(Architecture((3,), nodes), own=False)
    x = draw_images(network.architecture, 3)
    with pytest.raises(ValueError, match="folded=True"):
        k.SharedKernels(network, x).expected_value()
    expected = k.SharedKernels(network, x, folded=True).expected_value()
    plain = make_network(Architecture((3,), (Dense(3, 4), nodes[1])), own=False)
    plain.value.load_layers(*network.value.folded_tensors())
    plain.feature.load_layers(*network.feature.folded_tensors())
    torch.testing.assert_close(expected, k.SharedKernels(plain, x).expected_value())


@pytest.mark.parametrize("settings", [{"own": True}, {"own": False, "bias": True}])
def test_the_expected_value_kernel_is_refused_where_it_is_not_the_expectation(
    settings: dict[str, bool],
) -> None:
    network = make_network(ARCHITECTURES["fc-deep"], **settings)
    with refused("not-supported"):
        k.SharedKernels(network, draw_images(network.architecture, 3)).expected_value()


def test_the_expected_value_kernel_of_a_deep_linear_network_exists() -> None:
    network = make_network(ARCHITECTURES["fc-deep"])
    network.gate = Gate(open=True)
    shared = k.SharedKernels(network, draw_images(network.architecture, 3))
    sigmas = k.weight_sigmas(list(network.value.weights))
    beta = k.value_kernel_constant(network.architecture, sigmas)
    torch.testing.assert_close(shared.expected_value(), beta * shared.npk())


def test_a_network_without_gates_has_a_tangent_kernel_and_no_path_kernels() -> None:
    module = nn.Linear(4, 3).double()
    x = torch.randn((5, 4), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    network = k.adapt(module, (4,))
    for other in (None, x[:2]):
        shared = k.SharedKernels(network, x, other=other)
        columns = x if other is None else other
        torch.testing.assert_close(shared.tangent.total_kernel, x @ columns.T + 1)
        for ask in (shared.npk, shared.overlap, shared.sensitive_overlap):
            with refused("no-gates"):
                ask()


@pytest.mark.parametrize("name", ["fc-deep", "conv-gap"])
def test_what_was_asked_before_and_what_is_done_to_it_changes_no_kernel(name: str) -> None:
    network = make_network(ARCHITECTURES[name], own=False, soft=True)
    x = draw_images(network.architecture, 4)
    shared, hows = k.SharedKernels(network, x), ("none", "trace", "width", "cosine", "none")
    for kind in ("overlap", "sensitive_overlap", "npk"):
        for how in hows:
            fresh = getattr(k.SharedKernels(network, x), kind)(how)
            found = getattr(shared, kind)(how)
            torch.testing.assert_close(found, fresh, rtol=0.0, atol=0.0, equal_nan=True)
            found.mul_(2.0)  # it is the caller's own


def test_kernels_of_a_second_network_and_of_second_inputs_are_their_own() -> None:
    one, two = (make_network(ARCHITECTURES["conv-gap"], own=False, soft=True) for _ in range(2))
    with torch.no_grad():
        for weight in two.parameters():
            weight.mul_(-1.5)
    x = draw_images(one.architecture, 3)
    asked = [(one, x), (two, x), (one, x + 1), (one, x)]
    found = [k.SharedKernels(network, inputs) for network, inputs in asked]
    kernels = [(each.npk(), each.tangent.total_kernel) for each in found]
    for a, b in zip(kernels[0], kernels[3], strict=True):
        assert torch.equal(a, b)
    for other in kernels[1:3]:
        assert not any(torch.equal(a, b) for a, b in zip(kernels[0], other, strict=True))
