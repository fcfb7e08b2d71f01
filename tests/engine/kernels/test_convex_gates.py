"""The optimum of two layers with given gates against other ways to minimise, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.kernels import (
    ConvexOptimum,
    convex_optimum,
    fit_path_features,
    neural_path_kernel,
    spectrum,
)
from dgn_engine.kernels.convex_gates import (
    Loss,
    gated_as_relu,
    largest_penalty,
    mean_loss,
    regularised_loss,
    two_layer_gates,
)
from dgn_engine.model.architecture import Architecture, Dense, Flatten
from dgn_engine.model.network import GatedNetwork
from dgn_engine.training.run import Run
from tests.engine.kernels.enumeration import features
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, make_network
from tests.refusals import refused

N, INPUTS, WIDTH = 12, 4, 5
LOSSES: tuple[Loss, ...] = ("squared", "cross-entropy")


def drawn(
    logits: int, *, soft: bool = False, copies: int = 1, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, gates (each `copies` times) and ±1 targets of a single class each."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, INPUTS, generator=generator, dtype=torch.float64)
    q = x @ torch.randn(INPUTS, WIDTH, generator=generator, dtype=torch.float64)
    gates = torch.sigmoid(3 * q) if soft else (q > 0).double()
    labels = torch.randint(0, max(logits, 2), (N,), generator=generator)
    y = 2.0 * (labels[:, None] == torch.arange(1, logits + 1) % max(logits, 2)).double() - 1.0
    return x, gates.repeat_interleave(copies, 1), y


def trained_objective(
    x: Tensor, gates: Tensor, y: Tensor, penalty: float, loss: Loss, starts: int
) -> float:
    """The least L + λ/2 ‖Θ‖² of all that L-BFGS finds over the weights themselves."""
    m, classes = gates.shape[1], y.shape[1]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.from_numpy(flat).requires_grad_(True)
        first, second = theta[: m * INPUTS].reshape(m, INPUTS), theta[m * INPUTS :]
        outputs = ((x @ first.T) * gates) @ second.reshape(m, classes)
        value = mean_loss(outputs, y, loss) + 0.5 * penalty * theta.square().sum()
        (slope,) = torch.autograd.grad(value, theta)
        return value.item(), slope.numpy()

    random = np.random.default_rng(1)
    size = m * (INPUTS + classes)
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    return min(
        float(minimize(objective, random.normal(size=size), jac=True, options=options,
                       method="L-BFGS-B").fun)
        for _ in range(starts)
    )  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("logits", "soft", "copies"), [(1, False, 1), (1, True, 1), (3, False, 3), (3, True, 3)]
)
def test_the_optimum_is_what_the_best_of_many_trainings_reaches(
    logits: int, soft: bool, copies: int, loss: Loss
) -> None:
    x, gates, y = drawn(logits, soft=soft, copies=copies)
    found = convex_optimum(x, gates, y, 0.02, loss=loss, tolerance=1e-9)
    assert found.attained
    assert 0 <= found.gap <= 1e-9
    best = trained_objective(x, gates, y, 0.02, loss, starts=3)
    assert best >= found.bound
    assert best == pytest.approx(found.value, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("logits", [1, 3])
def test_each_block_of_the_optimum_meets_its_optimality_condition(logits: int, loss: Loss) -> None:
    """Xᵀ diag(g_j) (−∂L) is λ times a subgradient of the nuclear norm at U_j."""
    x, gates, y = drawn(logits)
    found = convex_optimum(x, gates, y, 0.05, loss=loss, tolerance=1e-11)
    outputs = found.outputs.requires_grad_(True)
    (slope,) = torch.autograd.grad(mean_loss(outputs, y, loss), outputs)
    columns = [int((found.columns == column).nonzero()[0]) for column in range(WIDTH)]
    zero = 0
    for block, unit in zip(found.blocks.detach(), columns, strict=True):
        pull = -(x * gates[:, [unit]]).T @ slope / 0.05
        left, sizes, right = torch.linalg.svd(block, full_matrices=False)
        kept = sizes > 1e-6
        zero += not bool(kept.any())
        rest = pull - left[:, kept] @ right[kept]
        assert float(torch.linalg.matrix_norm(rest, 2)) <= 1 + 1e-4
        assert float((left[:, kept].T @ rest).abs().max() if kept.any() else 0.0) <= 1e-4
        assert float((rest @ right[kept].T).abs().max() if kept.any() else 0.0) <= 1e-4
    assert zero < WIDTH


def fr_ii(logits: int = 1, value_input: str = "image", factor: float = 1.0) -> GatedNetwork:
    nodes = (Flatten(), Dense(4, 6), Dense(6, logits, gated=False, factor=factor))
    return make_network(Architecture((1, 2, 2), nodes), own=False, value_input=value_input)


@pytest.mark.parametrize(("value_input", "factor"), [("image", 1.0), ("random", 1.0), ("image", 3)])
def test_a_network_with_the_optimal_weights_has_the_optimal_objective(
    value_input: str, factor: float
) -> None:
    network = fr_ii(value_input=value_input, factor=factor)
    x, y = draw_images(network.architecture, 20), torch.sign(torch.randn(20)).double()
    inputs, gates = two_layer_gates(network, x)
    assert regularised_loss(network, x, y, 0.03) > convex_optimum(inputs, gates, y, 0.03).value
    found = convex_optimum(inputs, gates, y, 0.03, tolerance=1e-10)
    with torch.no_grad():
        for weight, new in zip(network.value.weights, found.to_weights(), strict=True):
            weight.copy_(new)
        torch.testing.assert_close(network(x), found.outputs, rtol=1e-10, atol=1e-12)
    assert regularised_loss(network, x, y, 0.03) == pytest.approx(found.value, rel=1e-12)


def test_a_coarse_certificate_still_holds_the_optimum() -> None:
    x, gates, y = drawn(1)
    fine = convex_optimum(x, gates, y, 0.02, tolerance=1e-10)
    for iterations in (1, 5, 20):
        coarse = convex_optimum(x, gates, y, 0.02, iterations=iterations)
        assert coarse.bound <= fine.value * (1 + 1e-12)
        assert coarse.value >= fine.bound * (1 - 1e-12)
        passes, values, bounds = coarse.history.T
        assert passes[0] == 0
        assert values[0] == 0.5, "the value of zeros"
        assert bool((values[1:] <= values[:-1]).all())
        assert bool((bounds[1:] >= bounds[:-1]).all())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("logits", [1, 3])
def test_the_least_penalty_with_nothing_left_is_that_of_the_closed_form(
    logits: int, loss: Loss
) -> None:
    x, gates, y = drawn(logits)
    least = largest_penalty(x, gates, y, loss=loss)
    assert not convex_optimum(x, gates, y, 1.0001 * least, loss=loss).blocks.any()
    assert convex_optimum(x, gates, y, 0.99 * least, loss=loss).blocks.any()


def test_several_logits_need_their_gates_tiled() -> None:
    x, gates, y = drawn(3)
    alone = convex_optimum(x, gates, y, 0.005)
    assert not alone.attained
    with refused("wrong-shape"):
        alone.to_weights()
    best = trained_objective(x, gates, y, 0.005, "squared", starts=2)
    assert best > alone.value, "a bound for the network without copies"
    tiled = convex_optimum(x, gates.repeat(1, 3), y, 0.005)
    assert tiled.attained
    assert tiled.value == pytest.approx(alone.value, rel=1e-5)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_path_features_are_fitted_as_by_least_squares_over_all_paths(width: int) -> None:
    architecture = Architecture((INPUTS,), (Dense(INPUTS, width), Dense(width, 1, gated=False)))
    x, gates, y = drawn(1)
    gates = gates[:, :width]
    found = fit_path_features(x, gates, y)
    phi = features(architecture, [gates], x, []).numpy()
    solution, *_ = np.linalg.lstsq(phi, y.numpy(), rcond=None)
    np.testing.assert_allclose(found.outputs, phi @ solution, atol=1e-10)
    assert found.loss == pytest.approx(0.5 * np.mean((phi @ solution - y.numpy()) ** 2), abs=1e-12)
    assert found.rank == np.linalg.matrix_rank(phi)
    eigen = spectrum(neural_path_kernel(architecture, [gates], x), y)
    assert found.rank == eigen.rank
    assert eigen.outside is not None
    assert found.loss == pytest.approx(0.5 * eigen.outside, abs=1e-8), "share of ‖y‖² = n"


def test_training_of_fr_ii_ends_at_the_least_squares_of_its_path_features() -> None:
    """The trainer, in float32, against the optimum in float64."""
    config = RunConfig(
        data=DataConfig(binary=(4, 7), train_limit=100),
        net=NetConfig("fc", (("width", 1), ("depth", 2))),
        gating=GatingConfig(regime="FR-II"),
        training=TrainingConfig("squared", "adam", 0.02, batch=100, epochs=1500),
        seed=1,
    )
    run = Run(1, config, lambda _: None, lambda *_: None, live=False)
    network, data = run.trainer.network, run.trainer.data
    y = 2.0 * data.train_y.double() - 1.0
    best = fit_path_features(*two_layer_gates(network, data.train_x), y)
    assert 0.01 < best.loss < 0.5, "one unit does not fit 100 examples"
    for _ in range(1500):
        run.trainer.step()
    reached = regularised_loss(network, data.train_x, y, 0.0)
    assert best.loss * (1 - 1e-5) <= reached <= best.loss * 1.05


def test_gated_units_are_differences_of_relu_units_on_the_examples() -> None:
    network = fr_ii()
    x = draw_images(network.architecture, 30)
    makers, (first, second) = network.feature.weights[0].detach(), network.value.weights
    wider, logits = gated_as_relu(x.flatten(1), makers, first.detach(), second.detach())
    assert (wider.shape, logits.shape) == ((12, 4), (1, 12))
    relu = torch.relu(x.flatten(1) @ wider.T) @ logits.T
    with torch.no_grad():
        torch.testing.assert_close(relu, network(x), rtol=1e-8, atol=1e-9)
    with refused("singular"):
        gated_as_relu(torch.zeros(1, 4).double(), makers, first.detach(), second.detach())


def test_other_networks_are_refused() -> None:
    x = draw_images(ARCHITECTURES["fc-flat"], 3)
    assert two_layer_gates(make_network(ARCHITECTURES["fc-flat"], own=False), x)[1].shape == (3, 3)
    for network in (
        make_network(ARCHITECTURES["fc-flat"], own=True),
        make_network(ARCHITECTURES["fc-flat"], own=False, bias=True),
    ):
        with refused("not-supported"):
            two_layer_gates(network, x)
    deep = make_network(ARCHITECTURES["fc-deep"], own=False)
    with refused("not-supported"):
        two_layer_gates(deep, draw_images(ARCHITECTURES["fc-deep"], 3))


def test_the_cross_entropy_takes_targets_of_one_class() -> None:
    x, gates, y = drawn(1)
    with refused("out-of-bounds"):
        convex_optimum(x, gates, 0.5 * y, 0.1, loss="cross-entropy")
    with refused("out-of-bounds"):
        convex_optimum(x, gates, torch.ones(N, 3).double(), 0.1, loss="cross-entropy")
    with refused("wrong-shape"):
        convex_optimum(x, gates[:-1], y, 0.1)
    assert isinstance(convex_optimum(x, gates, 0.5 * y, 0.1), ConvexOptimum)
