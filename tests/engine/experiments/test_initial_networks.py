"""Networks, inputs and gates that the theorems are tried on: shapes, draws and closed forms."""

from __future__ import annotations

import copy
import math
from itertools import combinations

import numpy as np
import pytest
import torch

from dgn_engine.experiments import _initial_networks as initial
from dgn_engine.experiments import _sign_enumeration
from dgn_engine.experiments._gradient_descent import (
    descend_with_kernel,
    iterate_descent,
    log_remainder,
)
from dgn_engine.experiments._gradient_descent import train_full_batch as descended
from dgn_engine.experiments.dgn_hard_data import FLOOR
from dgn_engine.kernels import random_gating_kernel
from dgn_engine.model.architecture import (
    Conv,
    Dense,
    Fork,
    GlobalAveragePool,
    Merge,
    Skip,
)
from dgn_engine.random_streams import random_stream
from tests.daily import nightly
from tests.engine.experiments.by_hand import copy_arrays, descent, relu_gates, tangent_kernel
from tests.engine.experiments.made_up import approximately, slope
from tests.snapshots import Recorded


def test_networks_of_theorems_are_those_that_are_recorded(recorded: Recorded) -> None:
    """Dense, of three circular convolutions, and of two skips between two blocks of two layers."""
    made = (
        initial.dense_architecture(3, 5, 4),
        initial.dense_architecture(3, 5, 2, 7),
        initial.dense_architecture(3, 5, 1, 7),
        initial.conv_architecture(5, 6),
        initial.residual_architecture(10, 4, 2, 3),
    )
    recorded([[one.input_shape, *map(repr, one.nodes)] for one in made])


def test_value_and_feature_weights_are_independent_draws_of_the_seed() -> None:
    one, again, other = (
        initial.draw_network(initial.dense_architecture(9, 16, 3), seed) for seed in (1, 1, 2)
    )
    for layer, fan_in in enumerate((9, 16, 16)):
        value = one.value.weights[layer]
        assert value.dtype == torch.float64
        assert not value.requires_grad
        assert value.abs().unique().tolist() == pytest.approx([math.sqrt(2 / fan_in)], rel=1e-6)
        assert torch.equal(value, again.value.weights[layer])
        assert not torch.equal(value, other.value.weights[layer])
    assert not torch.equal(one.feature.weights[0], other.feature.weights[0])
    features = one.feature.weights[0]
    assert len(features.abs().unique()) > 100, "normal, not ±σ"
    assert (one.own_gates, one.gate.soft) == (False, False)
    assert initial.draw_network(initial.dense_architecture(9, 16, 3), 1, soft=True).gate.soft
    assert initial.draw_network(initial.dense_architecture(9, 16, 3), 1, own=True).own_gates


def test_sigma_is_that_of_both_networks_and_normal_has_two_over_w() -> None:
    network = initial.draw_network(initial.dense_architecture(9, 16, 3), 1, sigma=3.0)
    assert network.value.weights[0].abs().unique().tolist() == [3.0]
    assert float(network.feature.weights[1].std()) == pytest.approx(3.0, rel=0.2)
    wide = initial.draw_normal_network(200, 50, 3, 1, own=True)
    assert wide.own_gates
    for stack in (wide.value, wide.feature):
        assert float(stack.weights[0].std()) == pytest.approx(math.sqrt(2 / 50), rel=0.03)
        assert float(stack.weights[0].mean()) == pytest.approx(0, abs=0.01)
    assert not initial.draw_normal_network(4, 5, 3, 1, own=False).own_gates
    assert [tuple(w.shape) for w in wide.value.weights] == [(50, 200), (50, 50), (1, 50)]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_inputs_have_unit_norm_and_share_one_direction(correlation: float) -> None:
    x = initial.unit_inputs(400, (6, 5), 3, correlation)
    assert (tuple(x.shape), x.dtype) == ((400, 6, 5), torch.float64)
    flat = x.reshape(400, 30).numpy()
    assert np.linalg.norm(flat, axis=1) == approximately([1.0] * 400)
    products = [flat[i] @ flat[j] for i, j in combinations(range(60), 2)]
    assert np.mean(products) == pytest.approx(correlation, abs=0.02)
    common = torch.randn(1, 30, generator=random_stream("inputs", 3), dtype=torch.float64).numpy()
    shares = flat @ common[0] / np.linalg.norm(common)
    assert shares == approximately([math.sqrt(correlation)] * 400)
    if not correlation:
        assert torch.equal(initial.unit_inputs(400, (6, 5), 3), x), "0 unless asked"
        assert not torch.equal(initial.unit_inputs(400, (6, 5), 4), x)


