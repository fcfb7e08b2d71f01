from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.func import functional_call, jacrev

import dgn_engine.kernels as k
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    GlobalAveragePool,
)
from dgn_engine.model.gates import Gate
from dgn_engine.model.regime_entry import configure_for
from dgn_engine.regimes import all_regimes, find_regime
from tests.engine.kernels.conftest import Take
from tests.engine.kernels.jacobians import check_parts, contract_jacobians, jacobian
from tests.engine.kernels.normalised import NORMALISED, learnt
from tests.engine.kernels.tiny import (
    ARCHITECTURES,
    draw_images,
    every_architecture,
    make_network,
    random_gates,
)
from tests.plugins import each

TIGHT = {"rtol": 1e-11, "atol": 1e-12}
MODES = ("mean", "full", "perclass", "sumlogit")


@pytest.mark.check
@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["relu", "soft-relu", "image", "ones", "random"])
@pytest.mark.parametrize("bias", [False, True])
def test_every_part_of_a_tangent_kernel_is_that_of_jacobians(
    name: str, mode: str, kind: str, bias: bool
) -> None:
    own = "relu" in kind
    network = make_network(
        ARCHITECTURES[name],
        bias=bias,
        own=own,
        soft=kind != "relu",
        value_input="image" if own else kind,
    )
    check_parts(network, mode)


@pytest.mark.wide
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
    check_parts(make_network(ARCHITECTURES[name], own=False, soft=True, wiring=wiring), mode)


@pytest.mark.parametrize("name", ["fc-deep", "gap-circular-dense", "max-gap", "residual-conv"])
def test_linear_features_have_a_feature_kernel_without_rectification(name: str) -> None:
    network = make_network(ARCHITECTURES[name], own=False, soft=True)
    rectified = k.tangent_kernels(network, draw_images(network.architecture, 3)).feature
    network.feature_activation = "linear"
    check_parts(network, "mean")
    found = k.tangent_kernels(network, draw_images(network.architecture, 3)).feature
    assert not torch.allclose(torch.as_tensor(found), torch.as_tensor(rectified))


def test_multiplying_position_averages_is_not_the_kernel_of_a_convolution() -> None:
    # The 'hadamard' shortcut ⟨U,U'⟩⟨D,D'⟩/P drops the pairs p ≠ p' and is far off.
    chain = Architecture((1, 4, 4), (Conv(1, 3), GlobalAveragePool(), Dense(3, 1, gated=False)))
    network = make_network(chain)
    x = draw_images(chain, 4)
    network.requires_grad_(False)
    trace, head = network.trace(x).value, list(network.value.weights)[1]
    windows = torch.nn.functional.unfold(x, 3, padding=1)
    deltas = trace.gates[0].flatten(2) * head[0, None, :, None] / 16
    shortcut = k.input_gram(windows) * k.input_gram(deltas) / 16
    exact = k.tangent_kernels(network, x).value - k.input_gram(trace.inputs[1])
    assert float((shortcut - exact).norm() / exact.norm()) > 0.3


@pytest.mark.wide(6)
@every_architecture
def test_hard_given_gates_and_a_frozen_feature_network_have_no_feature_kernel(name: str) -> None:
    network = make_network(ARCHITECTURES[name], own=False)
    x = draw_images(network.architecture, 3)
    assert k.tangent_kernels(network, x).feature is None
    network.gate = Gate(soft=True, beta=1.5)
    assert k.tangent_kernels(network, x, trains=("value",)).feature is None
    assert k.tangent_kernels(network, x).feature is not None


def test_the_kernel_of_the_sum_of_softmax_outputs_is_zero() -> None:
    # The authors' notebook differentiated this constant; its kernels were rounding noise.
    network = make_network(ARCHITECTURES["fc-deep"])
    x = draw_images(network.architecture, 4)
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    tree = jacrev(lambda p: functional_call(network, p, (x,)).softmax(1).sum(1))(parameters)
    J = torch.cat([leaf.flatten(1) for leaf in tree.values()], dim=1)
    assert float((J @ J.T).abs().max()) < 1e-25
    assert float(k.tangent_kernels(network, x, "sumlogit").value.trace()) > 1.0


@pytest.mark.wide(6)
@every_architecture
def test_float32_agrees_with_float64_to_single_precision(name: str) -> None:
    network = make_network(ARCHITECTURES[name], soft=True)
    x = draw_images(network.architecture, 4)
    exact = k.tangent_kernels(network, x).total_kernel
    single = k.tangent_kernels(network.float(), x.float()).total_kernel
    assert single.dtype == torch.float32
    error = (single.double() - exact).norm() / exact.norm()
    assert float(error) < 1e-5


