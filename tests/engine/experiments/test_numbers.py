"""The numbers that experiments compute by themselves, each found a second, slower way."""

from __future__ import annotations

import pytest
import torch

from dgn_engine.experiments import _initial_networks as initial
from dgn_engine.experiments import _sign_enumeration
from dgn_engine.experiments._gradient_descent import descend
from dgn_engine.experiments._kept_networks import first_of_each_class
from dgn_engine.experiments.dgn_hard_data import FLOOR
from dgn_engine.kernels import random_gating_kernel, tangent_kernels
from dgn_engine.model.stack import run


def test_the_mean_of_random_gate_kernels_is_the_closed_form():
    """500 draws: the mean of each entry lies within five standard errors."""
    draws = torch.stack([initial.random_gate_kernel(3, 6, 3, 0.5, seed) for seed in range(500)])
    far = (draws.mean(0) - random_gating_kernel(3, 0.5, 3)).abs()
    assert bool((far < 5 * draws.std(0) / 500**0.5).all())


def test_the_next_error_of_a_fixed_gate_network_is_what_its_kernel_says():
    """To first order in the step: with a tenth of it the difference is a hundredth."""
    x, y = initial.unit_inputs(6, (3,), 1), initial.targets(6, 1)
    far = []
    for rate in (1e-3, 1e-4):
        network = initial.gated(initial.dense(3, 16, 3), 1, init="kaiming")
        before, after = descend(network, x, y, rate, 1)
        expected = before.error - rate * before.kernel @ before.error
        far.append(float((after.error - expected).norm()))
    assert far[1] / far[0] == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize("name", sorted(_sign_enumeration.TINY))
def test_the_mean_over_all_signs_is_beta_times_the_npk(name):
    assert _sign_enumeration.value_kernel_error(name, 5) < 1e-12


def test_the_mean_of_the_feature_kernel_over_all_signs_is_the_delta_kernel():
    assert _sign_enumeration.feature_kernel_error(5) < 1e-12


def test_inputs_have_unit_norm_and_the_correlation_that_was_asked():
    x = initial.unit_inputs(200, (50,), 1, 0.9)
    gram = x @ x.T
    assert torch.allclose(gram.diagonal(), torch.ones(200, dtype=torch.float64), atol=1e-12)
    off = gram[~torch.eye(200, dtype=torch.bool)]
    assert float(off.mean()) == pytest.approx(0.9, abs=0.005)


def test_the_floor_of_two_points_on_a_ray_is_found_by_search():
    tried = torch.linspace(-3, 3, 60001).tolist()
    best = min(((t - 1) ** 2 + (t / 2 + 1) ** 2) / 4 for t in tried)
    assert pytest.approx(best, abs=1e-8) == FLOOR


def test_the_first_of_each_class_are_taken_in_their_order():
    labels = torch.tensor([1, 0, 1, 1, 0, 0])
    assert first_of_each_class(labels, 2).tolist() == [1, 4, 0, 2]


def test_a_resnet_kernel_at_its_start_is_that_of_automatic_differentiation():
    network = initial.gated(initial.residual(3, 4, 1, 1), 2)
    x = initial.unit_inputs(3, (3,), 2)
    weights = [weight.detach() for weight in network.value.weights]
    gates = network.trace(x).value.gates

    found = tangent_kernels(network, x, trains=("value",)).value
    nothing = [None] * len(weights)

    def output(*given):
        trace = run(network.architecture, list(given), nothing, x, lambda i, _: gates[i])
        return trace.output[:, 0]

    parts = torch.func.jacrev(output, argnums=tuple(range(len(weights))))(*weights)
    J = torch.cat([part.flatten(1) for part in parts], dim=1)
    assert torch.allclose(found, J @ J.T, rtol=1e-10)
