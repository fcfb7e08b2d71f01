from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, jacrev

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.gates import Gate
from tests.engine.kernels.jacobians import contracted, jacobian
from tests.engine.kernels.tiny import ARCHITECTURES, every_architecture, images, make_network

TIGHT = {"rtol": 1e-11, "atol": 1e-12}
MODES = ("mean", "full", "perclass", "sumlogit")


@every_architecture
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bias", [False, True])
def test_a_relu_network_has_only_a_value_kernel_equal_to_its_jacobians(
    name: str, mode: str, bias: bool
) -> None:
    network = make_network(ARCHITECTURES[name], bias=bias)
    x = images(network.architecture, 4)
    kernels = k.tangent_kernels(network, x, mode)
    J = jacobian(network, "value", x, frozen_gates=False)
    assert kernels.feature is None
    assert kernels.cross is None
    torch.testing.assert_close(kernels.whole, contracted(J, J, mode), **TIGHT)


@every_architecture
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bias", [False, True])
def test_a_soft_relu_network_splits_into_value_feature_and_cross(
    name: str, mode: str, bias: bool
) -> None:
    network = make_network(ARCHITECTURES[name], bias=bias, soft=True)
    x = images(network.architecture, 3)
    kernels = k.tangent_kernels(network, x, mode)
    J = jacobian(network, "value", x, frozen_gates=False)
    V = jacobian(network, "value", x, frozen_gates=True)
    F = J - V
    assert kernels.feature is not None
    assert kernels.cross is not None
    torch.testing.assert_close(kernels.value, contracted(V, V, mode), **TIGHT)
    torch.testing.assert_close(kernels.feature, contracted(F, F, mode), **TIGHT)
    cross = contracted(V, F, mode) + contracted(F, V, mode)
    torch.testing.assert_close(kernels.cross, cross, **TIGHT)
    torch.testing.assert_close(kernels.whole, contracted(J, J, mode), **TIGHT)


@every_architecture
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value_input", ["image", "ones", "random"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_soft_gated_network_splits_over_its_two_networks(
    name: str, mode: str, value_input: str, bias: bool
) -> None:
    network = make_network(
        ARCHITECTURES[name], bias=bias, own=False, soft=True, value_input=value_input
    )
    x = images(network.architecture, 3)
    kernels = k.tangent_kernels(network, x, mode)
    V, F = (jacobian(network, part, x, frozen_gates=False) for part in ("value", "feature"))
    assert kernels.feature is not None
    assert kernels.cross is None
    torch.testing.assert_close(kernels.value, contracted(V, V, mode), **TIGHT)
    torch.testing.assert_close(kernels.feature, contracted(F, F, mode), **TIGHT)


