"""Products with kernels that are not held are products with those that are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import eigsh
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.kernels import operators
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.network import GatedNetwork
from tests.engine.kernels.conftest import Take
from tests.engine.kernels.routed import NETWORKS as ROUTED
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, every_architecture, make_network
from tests.refusals import refused

N = 5
MODES: tuple[operators.OperatorLogits, ...] = ("mean", "sumlogit", "full")


def dense(operator: Any) -> Tensor:
    """The matrix, by its products with the unit vectors."""
    return torch.from_numpy(operator @ np.eye(operator.shape[1]))


def check_products(operator: Any, kernel: Tensor) -> None:
    """Two products with vectors of random numbers."""
    vectors = torch.randn(
        (kernel.shape[1], 2), dtype=kernel.dtype, generator=torch.Generator().manual_seed(8)
    )
    same(torch.from_numpy(operator @ vectors.numpy()), kernel @ vectors)


def square(kernel: Tensor) -> Tensor:
    """(n, C, m, C) as a matrix, example and logit in this order."""
    return kernel if kernel.dim() == 2 else kernel.flatten(2).flatten(0, 1)


def same(found: Tensor, expected: Tensor) -> None:
    scale = float(expected.abs().max()) or 1.0
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12 * scale)


def check_tangent(
    network: GatedNetwork, logits: operators.OperatorLogits = "mean", budget: int = 1 << 20
) -> None:
    x = draw_images(network.architecture, N)
    operator = k.tangent_operator(network, x, logits=logits, budget_bytes=budget)
    expected = square(k.tangent_kernels(network, x, logits).total_kernel)
    check_products(operator, expected)
    same(k.tangent_diagonal(network, x, logits=logits), expected.diagonal())


@every_architecture
def test_products_with_a_tangent_kernel_are_those_with_the_one_that_is_held(name: str) -> None:
    check_tangent(make_network(ARCHITECTURES[name], bias=True, own=False, soft=True))


@pytest.mark.parametrize("name", ["fc-deep", "max-gap", "gated-sums"])
def test_products_of_one_network_with_soft_gates_have_all_three_parts(name: str) -> None:
    check_tangent(make_network(ARCHITECTURES[name], bias=True, soft=True))


@pytest.mark.parametrize("name", list(ROUTED))
def test_products_follow_the_wiring_of_the_gates(name: str) -> None:
    check_tangent(ROUTED[name]())


@pytest.mark.wide
@pytest.mark.parametrize("logits", MODES)
@pytest.mark.parametrize("soft", [False, True])
def test_products_are_there_for_every_pair_of_logits(
    logits: operators.OperatorLogits, soft: bool
) -> None:
    one_at_a_time = 1
    for own in (False, True):
        network = make_network(ARCHITECTURES["fc-deep"], own=own, soft=soft)
        check_tangent(network, logits, one_at_a_time)


@pytest.mark.parametrize("logits", MODES)
def test_a_block_of_a_tangent_kernel_multiplies_from_both_sides(
    logits: operators.OperatorLogits,
) -> None:
    network = make_network(ARCHITECTURES["conv-gap"], own=False, soft=True)
    x = draw_images(network.architecture, N)
    operator = k.tangent_operator(network, x[3:], x[:3], logits=logits)
    expected = square(k.tangent_kernels(network, x[3:], logits, other=x[:3]).total_kernel)
    same(dense(operator), expected)
    same(dense(operator.T), expected.T)


def test_gates_that_were_given_go_with_their_examples() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False)
    x = draw_images(network.architecture, N)
    generator = torch.Generator().manual_seed(2)
    gates = tuple(
        (torch.rand((N, *shape), generator=generator) > 0.5).double()
        for shape in network.architecture.gated_shapes
    )
    drawn = network.with_gates(gates)
    check_tangent(drawn)
    with pytest.raises(ValueError, match=r"No network makes these gates \(FRG\)"):
        k.tangent_operator(drawn, x, x)


@pytest.mark.parametrize("trains", [("value",), ("feature",)])
def test_the_operator_is_over_what_trains(trains: Any) -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False, soft=True)
    x = draw_images(network.architecture, N)
    expected = k.tangent_kernels(network, x, trains=trains).total_kernel
    check_products(k.tangent_operator(network, x, trains=trains), expected)
    same(k.tangent_diagonal(network, x, trains=trains), expected.diagonal())


@pytest.mark.parametrize("folded", [False, True])
def test_the_operator_is_over_the_parameters_behind_what_is_folded(folded: bool) -> None:
    layers = (
        Conv(1, 3, normal=True),
        Conv(3, 2, normal=True),
        GlobalAveragePool(),
        Dense(2, 2, gated=False, factor=0.5),
    )
    network = make_network(Architecture((1, 4, 4), layers), own=False, soft=True)
    x = draw_images(network.architecture, N)
    expected = k.tangent_kernels(network, x, folded=folded).total_kernel
    check_products(k.tangent_operator(network, x, folded=folded), expected)
    same(k.tangent_diagonal(network, x, folded=folded), expected.diagonal())


@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("normalise", ["none", "width"])
def test_products_with_a_path_kernel_are_those_with_the_one_that_is_held(
    name: str, normalise: Any
) -> None:
    network = make_network(ARCHITECTURES[name], own=False, soft=True)
    architecture = network.architecture
    paths = k.PathInputs.from_network(network, draw_images(architecture, N))
    expected = k.neural_path_kernel(
        architecture, paths.gates, paths.x_value, normalise, paths.masks
    )
    for budget in (1, 1 << 20):
        operator = k.path_operator(architecture, paths, normalise=normalise, budget_bytes=budget)
        check_products(operator, expected)
    found = k.path_diagonal(architecture, paths, normalise=normalise)
    same(found, expected.diagonal())
    alone = k.PathInputs(paths.gates, None, paths.masks)
    overlap = k.overlap(architecture, paths.gates, normalise, paths.masks)
    check_products(k.path_operator(architecture, alone, normalise=normalise), overlap)


@pytest.mark.wide
@pytest.mark.parametrize("road", ["by features", "by tiles"])
@pytest.mark.parametrize("normalise", ["none", "width"])
@pytest.mark.parametrize("budget", [1, 1 << 20])
def test_features_and_tiles_give_the_same_products(
    road: str, normalise: Any, budget: int, take: Take
) -> None:
    take(road)
    network = make_network(ARCHITECTURES["fc-deep"], own=False, soft=True)
    architecture = network.architecture
    x = draw_images(architecture, N)
    both, test, train = (k.PathInputs.from_network(network, part) for part in (x, x[3:], x[:3]))
    whole = k.neural_path_kernel(architecture, both.gates, x, normalise)
    one = k.path_operator(architecture, test, train, normalise=normalise, budget_bytes=budget)
    for _ in range(2):  # the second product is as the first
        same(dense(one), whole[3:, :3])
        same(dense(one.T), whole[:3, 3:])
    same(dense(k.path_operator(architecture, both, normalise=normalise)), whole)


def test_leading_eigenpairs_need_no_matrix() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False, soft=True)
    x = draw_images(network.architecture, 30)
    paths = k.PathInputs.from_network(network, x)
    start = np.ones(30)
    for operator, kernel in (
        (k.tangent_operator(network, x), k.tangent_kernels(network, x).total_kernel),
        (k.path_operator(network.architecture, paths), k.SharedKernels(network, x).npk()),
    ):
        values, vectors = eigsh(operator, 3, v0=start)
        expected, theirs = torch.linalg.eigh(kernel)
        assert values == pytest.approx(expected[-3:].numpy(), rel=1e-10)
        assert np.abs(vectors.T @ theirs[:, -3:].numpy()) == pytest.approx(np.eye(3), abs=1e-8)


def test_words_that_make_no_matrix_are_refused() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False)
    x = draw_images(network.architecture, N)
    matrices: Any = "perclass"  # which a kernel that is held may be
    wrong: Any = "middle"
    for ask in (k.tangent_operator, k.tangent_diagonal):
        with refused("contradiction"):
            ask(network, x, logits=matrices)
        with refused("out-of-bounds"):
            ask(network, x, logits=wrong)
    scale: Any = "cosine"
    with refused("out-of-bounds"):
        k.path_operator(
            network.architecture, k.PathInputs.from_network(network, x), normalise=scale
        )


def test_imaginary_parts_are_not_dropped_in_silence() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False)
    x = draw_images(network.architecture, N)
    paths = k.PathInputs.from_network(network, x)
    vector = np.ones(N) + 1j
    for operator in (k.tangent_operator(network, x), k.path_operator(network.architecture, paths)):
        for one in (operator, operator.T):
            with refused("wrong-type"):
                one @ vector


def test_products_are_those_of_an_adapted_module() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3, padding=1),
        torch.nn.BatchNorm2d(3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(48, 4),
        torch.nn.ReLU(),
        torch.nn.Linear(4, 2),
    )
    check_tangent(k.adapt(module.double().eval(), (1, 4, 4)))
