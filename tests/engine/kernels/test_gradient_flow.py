"""Trajectories of a constant kernel are those of the model that has it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor
from torch.func import functional_call, jacrev

import dgn_engine.kernels as k
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, make_network
from tests.refusals import refused

TRAIN, TEST, CLASSES = 4, 3, 2
RATE = 2e-3


class Linearised:
    """f(θ) = f_0 + J(θ − θ_0) of a network with soft gates, trained by its weights."""

    def __init__(self) -> None:
        network = make_network(ARCHITECTURES["fc-deep"], own=False, soft=True)
        self.x = draw_images(network.architecture, TRAIN + TEST)
        parameters = {name: p.detach() for name, p in network.named_parameters()}
        tree = jacrev(lambda p: functional_call(network, p, (self.x,)))(parameters)
        self.J = torch.cat([leaf.flatten(2) for leaf in tree.values()], dim=2)
        self.start = network(self.x).detach()
        self.network = network
        self.y = torch.randn(
            (TRAIN, CLASSES), dtype=torch.float64, generator=torch.Generator().manual_seed(4)
        )

    def kernels(self, logits: k.Logits) -> dict[str, Tensor]:
        x = self.x
        return {
            "kernel": k.tangent_kernels(self.network, x[:TRAIN], logits).total_kernel,
            "block": k.tangent_kernels(
                self.network, x[TRAIN:], logits, other=x[:TRAIN]
            ).total_kernel,
            "initial": self.start[:TRAIN],
            "initial_test": self.start[TRAIN:],
        }

    def outputs(self, theta: Tensor) -> Tensor:
        return self.start + self.J @ theta

    def slope(self, theta: Tensor) -> Tensor:
        """The gradient of ½ Σ e² over the training examples."""
        error = self.outputs(theta)[:TRAIN] - self.y
        return torch.einsum("nc,ncp->p", error, self.J[:TRAIN])


def test_descent_is_that_of_the_linearised_network_trained_step_by_step() -> None:
    model = Linearised()
    found = k.gradient_descent(
        targets=model.y, rate=RATE, steps=(0, 1, 7, 60), **model.kernels("full")
    )
    theta, seen = torch.zeros(model.J.shape[2], dtype=torch.float64), {}
    for step in range(61):
        seen[step] = model.outputs(theta)
        theta = theta - RATE * model.slope(theta)
    assert found.test is not None
    for place, step in enumerate((0, 1, 7, 60)):
        torch.testing.assert_close(found.train[place], seen[step][:TRAIN], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(found.test[place], seen[step][TRAIN:], rtol=1e-10, atol=1e-12)
    assert found.times.tolist() == [0, 1, 7, 60]


def test_flow_is_the_solution_of_the_differential_equation() -> None:
    model = Linearised()
    times = (0.0, 0.01, 0.3)
    found = k.gradient_flow(targets=model.y, times=times, **model.kernels("full"))
    solved = solve_ivp(
        lambda _, theta: -model.slope(torch.from_numpy(theta)).numpy(),
        (0, times[-1]),
        np.zeros(model.J.shape[2]),
        t_eval=times,
        rtol=1e-10,
        atol=1e-12,
        method="DOP853",
    )
    assert found.test is not None
    for place in range(3):
        expected = model.outputs(torch.from_numpy(solved.y[:, place]))
        torch.testing.assert_close(found.train[place], expected[:TRAIN], rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(found.test[place], expected[TRAIN:], rtol=1e-6, atol=1e-8)


def kernel_and_block(rank: int = TRAIN) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    features = torch.randn((TRAIN + TEST, rank), dtype=torch.float64, generator=generator)
    whole = features @ features.T
    return whole[:TRAIN, :TRAIN], whole[TRAIN:, :TRAIN]


@pytest.mark.parametrize("rank", [2, TRAIN + 1])
def test_one_kernel_serves_every_logit_and_may_be_singular(rank: int) -> None:
    K, block = kernel_and_block(rank)
    y = torch.arange(8.0, dtype=torch.float64).reshape(TRAIN, 2)
    start = torch.ones_like(y)
    found = k.gradient_flow(K, y, (0.4,), block=block, initial=start)
    expected = y + torch.matrix_exp(-0.4 * K) @ (start - y)
    torch.testing.assert_close(found.train[0], expected, rtol=1e-10, atol=1e-12)
    # K_* K⁻¹(I − e^{−Kt}) as an integral, for no inverse exists where K is singular.
    grid = torch.linspace(0, 0.4, 2001, dtype=torch.float64)
    path = torch.stack([torch.matrix_exp(-t * K) for t in grid]) @ (start - y)
    assert found.test is not None
    torch.testing.assert_close(
        found.test[0], -block @ torch.trapezoid(path, grid, dim=0), rtol=1e-5, atol=1e-6
    )
    one = k.gradient_flow(K, y[:, 0], (0.4,), block=block, initial=start[:, 0])
    torch.testing.assert_close(one.train, found.train[:, :, :1])


@pytest.mark.parametrize("rate", [1e-14, 1e-3, 0.05])
def test_descent_sums_the_errors_that_it_saw(rate: float) -> None:
    K, block = kernel_and_block()
    y = torch.ones(TRAIN, dtype=torch.float64)
    rate = min(rate, 1.9 / float(torch.linalg.eigvalsh(K)[-1]))
    found = k.gradient_descent(K, y, rate, (5,), block=block)
    e, test = -y, torch.zeros(TEST, dtype=torch.float64)
    for _ in range(5):
        test = test - rate * block @ e
        e = e - rate * K @ e
    assert found.test is not None
    torch.testing.assert_close(found.train[0, :, 0], y + e, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(found.test[0, :, 0], test, rtol=1e-9, atol=1e-20)


@pytest.mark.parametrize("rate", [1e-3, 0.1])
@pytest.mark.parametrize("steps", [1, 1000])
def test_what_descends_along_a_lost_eigenvalue_grows_by_the_rate_and_not_by_the_step(
    rate: float, steps: int
) -> None:
    """The second eigenvalue is below rounding, and yet the test example has most of itself there:
    what it gets is the sum of rate times error over the steps, neither rate nor steps forgotten."""
    features = torch.tensor([[1.0, 0.0], [0.0, 1e-8]], dtype=torch.float64)
    block = torch.tensor([[1.0, 1e8]], dtype=torch.float64) @ features.T
    K, y = features @ features.T, torch.ones(2, dtype=torch.float64)
    found = k.gradient_descent(K, y, rate, (steps,), block=block)
    assert found.test is not None
    e, test = -y, torch.zeros(1, dtype=torch.float64)
    for _ in range(steps):
        test, e = test - rate * block @ e, e - rate * K @ e
    torch.testing.assert_close(found.test[0, :, 0], test, rtol=1e-9, atol=0.0)
    torch.testing.assert_close(found.train[0, :, 0], y + e, rtol=1e-9, atol=1e-12)
    flow = k.gradient_flow(K, y, (rate * steps,), block=block).test
    assert flow is not None
    expected = (1 - math.exp(-rate * steps)) + rate * steps
    assert float(flow[0, 0, 0]) == pytest.approx(expected, rel=1e-9)


def test_small_steps_follow_the_flow_and_its_end_is_kernel_regression() -> None:
    K, block = kernel_and_block(TRAIN + 1)
    y = torch.ones(TRAIN, dtype=torch.float64)
    flow = k.gradient_flow(K, y, (1.0, 1e6), block=block)
    descent = k.gradient_descent(K, y, 1e-5, (100_000,), block=block)
    assert flow.test is not None
    assert descent.test is not None
    torch.testing.assert_close(descent.test[0], flow.test[0], rtol=1e-3, atol=1e-4)
    end = block @ torch.linalg.solve(K, y)
    torch.testing.assert_close(flow.test[1, :, 0], end, rtol=1e-8, atol=0.0)


def test_a_rate_that_is_too_great_diverges_as_training_does() -> None:
    K, _ = kernel_and_block()
    y = torch.ones(TRAIN, dtype=torch.float64)
    found = k.gradient_descent(K, y, 1e-3, (1,))
    assert found.largest_rate == pytest.approx(2 / float(torch.linalg.eigvalsh(K)[-1]))
    below, above = (
        k.gradient_descent(K, y, factor * found.largest_rate, (0, 300)).train - y[:, None]
        for factor in (0.99, 1.01)
    )
    assert float(below[1].norm()) <= float(below[0].norm())
    assert float(above[1].norm()) > float(above[0].norm())
    with refused("not-finite"):
        k.gradient_descent(K, y, 1e6, (300,))


def test_what_is_no_kernel_of_these_examples_is_refused() -> None:
    K, block = kernel_and_block()
    y: Any = torch.ones(TRAIN, dtype=torch.float64)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("not-symmetric", {"kernel": K + torch.eye(TRAIN).roll(1, 0)}),
        ("singular", {"kernel": -K}),
        ("singular", {"kernel": torch.zeros_like(K)}),
        ("not-finite", {"kernel": K * math.nan}),
        ("wrong-shape", {"kernel": K[:3, :3]}),
        ("wrong-shape", {"block": block.T}),
        ("not-finite", {"block": block * math.nan}),
        ("contradiction", {"block": None, "initial_test": y}),
        ("wrong-shape", {"initial": y[:3]}),
        ("not-finite", {"targets": y * math.inf}),
    ]  # of types, counts and numbers: test_arguments
    for kind, change in cases:
        with refused(kind):
            k.gradient_flow(**{"kernel": K, "targets": y, "times": (1.0,), "block": block} | change)


@pytest.mark.wide
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("time", [1e6, 1e12, 1e30])
def test_a_singular_kernel_stays_where_it_ends_however_long_it_trains(
    dtype: torch.dtype, time: float
) -> None:
    generator = torch.Generator().manual_seed(1)
    train, test = (torch.randn((n, 5), generator=generator, dtype=torch.float64) for n in (12, 4))
    y, start = (torch.randn((12, 2), generator=generator, dtype=torch.float64) for _ in range(2))
    pseudo = torch.linalg.pinv(train)
    learnt = pseudo @ (y - start)
    K, block = (train @ train.T).to(dtype), (test @ train.T).to(dtype)
    flow = k.gradient_flow(K, y, (time,), block=block, initial=start)
    steps = k.gradient_descent(K, y, 1e-3, (int(time),), block=block, initial=start)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4
    for found in (flow, steps):
        assert found.test is not None
        for outputs, expected in (
            (found.train, start + train @ learnt),
            (found.test, test @ learnt),
        ):
            torch.testing.assert_close(outputs[0], expected, rtol=tolerance, atol=tolerance)


def test_test_outputs_that_hang_on_lost_eigenvalues_are_refused() -> None:
    features = torch.diag(torch.tensor([1.0, 1e-9], dtype=torch.float64))
    K, block = features @ features.T, torch.tensor([[1.0, 1e-9]], dtype=torch.float64)
    y = torch.ones(2, dtype=torch.float64)
    known = k.gradient_flow(K, y, (1.0,), block=block)
    assert known.test is not None
    assert float(known.test[0, 0, 0]) == pytest.approx(1 - math.exp(-1), abs=1e-8)
    k.gradient_descent(K, y, 0.5, (4 * 10**15,), block=block)
    for ask in (
        lambda: k.gradient_flow(K, y, (1e17,), block=block),
        lambda: k.gradient_descent(K, y, 0.5, (10**16,), block=block),
    ):
        with refused("overflow") as lost:
            ask()
        assert "2.25e+15" in str(lost.error), "times to that are known"
