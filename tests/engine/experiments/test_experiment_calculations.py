"""What experiments calculate at the start of training, each found again in numpy."""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.experiments import _initial_networks as initial
from dgn_engine.experiments import (
    composite_resnet_kernel,
    dgn_frg_convergence,
    dgn_frg_spectrum,
    dgn_galu_relu,
    theory_depth,
    theory_dynamics,
    theory_infinite_width,
    theory_ntk_npk,
)
from dgn_engine.kernels import expected_value_kernel, relu_limit, tangent_kernels
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.network import GatedNetwork
from dgn_engine.random_streams import random_stream
from dgn_engine.sweep.unit import CalculationInputs
from tests.engine.experiments.by_hand import (
    constant,
    copy_arrays,
    descent,
    distance,
    outputs,
    path_features,
    path_kernel,
    path_values,
    relu_gates,
    tangent_kernel,
)
from tests.engine.experiments.made_up import approximately


def work(**arguments: Any) -> CalculationInputs:
    return CalculationInputs(arguments, Path(), {})


def signs(inputs: int, width: int, depth: int, seed: int, sigma: float = 0.0) -> Any:
    """Gates of an independent network, value weights ±σ."""
    return initial.draw_network(initial.dense_architecture(inputs, width, depth), seed, sigma=sigma)


def random_gates(n: int, width: int, depth: int, seed: int) -> list[np.ndarray]:
    """The coins of a seed, p = ½."""
    draw = random_stream("coins", seed)
    return [(torch.rand(n, width, generator=draw) < 0.5).double().numpy() for _ in range(depth - 1)]


def frg_kernel(n: int, width: int, depth: int, seed: int) -> np.ndarray:
    """K_0/d on identical unit inputs of dimension 10, σ = √(1/(pw)) with p = ½."""
    network = signs(10, width, depth, seed, math.sqrt(2 / width))
    x = initial.unit_inputs(1, (10,), seed).expand(n, -1).numpy()
    weights = copy_arrays(network.value.weights)
    assert np.allclose(abs(weights[0]), math.sqrt(2 / width))
    return tangent_kernel(weights, random_gates(n, width, depth, seed), x) / depth


def test_convergence_is_a_hundred_steps_with_the_kernel_of_the_start() -> None:
    errors = dgn_frg_convergence.convergence(work(n=5, width=4, depth=3, seed=2))["errors"]
    kernel, e = frg_kernel(5, 4, 3, 2), initial.draw_targets(5, 2).numpy()
    start, rate, expected = float(e @ e), 0.1 / np.linalg.eigvalsh(kernel)[-1], []
    for _ in range(101):
        expected.append(float(e @ e) / start)
        e = e - rate * kernel @ e
    assert errors == approximately(expected)


def test_the_spectrum_under_random_gates() -> None:
    found = dgn_frg_spectrum.spectrum_of(work(n=4, width=5, depth=3, seed=1))
    kernel = frg_kernel(4, 5, 3, 1)
    values = sorted(np.linalg.eigvalsh(kernel))
    assert found["distribution"] == approximately(list(np.cumsum(values) / sum(values)))
    assert found["diagonal"] == approximately(np.mean([kernel[i, i] for i in range(4)]))
    off = [kernel[i, j] for i in range(4) for j in range(4) if i != j]
    assert found["off"] == approximately(np.mean(off))