@pytest.mark.wide
@pytest.mark.parametrize("name", list(NORMALISED))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["relu", "soft-relu", "dgn"])
def test_the_parameters_are_those_that_are_trained(
    name: str, mode: str, bias: bool, kind: str
) -> None:
    check_parts(learnt(name, bias=bias, own=kind != "dgn", soft=kind != "relu"), mode)


def test_a_channel_whose_scale_is_zero_still_has_its_gradient() -> None:
    network = learnt("small-maps", bias=False, own=True, soft=False)
    assert network.value.normalisation is not None
    with torch.no_grad():
        network.value.normalisation.scales[1][3] = 0.0
    x = draw_images(network.architecture, 3)
    J = jacobian(network, "value", x, frozen_gates=False)
    kernel = k.tangent_kernels(network, x).total_kernel
    torch.testing.assert_close(kernel, contract_jacobians(J, J, "mean"), **TIGHT)


@pytest.mark.parametrize("name", list(NORMALISED))
def test_the_kernel_of_folded_weights_is_that_of_the_network_they_are_folded_into(
    name: str,
) -> None:
    network = learnt(name, bias=True, own=True, soft=True)
    x = draw_images(network.architecture, 3)
    nodes = tuple(
        replace(node, normal=False)
        if isinstance(node, Conv)
        else replace(node, factor=1.0)
        if isinstance(node, Dense)
        else node
        for node in network.architecture.nodes
    )
    plain = make_network(replace(network.architecture, nodes=nodes), bias=True, soft=True)
    weights, biases = network.value.folded_tensors()
    plain.value.load_layers(weights, biases)
    expected = k.tangent_kernels(plain, x).total_kernel
    torch.testing.assert_close(
        k.tangent_kernels(network, x, folded=True).total_kernel, expected, **TIGHT
    )
    torch.testing.assert_close(
        k.SharedKernels(network, x, folded=True).tangent.total_kernel, expected, **TIGHT
    )
    assert not torch.allclose(k.tangent_kernels(network, x).total_kernel, expected)


def test_a_frozen_value_network_has_no_value_kernel() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False, soft=True)
    x = draw_images(network.architecture, 3)
    both = k.tangent_kernels(network, x)
    network.trains = ("feature",)
    kernels = k.tangent_kernels(network, x)
    assert kernels.value is None
    torch.testing.assert_close(kernels.total_kernel, both.feature, **TIGHT)
    block = k.tangent_kernels(network, x[:2], other=x)
    torch.testing.assert_close(block.total_kernel, kernels.total_kernel[:2], **TIGHT)
    asked = k.tangent_kernels(network, x, trains=("value",))
    torch.testing.assert_close(asked.total_kernel, both.value, **TIGHT)


@pytest.mark.parametrize("own", [False, True])
def test_what_cannot_move_the_output_has_no_kernel(own: bool) -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=own)
    with pytest.raises(ValueError, match="affects the output"):
        k.tangent_kernels(network, draw_images(network.architecture, 2), trains=("feature",))


@pytest.mark.check
@pytest.mark.parametrize("regime", each(regime.name for regime in all_regimes()))
def test_k_is_the_sum_over_what_the_regime_trains(regime: str) -> None:
    found = find_regime(regime)
    network = make_network(ARCHITECTURES["fc-deep"])
    configure_for(network, found)
    x = draw_images(network.architecture, 3)
    if found.drawn_gates:
        network = network.with_gates(tuple(random_gates(network.architecture, 3, hard=True)))
    expected = torch.zeros(3, 3, dtype=x.dtype)
    parameters = {n: p.detach() for n, p in network.named_parameters() if p.requires_grad}
    assert parameters
    tree = jacrev(lambda p: functional_call(network, p, (x,)))(parameters)
    for name, leaf in tree.items():
        if found.own_gates and name.startswith("feature"):
            continue
        J = leaf.flatten(2)
        expected += torch.einsum("nkp,mkp->nm", J, J) / J.shape[1]
    torch.testing.assert_close(k.tangent_kernels(network, x).total_kernel, expected, **TIGHT)


@pytest.mark.wide
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("road", ["logit by logit", "BLAS"])
def test_layers_above_the_last_gate_count_whatever_their_logits_share(
    mode: str, bias: bool, road: str, take: Take
) -> None:
    """Their deltas are the same for all examples, and of two logits with orthogonal weights their
    product is zero, as that of the output layer with itself; logits one by one, or together."""
    take(road)
    nodes = (Dense(3, 4), Dense(4, 4, gated=False), Dense(4, 4, gated=False))
    network = make_network(Architecture((3,), (*nodes, Dense(4, 3, gated=False))), bias=bias)
    with torch.no_grad():
        network.value.weights[-1].copy_(torch.eye(3, 4, dtype=torch.float64))
    check_parts(network, mode)
