"""The numbers that experiments compute by themselves, each found a second, slower way."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import pytest
import torch

from dgn_engine.experiments import _initial_networks as initial
from dgn_engine.experiments import _sign_enumeration, theory_dynamics
from dgn_engine.experiments._gradient_descent import descend, descend_with_kernel
from dgn_engine.experiments._grid import TrainedCell, averaged
from dgn_engine.experiments._kept_networks import first_of_each_class
from dgn_engine.experiments.dgn_hard_data import FLOOR
from dgn_engine.kernels import random_gating_kernel, tangent_kernels
from dgn_engine.model.stack import run
from dgn_engine.sweep.unit_results import TrainedRun


def weights_of(seed: int, width: int = 3, depth: int = 3) -> list[torch.Tensor]:
    return list(initial.gated(initial.dense(2, width, depth), seed).value.weights)


def values_of_paths(weights: list[torch.Tensor]) -> torch.Tensor:
    """v(p) of every path, hidden units and input enumerated."""
    sizes = [weights[0].shape[1], *(weight.shape[0] for weight in weights[:-1])]
    found = []
    for path in product(*(range(size) for size in sizes)):
        steps = [weights[layer][path[layer + 1], path[layer]] for layer in range(len(path) - 1)]
        found.append(math.prod(float(step) for step in steps) * float(weights[-1][0, path[-1]]))
    return torch.tensor(found, dtype=torch.float64)


def test_the_drift_of_path_values_is_that_of_all_paths_enumerated():
    now, first = weights_of(1), weights_of(2)
    v, w = values_of_paths(now), values_of_paths(first)
    expected = float((v - w).norm() / w.norm())
    assert theory_dynamics._value_drift(now, first) == pytest.approx(expected, rel=1e-12)


def test_the_drift_of_path_features_is_that_of_all_paths_enumerated():
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(4, 2, generator=draw, dtype=torch.float64)
    now, first = (
        [(torch.rand(4, 3, generator=draw) < 0.6).double() for _ in range(2)] for _ in range(2)
    )

    def features(gates):
        return torch.stack(
            [
                x[:, i] * gates[0][:, j] * gates[1][:, k]
                for i, j, k in product(range(2), range(3), range(3))
            ]
        )

    expected = float((features(now) - features(first)).norm() / features(first).norm())
    assert theory_dynamics._feature_drift(now, first, x) == pytest.approx(expected, rel=1e-12)


def test_the_closed_descent_is_the_iterated_one():
    kernel = initial.random_gate_kernel(6, 8, 3, 0.5, seed=1)
    y = initial.targets(6, seed=1)
    rate = 0.1 / float(torch.linalg.eigvalsh(kernel)[-1])
    error, errors = y.clone(), [1.0]
    for _ in range(20):
        error = error - rate * kernel @ error
        errors.append(float(error.square().sum() / y.square().sum()))
    assert descend_with_kernel(kernel, y, 20) == pytest.approx(errors, rel=1e-10)


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


def test_a_curve_that_ended_early_counts_as_far_as_it_goes():
    line = averaged("a", (1, 2, 3), [[1.0, 2.0, 3.0], [3.0]])
    assert line.y == (2.0, 2.0, 3.0)
    assert line.spread[1:] == (0.0, 0.0)


def test_a_cell_has_its_curve_also_where_its_first_run_never_scored():
    def run_of(test):
        epochs = tuple(float(epoch + 1) for epoch in range(len(test)))
        return TrainedRun(Path(), math.nan, math.nan, epochs, test, test, test, 1.0, None)

    cell = TrainedCell([run_of(()), run_of((0.5, 0.75))])
    assert cell.accuracy_line("a").y == (50.0, 75.0)
    assert cell.loss_line("a").y == (0.5, 0.75)


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