@pytest.mark.parametrize("steps", [3, 200])
@pytest.mark.parametrize("kind", ["relu", "galu"])
def test_descents_on_correlated_inputs(kind: str, steps: int) -> None:
    found = dgn_galu_relu.trained(work(kind=kind, n=4, width=6, depth=3, seed=1, steps=steps))
    x = initial.unit_inputs(4, (100,), 1, 0.9).numpy()
    network = initial.draw_normal_network(100, 6, 3, 1, own=kind == "relu")
    weights = copy_arrays(network.value.weights)
    gates = None if kind == "relu" else relu_gates(copy_arrays(network.feature.weights), x)
    kernel = tangent_kernel(weights, gates or relu_gates(weights, x), x)
    values = np.linalg.eigvalsh(kernel)
    y = initial.draw_targets(4, 1).numpy()
    taken = descent(weights, x, y, 0.1 / values[-1], steps, gates)
    squares = [float(error @ error) for error, *_ in taken]
    every = {3: 1, 200: 2}[steps]
    assert found["steps"] == list(range(0, steps + 1, every))
    assert found["errors"] == approximately([square / squares[0] for square in squares[::every]])
    assert found["distribution"] == approximately(list(np.cumsum(values) / values.sum()))


@pytest.mark.parametrize("kind", ["relu", "galu", "coins"])
def test_speed_of_descents_by_kind_of_gates(kind: str) -> None:
    found = theory_depth.speed(work(kind=kind, n=4, width=6, depth=3, seed=1, steps=7))
    x = initial.unit_inputs(4, (10,), 1, 0.5).numpy()
    network = initial.draw_normal_network(10, 6, 3, 1, own=kind == "relu")
    weights = copy_arrays(network.value.weights)
    gates = {
        "relu": None,
        "galu": relu_gates(copy_arrays(network.feature.weights), x),
        "coins": random_gates(4, 6, 3, 1),
    }[kind]
    values = np.linalg.eigvalsh(tangent_kernel(weights, gates or relu_gates(weights, x), x))
    taken = descent(weights, x, initial.draw_targets(4, 1).numpy(), 0.1 / values[-1], 7, gates)
    first, last = taken[0][0], taken[-1][0]
    assert found["left"] == approximately(last @ last / (first @ first))
    assert found["condition"] == approximately(values[0] / values[-1])


