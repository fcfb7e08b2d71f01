"""[NPF] Proposition 3.3: its parts path by path in plain Python."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn_engine.experiments._initial_networks import (
    dense_architecture,
    draw_network,
    draw_targets,
    unit_inputs,
)
from dgn_engine.experiments.npf_eigenvalue_bound import (
    bound_while_training,
    parts_of_bound,
    path_features,
    path_value_slopes,
)
from dgn_engine.model.network import GatedNetwork
from dgn_engine.sweep.unit import CalculationInputs
from tests.engine.experiments.by_hand import copy_arrays, relu_gates


def path_by_path(network: GatedNetwork, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Φ (P, n) and ∇v (P, d_net): each path alone, each weight by leaving it out of its product."""
    weights = copy_arrays(network.value.weights)
    gates = relu_gates(weights, x)
    places = [(layer, *at) for layer, w in enumerate(weights) for at in np.ndindex(w.shape)]
    phi, slopes = [], []
    for path in product(*(range(weight.shape[1]) for weight in weights)):
        on = [
            np.prod([gate[s, p] for gate, p in zip(gates, path[1:], strict=True)])
            for s in range(len(x))
        ]
        phi.append([x[s, path[0]] * on[s] for s in range(len(x))])
        ends = (*path[1:], 0)
        used = {(layer, ends[layer], path[layer]) for layer in range(len(weights))}
        slopes.append(
            [
                math.prod(weights[k][i, j] for k, i, j in used - {place}) if place in used else 0.0
                for place in places
            ]
        )
    return np.array(phi), np.array(slopes)


@pytest.mark.parametrize(("width", "depth", "seed"), [(4, 3, 0), (3, 4, 1), (2, 2, 2)])
def test_the_parts_are_those_of_every_path(width: int, depth: int, seed: int) -> None:
    network = draw_network(dense_architecture(3, width, depth), seed, own=True, init="kaiming")
    x, y = unit_inputs(4, (3,), seed), draw_targets(4, seed)
    phi, slopes = path_by_path(network, x.numpy())
    gates = [gate.detach() for gate in network.trace(x).value.gates]
    assert path_features(x, gates).numpy() == pytest.approx(phi, abs=1e-15)
    assert path_value_slopes(network).numpy() == pytest.approx(slopes, abs=1e-15)
    kernel, h = phi.T @ slopes @ slopes.T @ phi, phi.T @ phi
    k_values, h_values = np.linalg.eigvalsh(kernel), np.linalg.eigvalsh(h)
    bound = h_values[0] * np.linalg.eigvalsh(slopes @ slopes.T)[-1]
    found = parts_of_bound(network, x, y)
    assert max(found["factors"], found["paths"]) < 1e-14
    assert found["excess"] == pytest.approx((k_values[0] - bound) / k_values[-1], abs=1e-13)
    assert found["excess"] <= 1e-13
    if h_values[0] > 1e-9:
        assert found["ratio"] == pytest.approx(k_values[0] / bound, rel=1e-8)
    assert found["speed"] < 1e-6 or math.isnan(found["speed"])


def test_the_error_moves_against_its_sign() -> None:
    """With the printed ė = +Ke it would be off by twice its size; here by a millionth."""
    found = bound_while_training(CalculationInputs({"seed": 3, "networks": 1}, Path(), {}))
    assert {len(values) for values in found.values()} == {3 * 5}, "three sizes, five times"
    known = [value for value in found["speed"] if not math.isnan(value)]
    assert len(known) > 5
    assert max(known) < 1e-6
    assert all(value <= 1e-12 for value in found["excess"])


def test_an_error_that_the_kernel_does_not_see_stands_still() -> None:
    """Ke is rounding alone there: ė + Ke is small beside ‖K‖‖e‖, not beside ‖Ke‖."""
    network = draw_network(dense_architecture(3, 3, 4), 1, own=True, init="kaiming")
    one = unit_inputs(2, (3,), 1)
    x = torch.cat([one, one])  # each input twice: K is singular
    unseen = torch.tensor([1.0, -1.0, -1.0, 1.0]).double()
    y = network(x)[:, 0].detach() - unseen
    found = parts_of_bound(network, x, y)
    assert found["speed"] < 1e-9


def test_where_no_path_is_open_both_sides_are_zero() -> None:
    network = draw_network(dense_architecture(3, 2, 3), 0, own=True, init="kaiming")
    for weight in network.value.weights:
        weight.abs_()
    found = parts_of_bound(network, -unit_inputs(2, (3,), 0).abs(), draw_targets(2, 0))
    assert (found["excess"], found["factors"], found["paths"]) == (0.0, 0.0, 0.0)
    assert math.isnan(found["ratio"])
    assert math.isnan(found["speed"])
