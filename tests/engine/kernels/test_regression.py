from __future__ import annotations

import numpy as np
import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.errors import UserError


def problem(classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(30) % classes
    centres = 3.0 * torch.randn((classes, 5), generator=generator, dtype=torch.float64)
    x = centres[labels] + 0.3 * torch.randn((30, 5), generator=generator, dtype=torch.float64)
    return k.input_gram(x), k.class_targets(labels, classes)


@pytest.mark.parametrize("classes", [2, 3])
def test_regression_solves_the_ridge_equations(classes: int) -> None:
    K, y = problem(classes)
    train, test = torch.arange(20), torch.arange(20, 30)
    found = k.kernel_regression(K, y, train, test, ridge=0.1)
    penalty = 0.1 * float(K[:20, :20].trace()) / 20
    weights = torch.linalg.solve(K[:20, :20] + penalty * torch.eye(20, dtype=K.dtype), y[:20])
    np.testing.assert_allclose(found.predictions, (K[20:, :20] @ weights).numpy(), rtol=1e-8)
    assert found.ridge == pytest.approx(penalty)


@pytest.mark.parametrize("classes", [2, 3])
def test_separable_classes_are_told_apart_whatever_the_scale(classes: int) -> None:
    K, y = problem(classes)
    train, test = torch.arange(20), torch.arange(20, 30)
    small = k.kernel_regression(1e-6 * K, y, train, test)
    large = k.kernel_regression(1e6 * K, y, train, test)
    assert small.accuracy == large.accuracy == 1.0
    assert small.r2 == pytest.approx(large.r2)
    assert small.r2 > 0.3


def test_what_cannot_be_fitted_is_refused() -> None:
    K, y = problem(2)
    train, test = torch.arange(20), torch.arange(20, 30)
    with pytest.raises(UserError, match="both the training and the test part"):
        k.kernel_regression(K, y, train, train)
    with pytest.raises(UserError, match="greater than 0"):
        k.kernel_regression(K, y, train, test, ridge=0.0)
    with pytest.raises(UserError, match="not finite"):
        k.kernel_regression(K * torch.nan, y, train, test)
    with pytest.raises(UserError, match="zero on the training examples"):
        k.kernel_regression(K * 0.0, y, train, test)


def test_fixed_random_gating_has_its_closed_form_spectrum() -> None:
    n, p, depth = 7, 0.6, 4
    values = torch.linalg.eigvalsh(k.random_gating_kernel(n, p, depth)).flip(0)
    torch.testing.assert_close(k.random_gating_eigenvalues(n, p, depth), values)


def test_wide_random_gates_approach_the_closed_form() -> None:
    n, p, w, depth = 6, 0.5, 4000, 4
    generator = torch.Generator().manual_seed(0)
    gates = [(torch.rand((n, w), generator=generator) < p).double() for _ in range(depth - 1)]
    product = torch.ones((n, n), dtype=torch.float64)
    for layer in gates:
        product = product * k.layer_overlap(layer) / (p * w)
    expected = k.random_gating_kernel(n, p, depth)
    torch.testing.assert_close(product, expected, rtol=0.0, atol=0.1)


def test_probabilities_outside_their_range_are_refused() -> None:
    with pytest.raises(UserError, match="0 < p ≤ 1"):
        k.random_gating_kernel(4, 1.5, 3)