@pytest.mark.parametrize(("own", "steps"), [(True, 250), (False, 5)])
def test_dynamics_step_by_step(own: bool, steps: int) -> None:
    found = theory_dynamics.dynamics(work(own=own, width=4, seed=3, steps=steps))
    x, y = initial.unit_inputs(20, (5,), 3).numpy(), initial.draw_targets(20, 3).numpy()
    network = initial.draw_network(initial.dense_architecture(5, 4, 3), 3, own=own, init="kaiming")
    weights = copy_arrays(network.value.weights)
    gates = None if own else relu_gates(copy_arrays(network.feature.weights), x)
    first = tangent_kernel(weights, gates or relu_gates(weights, x), x)
    rate = 0.1 / np.linalg.eigvalsh(first)[-1]
    taken = descent(weights, x, y, rate, steps, gates)
    off, switched = [], []
    for (e, _, g, k), (after, _, h, _) in pairwise(taken):
        off.append(np.linalg.norm(after - (e - rate * k @ e)) / np.linalg.norm(rate * k @ e))
        switched.append(sum(float((a != b).sum()) for a, b in zip(g, h, strict=True)))
    assert found["off"] == pytest.approx(sorted(off)[(len(off) - 1) // 2], rel=1e-6)
    assert found["worst"] == pytest.approx(max(off), rel=1e-6)
    assert found["instants"] == [step for step, number in enumerate(switched) if number]
    assert found["switched"] == sum(switched)
    assert bool(found["instants"]) == own
    every = {250: 2, 5: 1}[steps]
    assert found["loss"] == approximately([0.5 * float(e @ e) for e, *_ in taken][::every])
    (_, start, open_, _), (_, end, still, _) = taken[0], taken[-1]
    theta = [np.concatenate([weight.ravel() for weight in some]) for some in (start, end)]
    moved = np.linalg.norm(theta[1] - theta[0]) / np.linalg.norm(theta[0])
    assert found["parameters"] == approximately(moved), "after the last step, not after one more"
    assert found["npv"] == pytest.approx(distance(path_values(end), path_values(start)), rel=1e-6)
    drift = distance(path_features(still, x), path_features(open_, x))
    assert found["npf"] == pytest.approx(drift, rel=1e-6, abs=1e-7)


Weights = list[torch.Tensor]


def soft_output(values: Weights, makers: Weights, own: bool, x: torch.Tensor) -> torch.Tensor:
    """The logit of `values` with the gates σ(8q) of `makers`: `own`, or of a ReLU network."""
    z, of_maker = x, x
    for value, maker in zip(values[:-1], makers, strict=False):
        q = of_maker @ maker.T
        gate = torch.sigmoid(8 * q)
        z, of_maker = (z @ value.T) * gate, q * gate if own else q.relu()
    return (z @ values[-1].T)[:, 0]


def jacobian(function: Any, weights: Weights) -> torch.Tensor:
    return torch.cat([part.flatten(1) for part in torch.func.jacrev(function)(weights)], 1)


def moved_by(alpha: float, weights: Weights, slope: torch.Tensor) -> Weights:
    parts = slope.split([weight.numel() for weight in weights])
    return [w - alpha * part.reshape(w.shape) for w, part in zip(weights, parts, strict=True)]


@pytest.mark.parametrize("own", [True, False])
def test_dynamics_with_soft_gates(own: bool) -> None:
    """Jacobians by autograd, the other factor held; the logits after a step calculated anew."""
    dynamics, steps = theory_dynamics, 3
    found = dynamics.soft_dynamics(work(own=own, width=4, seed=3, steps=steps))
    x, y = initial.unit_inputs(20, (5,), 3), initial.draw_targets(20, 3)
    network = initial.draw_network(
        initial.dense_architecture(5, 4, 3), 3, own=own, soft=True, init="kaiming"
    )
    values = [weight.detach().clone() for weight in network.value.weights]
    makers = values if own else [weight.detach().clone() for weight in network.feature.weights[:-1]]
    output = partial(soft_output, own=own, x=x)
    rate, off, ends, expected, before = 0.0, [], [], y, y
    for step in range(steps + 1):
        error = output(values, makers) - y
        off.append(float((error - expected).norm() / (expected - before).norm()))
        J_v = jacobian(partial(output, makers=makers), values)
        J_f = jacobian(partial(output, values), makers)
        value, feature = J_v @ J_v.T, J_f @ J_f.T
        cross = J_v @ J_f.T + J_f @ J_v.T if own else torch.zeros_like(value)
        whole = value + feature + cross
        along_v, along_f = ((J_v + J_f).T @ error,) * 2 if own else (J_v.T @ error, J_f.T @ error)
        rate = rate or 0.1 / float(torch.linalg.eigvalsh(whole)[-1])
        expected, before = error - rate * whole @ error, error
        if step in (0, steps):
            kernels = {dynamics.WHOLE: (whole, 1, 1), dynamics.NO_FEATURE: (whole - feature, 1, 1)}
            if own:
                kernels[dynamics.NO_CROSS] = (whole - cross, 1, 1)
            else:
                kernels |= {dynamics.VALUES: (value, 1, 0), dynamics.FEATURES: (feature, 0, 1)}
            sizes: dict[str, list[float]] = {part: [] for part in kernels}
            for (part, (kernel, v, f)), k in product(kernels.items(), range(dynamics.HALVINGS + 1)):
                alpha = rate / 2**k
                after = output(
                    moved_by(v * alpha, values, along_v), moved_by(f * alpha, makers, along_f)
                )
                left = after - y - error + alpha * kernel @ error
                sizes[part].append(float(left.norm() / (alpha * whole @ error).norm()))
            ends.append(sizes)
        values, makers = moved_by(rate, values, along_v), moved_by(rate, makers, along_f)
    assert set(found["remainders"]) == set(ends[0])
    for part, sizes_of_part in found["remainders"].items():
        for one, sizes in zip(sizes_of_part, ends, strict=True):
            assert one == pytest.approx(sizes[part], rel=1e-6, abs=1e-11)
    assert found["off"] == pytest.approx(sorted(off[1:])[1], rel=1e-8)
    assert found["worst"] == pytest.approx(max(off[1:]), rel=1e-8)
    assert found["switched"] == [False, False]


def wide(width: int, depth: int, seed: int) -> list[np.ndarray]:
    """N(0, 2/w) in every layer, N(0, 1/w) in the last."""
    weights = copy_arrays(
        initial.draw_normal_network(10, width, depth, seed, own=True).value.weights
    )
    weights[-1] = weights[-1] / math.sqrt(2)
    return weights


def test_distances_of_wide_networks_from_their_limits() -> None:
    """Roots of the mean square of two draws each."""
    found = theory_infinite_width.distances(work(widths=[5, 9], seed=2, draws=2))
    x = initial.unit_inputs(10, (10,), 2)
    limit = relu_limit(x, 4).average_kernel.numpy()
    for place, width in enumerate((5, 9)):
        squares = []
        for seed in (4, 5):
            weights = wide(width, 4, seed)
            gates = relu_gates(weights, x.numpy())
            kernel = tangent_kernel(weights, gates, x.numpy())
            beta = constant([2 / width, 2 / width, 2 / width, 1 / width])
            predicted = beta * path_kernel(gates, x.numpy())
            squares.append((distance(kernel, limit) ** 2, distance(kernel, predicted) ** 2))
        away, off = np.sqrt(np.mean(squares, axis=0))
        assert found["limit"][place] == approximately(away)
        assert found["beta"][place] == approximately(off)


def test_the_limit_of_the_expectation_is_that_of_ever_wider_networks() -> None:
    x = initial.unit_inputs(6, (10,), 2)
    predicted = theory_infinite_width.expected_limit(x, 3).numpy()
    weights = wide(2500, 3, 2)
    gates = relu_gates(weights, x.numpy())
    beta = constant([2 / 2500, 2 / 2500, 1 / 2500])
    assert distance(beta * path_kernel(gates, x.numpy()), predicted) < 0.03
    found = theory_infinite_width.distances(work(widths=[5], seed=2, draws=1))["apart"]
    x = initial.unit_inputs(10, (10,), 2)
    limit = relu_limit(x, 4).average_kernel.numpy()
    assert found == approximately(
        distance(limit, theory_infinite_width.expected_limit(x, 4).numpy())
    )


def test_examples_on_one_ray_have_no_angle_though_their_cosine_is_rounded_up() -> None:
    z = torch.tensor([[1.0, 4.0, 4.0], [3.0, 12.0, 12.0]], dtype=torch.float64)
    unit = z / z.norm(dim=1, keepdim=True)
    assert float((unit @ unit.T)[0, 1]) > 1.0
    assert theory_infinite_width._pairwise_angles(z).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_angles_and_overlaps_by_layer() -> None:
    found = theory_infinite_width.angles(work(width=20, seed=2))
    x = initial.unit_inputs(10, (10,), 2).numpy()
    weights = wide(20, 12, 2)
    z, pairs = x, list(combinations(range(10), 2))
    expected: dict[str, list[float]] = {"angle": [], "overlap": [], "predicted": []}
    for weight, gate in zip(weights[:-1], relu_gates(weights, x), strict=True):
        cosines = [z[i] @ z[j] / math.sqrt(z[i] @ z[i]) / math.sqrt(z[j] @ z[j]) for i, j in pairs]
        theta = np.arccos(np.clip(cosines, -1, 1))
        expected["angle"].append(theta.mean())
        expected["predicted"].append(0.5 - theta.mean() / (2 * math.pi))
        expected["overlap"].append(np.mean([(gate[i] * gate[j]).mean() for i, j in pairs]))
        z = (z @ weight.T) * gate
    assert {key: len(numbers) for key, numbers in found.items()} == dict.fromkeys(expected, 11)
    for key, numbers in expected.items():
        assert found[key] == pytest.approx(numbers, rel=1e-6)


def root_of_mean_square(network: GatedNetwork, x: torch.Tensor, seed: int) -> float:
    """Of the distance of K^V_0 from βH over sixteen draws of signs, under the gates as they are."""
    gates = network.trace(x).value.gates
    sigmas = [float(weight.abs().max()) for weight in network.value.weights]
    expected = expected_value_kernel(network.architecture, gates, x, sigmas).numpy()
    squares = []
    for draw in range(16):
        network.value.init_weights("bernoulli", random_stream("value", 16 * seed + draw))
        kernel = tangent_kernels(network, x, trains=("value",)).value
        squares.append(distance(kernel.numpy(), expected) ** 2)
    return math.sqrt(np.mean(squares))


@pytest.mark.parametrize("name", ["fc", "cnn", "resnet"])
def test_the_distance_of_value_kernels_is_over_sixteen_draws(name: str) -> None:
    found = theory_ntk_npk.distances(work(name=name, widths=[4, 6], seed=1))
    for seen, width in zip(found, (4, 6), strict=True):
        architecture = {
            "fc": initial.dense_architecture(10, width, 4),
            "cnn": initial.conv_architecture(width, 6),
            "resnet": initial.residual_architecture(10, width, 2, 2),
        }[name]
        network = initial.draw_network(architecture, 1)
        x = initial.unit_inputs(8, architecture.input_shape, 1)
        assert seen == approximately(root_of_mean_square(network, x, 1))


def test_the_variance_of_the_value_kernel_over_draws_with_open_gates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(theory_ntk_npk, "SPREAD_DEPTHS", (3, 5))
    found = theory_ntk_npk.variances(work(seed=2, draws=3))

    def variance(width: int, depth: int) -> float:
        gates = [np.ones((1, width))] * (depth - 1)
        x = initial.unit_inputs(1, (10,), 2).numpy()
        values = []
        for seed in (6, 7, 8):
            weights = copy_arrays(signs(10, width, depth, seed, math.sqrt(1 / width)).value.weights)
            values.append(float(tangent_kernel(weights, gates, x)[0, 0]))
        return float(np.var(values, ddof=1))

    assert found["widths"] == approximately([variance(width, 3) for width in (32, 64, 128, 256)])
    assert found["depths"] == approximately([variance(256, depth) for depth in (3, 5)])


def test_exact_errors_are_the_largest_of_two_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        theory_ntk_npk, "value_kernel_error", lambda name, seed: 10 * len(name) + seed
    )
    monkeypatch.setattr(theory_ntk_npk, "feature_kernel_error", lambda seed: 100 + seed)
    found = theory_ntk_npk.exact(work())
    assert found.pop("rotation") < 1e-12
    assert found == {"fc": 21, "cnn": 31, "resnet": 61, "feature": 101}


ONES, PRE, POST = [1.0] * 4, [0.5, 2.0, 1.5, 0.75], [1.25, 0.5, 1.0, 1.75]


@pytest.mark.parametrize(("pre", "post"), [(ONES, ONES), (PRE, POST)])
def test_shares_of_sub_networks_are_those_of_all_sixteen_enumerated(
    pre: list[float], post: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composite_resnet_kernel, "DRAWS", 2)
    found = composite_resnet_kernel.shares(work(width=8, seed=2, pre=pre, post=post))
    architecture = composite_resnet_kernel._with_factors(
        initial.residual_architecture(10, 8, 4, 2), pre, post
    )
    network = initial.draw_network(architecture, 2)
    x = initial.unit_inputs(8, (10,), 2)
    gates = copy_arrays(network.trace(x).value.gates)
    weights = copy_arrays(network.value.weights)
    assert (len(gates), len(weights)) == (11, 12), "two, four times two, one; and the logit's"
    squares = [2 / weight.shape[1] for weight in weights]
    paths, weighted = np.zeros(5), np.zeros(5)
    whole, expected = np.zeros((8, 8)), np.zeros((8, 8))
    for kept in (k for size in range(5) for k in combinations(range(4), size)):
        layers = [0, 1, *(2 + 2 * block + i for block in kept for i in (0, 1)), 10]
        factor = math.prod(post) ** 2 * math.prod(pre[block] for block in kept) ** 2
        part = factor * path_kernel([gates[layer] for layer in layers], x.numpy())
        beta = constant([squares[layer] for layer in (*layers, 11)])
        paths[len(kept)] += np.trace(part)
        weighted[len(kept)] += beta * np.trace(part)
        whole += part
        expected += beta * part
    assert found["paths"] == approximately(list(paths / np.trace(whole)))
    assert found["weighted"] == pytest.approx(list(weighted / np.trace(expected)), rel=1e-5)
    assert found["sum"] < 1e-12
    assert found["weighted_sum"] < 1e-12
    assert found["product"] < 1e-12
    far = []
    for draw in (4, 5):
        network.value.init_weights("bernoulli", random_stream("value", draw))
        kernel = tangent_kernels(network, x, trains=("value",)).value.numpy()
        far.append(distance(kernel, expected))
    assert far[0] != far[1]
    assert found["distance"] == pytest.approx(math.hypot(*far) / math.sqrt(2), rel=1e-5)


def test_a_sub_network_left_out_and_a_factor_forgotten_make_the_kernels_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sums and the product are compared, not assumed."""
    module, given = composite_resnet_kernel, work(width=8, seed=2, pre=PRE, post=POST)
    usual, product_of = module.sub_network_shares, module._product_kernel
    with monkeypatch.context() as patch:
        patch.setattr(
            module, "sub_network_shares", lambda *args: dict(list(usual(*args).items())[:-1])
        )
        found = module.shares(given)
        assert min(found["sum"], found["weighted_sum"]) > 1e-3 > 1e-12 > found["product"]
    monkeypatch.setattr(
        module, "_product_kernel", lambda gates, x, pre, _: product_of(gates, x, pre, ONES)
    )
    found = module.shares(given)
    assert found["product"] > 1e-3 > 1e-12 > found["sum"]


def test_a_shift_that_changes_the_kernel_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero padding at the borders is not invariant; circular padding is."""
    monkeypatch.setattr(theory_ntk_npk, "conv_architecture", _zero_padded)
    assert theory_ntk_npk._rotation_error() > 1e-3


def test_every_shift_of_rows_and_of_columns_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    usual = theory_ntk_npk.neural_path_kernel

    def watched(architecture: Architecture, gates: Any, x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return usual(architecture, gates, x)

    monkeypatch.setattr(theory_ntk_npk, "neural_path_kernel", watched)
    assert theory_ntk_npk._rotation_error() < 1e-12
    shifts = list(product(range(4), range(4)))
    for both, (rows, columns) in zip(seen, shifts, strict=True):
        turned, straight = both[:3].numpy(), both[3:].numpy()
        assert (turned == np.roll(np.roll(straight, rows, 2), columns, 3)).all()


def _zero_padded(channels: int, side: int) -> Any:
    convs = (Conv(1, channels), Conv(channels, channels))
    head = (GlobalAveragePool(), Dense(channels, 1, gated=False))
    return Architecture((1, side, side), (*convs, *head))


def test_a_network_written_in_numpy_is_the_programs() -> None:
    network = initial.draw_normal_network(10, 6, 3, 1, own=True)
    x = initial.unit_inputs(4, (10,), 1)
    weights = copy_arrays(network.value.weights)
    expected = outputs(weights, relu_gates(weights, x.numpy()), x.numpy())
    assert list(network(x)[:, 0].numpy()) == approximately(list(expected))