def test_targets_are_uniform_between_plus_and_minus_one() -> None:
    y = initial.draw_targets(4000, 1).numpy()
    assert y.shape == (4000,)
    assert -1 <= y.min() < -0.99
    assert 0.99 < y.max() <= 1
    assert y.mean() == pytest.approx(0, abs=0.05)
    assert y.var() == pytest.approx(1 / 3, rel=0.05)
    assert not np.array_equal(y, initial.draw_targets(4000, 2).numpy())


def test_coins_are_open_with_probability_p_in_every_layer_but_the_last() -> None:
    gates = initial.bernoulli_gates(300, 40, 4, 0.2, torch.Generator().manual_seed(1))
    assert [tuple(gate.shape) for gate in gates] == [(300, 40)] * 3
    assert {float(v) for gate in gates for v in gate.unique()} == {0.0, 1.0}
    for gate in gates:
        assert gate.dtype == torch.float64
        assert float(gate.mean()) == pytest.approx(0.2, abs=0.01)


def test_a_kernel_under_coins_is_normalised_by_p() -> None:
    """Its mean diagonal is 1 at every p and depth."""
    for p, depth in ((0.5, 3), (0.25, 2)):
        draws = [
            float(initial.random_gate_kernel(2, 64, depth, p, seed).diagonal().mean())
            for seed in range(60)
        ]
        assert np.mean(draws) == pytest.approx(1, abs=4 * np.std(draws) / math.sqrt(60))


def test_the_mean_of_random_gate_kernels_is_the_closed_form() -> None:
    """200 draws: the mean of each entry lies within five standard errors."""
    draws = torch.stack([initial.random_gate_kernel(3, 6, 3, 0.5, seed) for seed in range(200)])
    far = (draws.mean(0) - random_gating_kernel(3, 0.5, 3)).abs()
    assert bool((far < 5 * draws.std(0) / 200**0.5).all())


def test_eigenvalues_are_summed_in_rising_order_and_end_at_one() -> None:
    kernel = torch.diag(torch.tensor([5.0, 1.0, 2.0], dtype=torch.float64))
    assert initial.eigenvalue_distribution(kernel) == approximately([1 / 8, 3 / 8, 1.0])


def test_distance_and_slope() -> None:
    one, other = torch.tensor([[3.0, 0.0], [0.0, 8.0]]), torch.tensor([[3.0, 4.0], [0.0, 8.0]])
    assert initial.relative_distance(one, other) == pytest.approx(4 / math.sqrt(89))
    assert initial.log_slope((2, 4, 8), (9.0, 3.0, 1.0)) == approximately(
        -math.log(3) / math.log(2)
    )
    assert initial.log_slope((2, 4, 9), (9.0, 5.0, 1.0)) == approximately(
        slope((2, 4, 9), (9.0, 5.0, 1.0))
    )


def test_what_is_left_of_nothing_is_minus_thirty() -> None:
    assert log_remainder(1e-3) == approximately(-3)
    assert log_remainder(0.0) == approximately(-30)