@pytest.mark.parametrize(
    ("name", "wiring"),
    [
        ("fc-deep", (2, 0, 1)),
        ("fc-deep", (1, 0, 2)),
        ("conv-gap", (1, 0)),
        ("gap-circular-dense", (1, 0, 3, 2)),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_permuted_wiring_sends_gate_gradients_back_where_they_came_from(
    name: str, wiring: tuple[int, ...], mode: str
) -> None:
    network = make_network(ARCHITECTURES[name], own=False, soft=True, wiring=wiring)
    x = images(network.architecture, 3)
    kernels = k.tangent_kernels(network, x, mode)
    V, F = (jacobian(network, part, x, frozen_gates=False) for part in ("value", "feature"))
    assert kernels.feature is not None
    torch.testing.assert_close(kernels.value, contracted(V, V, mode), **TIGHT)
    torch.testing.assert_close(kernels.feature, contracted(F, F, mode), **TIGHT)


@pytest.mark.parametrize("name", ["fc-deep", "gap-circular-dense", "max-gap", "residual-conv"])
def test_linear_features_have_a_feature_kernel_without_rectification(name: str) -> None:
    network = make_network(ARCHITECTURES[name], own=False, soft=True)
    x = images(network.architecture, 3)
    rectified = k.tangent_kernels(network, x).feature
    network.feature_activation = "linear"
    kernels = k.tangent_kernels(network, x)
    V, F = (jacobian(network, part, x, frozen_gates=False) for part in ("value", "feature"))
    torch.testing.assert_close(kernels.value, contracted(V, V, "mean"), **TIGHT)
    torch.testing.assert_close(kernels.feature, contracted(F, F, "mean"), **TIGHT)
    assert not torch.allclose(torch.as_tensor(kernels.feature), torch.as_tensor(rectified))


def test_multiplying_position_averages_is_not_the_kernel_of_a_convolution() -> None:
    # The 'hadamard' shortcut ⟨U,U'⟩⟨D,D'⟩/P drops the pairs p ≠ p' and is far off.
    chain = Architecture((1, 4, 4), (Conv(1, 3), GlobalAveragePool(), Dense(3, 1, gated=False)))
    network = make_network(chain)
    x = images(chain, 4)
    network.requires_grad_(False)
    trace, head = network.trace(x).value, list(network.value.weights)[1]
    windows = torch.nn.functional.unfold(x, 3, padding=1)
    deltas = trace.gates[0].flatten(2) * head[0, None, :, None] / 16
    shortcut = k.input_gram(windows) * k.input_gram(deltas) / 16
    exact = k.tangent_kernels(network, x).value - k.input_gram(trace.inputs[1])
    assert float((shortcut - exact).norm() / exact.norm()) > 0.3


@every_architecture
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["relu", "soft-relu", "dgn"])
def test_a_rectangular_block_is_a_block_of_the_square_kernel(
    name: str, mode: str, kind: str
) -> None:
    network = make_network(ARCHITECTURES[name], bias=True, own=kind != "dgn", soft=kind != "relu")
    x = images(network.architecture, 5)
    square = k.tangent_kernels(network, x, mode)
    block = k.tangent_kernels(network, x[:3], mode, other=x[3:])
    for whole, part in ((square.value, block.value), (square.feature, block.feature),
                        (square.cross, block.cross)):  # fmt: skip
        assert (whole is None) == (part is None)
        if whole is not None and part is not None:
            corner = whole[:3, :, 3:] if mode == "full" else whole[..., :3, 3:]
            torch.testing.assert_close(part, corner, **TIGHT)


@every_architecture
def test_hard_given_gates_and_a_frozen_feature_network_have_no_feature_kernel(name: str) -> None:
    network = make_network(ARCHITECTURES[name], own=False)
    x = images(network.architecture, 3)
    assert k.tangent_kernels(network, x).feature is None
    network.gate = Gate(soft=True, beta=1.5)
    assert k.tangent_kernels(network, x, feature_trained=False).feature is None
    assert k.tangent_kernels(network, x).feature is not None


@every_architecture
def test_streaming_logits_under_a_small_budget_changes_nothing(name: str) -> None:
    network = make_network(ARCHITECTURES[name], own=False, soft=True)
    x = images(network.architecture, 3)
    for mode in ("mean", "perclass"):
        whole = k.tangent_kernels(network, x, mode)
        streamed = k.tangent_kernels(network, x, mode, budget_bytes=1)
        torch.testing.assert_close(streamed.value, whole.value, **TIGHT)
        torch.testing.assert_close(streamed.feature, whole.feature, **TIGHT)


@every_architecture
def test_value_and_feature_kernels_are_positive_semidefinite(name: str) -> None:
    network = make_network(ARCHITECTURES[name], soft=True)
    kernels = k.tangent_kernels(network, images(network.architecture, 4))
    for kernel in (kernels.value, kernels.feature, kernels.whole):
        assert kernel is not None
        torch.testing.assert_close(kernel, kernel.T)
        assert float(torch.linalg.eigvalsh(kernel)[0]) >= -1e-10 * float(kernel.trace())


def test_the_kernel_of_the_sum_of_softmax_outputs_is_zero() -> None:
    # The authors' notebook differentiated this constant; its kernels were rounding noise.
    network = make_network(ARCHITECTURES["fc-deep"])
    x = images(network.architecture, 4)
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    tree = jacrev(lambda p: functional_call(network, p, (x,)).softmax(1).sum(1))(parameters)
    J = torch.cat([leaf.flatten(1) for leaf in tree.values()], dim=1)
    assert float((J @ J.T).abs().max()) < 1e-25
    assert float(k.tangent_kernels(network, x, "sumlogit").value.trace()) > 1.0


@every_architecture
def test_float32_agrees_with_float64_to_single_precision(name: str) -> None:
    network = make_network(ARCHITECTURES[name], soft=True)
    x = images(network.architecture, 4)
    exact = k.tangent_kernels(network, x).whole
    single = k.tangent_kernels(network.float(), x.float()).whole
    assert single.dtype == torch.float32
    error = (single.double() - exact).norm() / exact.norm()
    assert float(error) < 1e-5


def test_an_unknown_logits_mode_is_refused() -> None:
    network = make_network(ARCHITECTURES["fc-deep"])
    with pytest.raises(UserError, match="logits is 'softmax'"):
        k.tangent_kernels(network, images(network.architecture, 2), "softmax")  # type: ignore[arg-type]  # wrong on purpose


def test_more_examples_and_larger_networks_cost_more() -> None:
    for name in ("fc-deep", "conv-gap"):
        architecture = ARCHITECTURES[name]
        assert k.ntk_cost(architecture, 20) > 2 * k.ntk_cost(architecture, 10) > 0
        assert k.npk_cost(architecture, 20) > 2 * k.npk_cost(architecture, 10) > 0
