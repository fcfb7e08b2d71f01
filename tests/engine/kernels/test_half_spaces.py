"""Hyperplanes in input space, against products of weights and sides of random points, float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.kernels.half_spaces import half_space_layers
from dgn_engine.model.architecture import (
    Architecture,
    AveragePool,
    Conv,
    Dense,
    Flatten,
    Fork,
    Gating,
    GlobalAveragePool,
    MaxPool,
    Merge,
)
from dgn_engine.model.feature_layers import parallel_features
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from tests.refusals import refused

DENSE = Architecture((4,), (Dense(4, 5), Dense(5, 3), Dense(3, 2), Dense(2, 1, gated=False)))
MAPS = Architecture(
    (2, 6, 6),
    (
        Conv(2, 3, normal=True),
        AveragePool(2, 2),
        Fork(),
        Conv(3, 3),
        Conv(3, 3, gated=False),
        Merge(0.5),
        Gating(),
        GlobalAveragePool(),
        Dense(3, 2, gated=False),
    ),
)
POOLED = Architecture(
    (1, 6, 6),
    (Conv(1, 2), MaxPool(), Conv(2, 2), Flatten(), Dense(18, 2, gated=False)),
)
POOLED_FIRST = Architecture(
    (1, 6, 6),
    (Conv(1, 2, gated=False), MaxPool(), Gating(), Flatten(), Dense(18, 2, gated=False)),
)


def drawn(architecture: Architecture, *, linear: bool, own: bool = False) -> GatedNetwork:
    """A network with random weights, biases and statistics."""
    network = GatedNetwork(architecture, bias=True).double()
    generator = torch.Generator().manual_seed(0)
    for tensor in (*network.parameters(), *network.buffers()):
        if tensor.is_floating_point():
            tensor.data = torch.randn(tensor.shape, generator=generator, dtype=torch.float64).abs()
            tensor.data -= 0.5 * (tensor.dim() != 1)
    network.own_gates = own
    network.feature_activation = "linear" if linear else "relu"
    return network


@pytest.mark.parametrize("activation", ["relu", "linear"])
def test_hyperplanes_of_parallel_features_are_the_rows_of_each_weight(activation) -> None:
    network = GatedNetwork(DENSE, bias=True, feature_architecture=parallel_features(DENSE)).double()
    network.own_gates, network.feature_activation = False, activation
    with torch.no_grad():
        for number, bias in enumerate(network.feature.biases):
            bias.fill_(0.5 * number)
    found = k.effective_hyperplanes(network)
    assert [one.layer for one in found] == [0, 1, 2]
    for one in found:
        weight = network.feature.weights[one.layer].detach()
        torch.testing.assert_close(one.normals, weight, rtol=1e-12, atol=0)
        torch.testing.assert_close(one.offsets, torch.full_like(one.offsets, 0.5 * one.layer))


def test_hyperplanes_of_linear_features_are_products_of_their_weights() -> None:
    network = drawn(DENSE, linear=True)
    product, offset = np.eye(4), np.zeros(4)
    found = k.effective_hyperplanes(network)
    assert [one.layer for one in found] == [0, 1, 2]
    for layer, one in enumerate(found):
        weight = network.feature.weights[layer].detach().numpy()
        product = weight @ product
        offset = weight @ offset + network.feature.biases[layer].detach().numpy()
        if layer == 0:
            offset = network.feature.biases[0].detach().numpy()
        np.testing.assert_allclose(one.normals.numpy(), product, rtol=1e-12)
        np.testing.assert_allclose(one.offsets.numpy(), offset, rtol=1e-12)
        assert one.units.tolist() == list(range(len(weight)))


@pytest.mark.parametrize("architecture", [DENSE, MAPS], ids=["dense", "residual maps"])
def test_a_gate_is_open_where_its_half_space_says(architecture: Architecture) -> None:
    network = drawn(architecture, linear=True)
    x = torch.randn(200, *architecture.input_shape, dtype=torch.float64)
    trace = network.trace(x).feature
    assert trace is not None
    layers = half_space_layers(network)
    assert layers == tuple(range(len(architecture.gated_shapes)))
    for one in k.effective_hyperplanes(network):
        q = x.flatten(1) @ one.normals.T + one.offsets
        torch.testing.assert_close(q, trace.pre[one.layer].flatten(1)[:, one.units])
        if len(architecture.input_shape) == 3:  # the middle of each channel
            _, rows, columns = architecture.gated_shapes[one.layer]
            places = one.units % (rows * columns)
            assert set(places.tolist()) == {rows // 2 * columns + columns // 2}


def test_behind_a_relu_or_a_max_pooling_there_are_no_half_spaces() -> None:
    assert half_space_layers(drawn(DENSE, linear=False)) == (0,)
    assert half_space_layers(drawn(DENSE, linear=False, own=True)) == (0,)
    assert half_space_layers(drawn(DENSE, linear=True, own=True)) == (0,)
    assert half_space_layers(drawn(MAPS, linear=False)) == (0,)
    assert half_space_layers(drawn(POOLED, linear=True)) == (0,)
    assert half_space_layers(drawn(POOLED_FIRST, linear=True)) == ()
    # what is left out would be wrong: no affine function has the values of the second layer
    network = drawn(DENSE, linear=False, own=True)
    x = torch.randn(200, 4, dtype=torch.float64)
    ones = torch.cat([x, torch.ones(200, 1, dtype=torch.float64)], dim=1)
    for layer, is_affine in ((0, True), (1, False)):
        q = network.trace(x).value.pre[layer].detach()
        rest = q - ones @ torch.linalg.lstsq(ones, q).solution
        assert (float(rest.abs().max()) < 1e-9) == is_affine


@pytest.mark.parametrize("own", [False, True])
def test_at_an_example_later_layers_have_the_values_of_its_region(own: bool) -> None:
    network = drawn(DENSE, linear=False, own=own)
    example = torch.randn(1, 4, dtype=torch.float64)
    near = example + 1e-7 * torch.randn(50, 4, dtype=torch.float64)
    trace = network.trace(near)
    made = trace.value if trace.feature is None else trace.feature
    found = k.effective_hyperplanes(network, example)
    assert len(found) == 3
    for one in found:
        q = near @ one.normals.T + one.offsets
        torch.testing.assert_close(q, made.pre[one.layer], rtol=1e-10, atol=1e-12)


def test_gates_that_do_not_depend_on_the_input_have_no_hyperplanes() -> None:
    network = drawn(DENSE, linear=False, own=True)
    gates = tuple(torch.ones(2, *shape).double() for shape in DENSE.gated_shapes)
    always_open = drawn(DENSE, linear=False, own=True)
    always_open.gate = Gate(open=True)
    for given in (network.with_gates(gates), always_open):
        assert half_space_layers(given) == ()
        with refused("drawn-gates"):
            k.effective_hyperplanes(given)
    soft = drawn(DENSE, linear=False, own=True)
    soft.gate = Gate(soft=True)
    with refused("not-supported"):
        k.effective_hyperplanes(soft, torch.ones(1, 4).double())
    with refused("wrong-shape"):
        k.effective_hyperplanes(network, torch.ones(1, 3).double())


def test_distances_to_cuts_are_those_of_unit_vectors_one_by_one() -> None:
    generator = torch.Generator().manual_seed(1)
    rows, cuts = (torch.randn(n, 4, generator=generator).double() for n in (5, 3))
    rows[4, :3] = 0.0
    found = k.cut_distances(rows, cuts)
    for u, c in np.ndindex(4, 3):
        one, other = rows[u].numpy(), cuts[c].numpy()
        one, other = (v / math.sqrt(sum(v[:3] ** 2)) for v in (one, other))
        if one[:3] @ other[:3] < 0:
            other = -other
        angle = math.degrees(math.acos(one[:3] @ other[:3]))
        assert float(found.angles[u, c]) == pytest.approx(angle)
        assert float(found.offsets[u, c]) == pytest.approx(abs(one[3] - other[3]))
        assert float(found.distances[u, c]) == pytest.approx(np.linalg.norm(one - other))
    assert found.angles[4].isnan().all()
    with refused("wrong-shape"):
        k.cut_distances(rows, cuts[:, 1:])


@pytest.mark.parametrize("columns", [1, 3])
def test_a_machine_separates_as_the_best_hyperplane_of_its_features(columns: int) -> None:
    """Of few points: the largest margin, found again by a quadratic program with SciPy."""
    from scipy.optimize import minimize

    generator = torch.Generator().manual_seed(2)
    phi = torch.randn(30, 2, generator=generator).double()
    labels = (phi[:, 0] > 0).long()
    if columns == 3:
        labels += (phi[:, 1] > 0.7).long()
    targets = 2.0 * labels[:, None] - 1 if columns == 1 else k.class_targets(labels, 3)
    train, test = torch.arange(20), torch.arange(20, 30)
    kernel = 7.0 * phi @ phi.T
    found = k.kernel_svm(kernel, targets.double(), train, test, penalty=2.0)
    assert found.accuracy == float((torch.tensor(found.classes) == labels[20:]).double().mean())
    again = k.kernel_svm(1e-9 * kernel, targets.double(), train, test, penalty=2.0)
    assert (again.classes == found.classes).all()
    assert 0 < found.support <= 20
    if columns == 3:
        return
    scaled = phi * math.sqrt(20 / float((phi[:20] ** 2).sum()))
    inputs, signs = scaled[:20].numpy(), targets[:20, 0].numpy()

    def loss(theta: np.ndarray) -> float:  # w, b and the slacks
        return float(0.5 * theta[:2] @ theta[:2] + 2.0 * theta[3:].sum())

    margins = {"type": "ineq", "fun": lambda t: signs * (inputs @ t[:2] + t[2]) - 1 + t[3:]}
    slacks = {"type": "ineq", "fun": lambda t: t[3:]}
    best = minimize(loss, np.ones(23), constraints=[margins, slacks], tol=1e-12).x
    expected = scaled[20:].numpy() @ best[:2] + best[2] > 0
    assert (expected == (found.classes == 1)).all()


def test_one_class_or_common_examples_are_refused() -> None:
    kernel, targets = torch.eye(4).double(), torch.ones(4).double()
    first, last = torch.tensor([0, 1]), torch.tensor([2, 3])
    with refused("singular"):
        k.kernel_svm(kernel, targets, first, last)
    with refused("contradiction"):
        k.kernel_svm(kernel, torch.tensor([1.0, -1, 1, -1]).double(), first, first)