def test_a_descent_yields_each_step_and_takes_no_other_and_training_a_tenth_of_an_eigenvalue() -> (
    None
):
    network = initial.draw_network(initial.dense_architecture(3, 6, 3), 1, init="kaiming")
    x, y = initial.unit_inputs(5, (3,), 1), initial.draw_targets(5, 1)
    weights = copy_arrays(network.value.weights)
    gates = relu_gates(copy_arrays(network.feature.weights), x.numpy())
    first = tangent_kernel(weights, gates, x.numpy())
    values = np.linalg.eigvalsh(first)
    rate = 0.1 / values[-1]
    taken = descent(weights, x.numpy(), y.numpy(), rate, 4, gates)
    steps = list(iterate_descent(copy.deepcopy(network), x, y, float(rate), 4))
    assert [step.step for step in steps] == [0, 1, 2, 3, 4]
    for step, (error, _, used, kernel) in zip(steps, taken, strict=True):
        assert step.error.numpy() == approximately(error)
        assert step.kernel is not None
        assert step.kernel.numpy() == approximately(kernel)
        assert all((a.numpy() == b).all() for a, b in zip(step.gates, used, strict=True))
    assert all(
        step.kernel is None
        for step in iterate_descent(copy.deepcopy(network), x, y, 0.05, 1, kernels=False)
    )
    found = descended(network, x, y, 4)
    assert found.kernel.numpy() == approximately(first)
    assert found.eigenvalues.numpy() == approximately(values)
    squares = [float(error @ error) for error, *_ in taken]
    assert found.errors == approximately([square / squares[0] for square in squares])
    for weight, expected in zip(network.value.weights, taken[-1][1], strict=True):
        assert weight.detach().numpy() == approximately(expected)


def test_a_held_kernel_leaves_what_lies_outside_it() -> None:
    kernel = torch.diag(torch.tensor([4.0, 1.0, 0.0], dtype=torch.float64))
    y = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    errors = descend_with_kernel(kernel, y, 2)
    assert errors == approximately(
        [(0.9 ** (2 * t) + 4 * 0.975 ** (2 * t) + 9) / 14 for t in range(3)]
    )


def test_every_sign_pattern_of_sigma_is_tried_once() -> None:
    network = initial.draw_network(
        initial.dense_architecture(2, 2, 2), 1, sigma=_sign_enumeration.SIGMA
    )
    seen = set()
    for signs in _sign_enumeration._sign_patterns(network):
        weights = [float(one) for weight in network.value.weights for one in weight.flatten()]
        assert weights == pytest.approx(list(signs))
        seen.add(signs)
    assert len(seen) == 2**6
    assert {abs(sign) for signs in seen for sign in signs} == {0.7}


@pytest.mark.parametrize(
    ("name", "shape", "kinds", "parameters"),
    [
        ("fc", (2,), [Dense] * 3, 4 + 4 + 2),
        ("cnn", (1, 3, 2), [Conv, GlobalAveragePool, Dense, Dense], 4 + 2 + 2),
        ("resnet", (2,), [Dense, Fork, Dense, Dense, Skip, Merge, Dense], 4 + 2 + 2 + 2),
    ],
)
def test_tiny_networks_have_few_weights_and_every_kind_of_layer(
    name: str, shape: tuple[int, ...], kinds: list[type], parameters: int
) -> None:
    tiny = _sign_enumeration.TINY[name]
    assert tiny.input_shape == shape
    assert [type(node) for node in tiny.nodes] == kinds
    network = initial.draw_network(tiny, 1)
    assert sum(weight.numel() for weight in network.value.weights) == parameters


@pytest.mark.parametrize("name", ["cnn", "resnet", *nightly("fc")])
def test_the_mean_over_all_signs_is_beta_times_the_npk(name: str) -> None:
    assert _sign_enumeration.value_kernel_error(name, 5) < 1e-12


def test_the_mean_of_the_feature_kernel_is_that_of_theory_and_an_error_of_a_mean_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _sign_enumeration.feature_kernel_error(5) < 1e-12
    monkeypatch.setattr(_sign_enumeration, "weight_sigmas", lambda _: [0.7, 0.7, 0.8])
    assert _sign_enumeration.value_kernel_error("cnn", 1) > 1e-2


def test_the_floor_of_two_points_on_a_ray_is_found_by_search() -> None:
    tried = np.linspace(-3, 3, 60001)
    assert pytest.approx(((tried - 1) ** 2 + (tried / 2 + 1) ** 2).min() / 4, abs=1e-8) == FLOOR
