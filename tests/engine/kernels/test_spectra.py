from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from tests.refusals import refused


def kernel_of_rank(n: int, rank: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn((n, rank), generator=generator, dtype=torch.float64)
    return root @ root.T


def random_targets(n: int, columns: int) -> Tensor:
    draw = torch.rand((n, columns), generator=torch.Generator().manual_seed(2))
    return 2.0 * (draw > 0.5).double() - 1.0


def test_nu_is_the_quadratic_form_of_the_inverse_scaled_to_trace_one() -> None:
    H = kernel_of_rank(6, 9)
    y = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    found = k.spectrum(H, y)
    expected = float(y @ torch.linalg.solve(H / H.trace(), y))
    assert found.nu == pytest.approx(expected, rel=1e-10)
    assert found.rank == 6
    assert found.outside == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_alignment_is_the_kernels_own_product_with_the_targets(columns: int, ridge: float) -> None:
    kernel, y = kernel_of_rank(12, 12), random_targets(12, columns)
    found = k.spectrum(kernel, y, ridge)
    values, vectors = torch.linalg.eigh(kernel)
    by_vector = (vectors.flip(1).T @ y).square().sum(1) / columns
    torch.testing.assert_close(found.alignment, by_vector, rtol=1e-9, atol=1e-12)
    outer = y @ y.T
    cosine = (kernel * outer).sum() / (kernel.norm() * outer.norm())
    assert found.target_alignment == pytest.approx(float(cosine), rel=1e-10)
    assert found.rho_max == pytest.approx(float(values[-1] / kernel.trace()))
    assert found.rho_min == pytest.approx(float(values[0] / kernel.trace()), rel=1e-6)
    inner = kernel / kernel.trace() + ridge * torch.eye(12, dtype=torch.float64)
    by_class = (y.T @ torch.linalg.solve(inner, y)).trace() / columns  # one versus the rest
    assert found.nu == pytest.approx(float(by_class), rel=1e-8)
    assert found.ridge == ridge


def test_a_singular_kernel_says_its_rank_and_what_it_left_out() -> None:
    H = kernel_of_rank(5, 2)
    y = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
    found = k.spectrum(H, y)
    vectors = torch.linalg.eigh(H).eigenvectors[:, :3]
    assert found.rank == 2
    assert found.cutoff > 0
    expected = float((vectors.T @ y).square().sum()) / 5
    assert found.outside == pytest.approx(expected, rel=1e-8)


def test_eigenvalues_descend_and_their_energy_adds_up_to_one() -> None:
    H = kernel_of_rank(7, 7)
    found = k.spectrum(H)
    expected = np.linalg.eigvalsh(H.numpy())[::-1] / float(H.trace())
    np.testing.assert_allclose(found.eigenvalues.numpy(), expected, rtol=1e-10, atol=1e-14)
    assert float(found.cumulative[-1]) == pytest.approx(1.0)
    assert found.rho_max == float(found.eigenvalues[0])
    assert found.rho_min == float(found.eigenvalues[-1])
    assert found.nu is None
    assert found.alignment is None
    assert found.trace == pytest.approx(float(H.trace()))


def test_the_distribution_adds_up_from_the_smallest_eigenvalue() -> None:
    found = k.spectrum(torch.diag(torch.tensor([1.0, 3.0, 6.0], dtype=torch.float64)))
    expected = torch.tensor([0.1, 0.4, 1.0], dtype=torch.float64)
    torch.testing.assert_close(found.distribution, expected)


@pytest.mark.parametrize("decay", [0.5, 0.97])
def test_the_leading_eigenvalues_are_those_of_the_whole_kernel(decay: float) -> None:
    n = 300
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn((n, n), generator=generator, dtype=torch.float64))[0]
    values = decay ** torch.arange(n, dtype=torch.float64)
    H = (basis * values) @ basis.T
    leading, whole = k.leading_spectrum(H, 12), k.spectrum(H)
    assert leading.error < 1e-9 * whole.rho_max
    torch.testing.assert_close(leading.eigenvalues, whole.eigenvalues[:12], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(leading.cumulative, whole.cumulative[:12])
    assert leading.effective_rank == pytest.approx(whole.effective_rank)
    rows = leading.vectors.T @ H @ leading.vectors / leading.trace
    torch.testing.assert_close(rows, torch.diag(leading.eigenvalues), rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("n", [12, 24, 27, 28, 29, 60])
def test_few_leading_eigenvalues_of_a_kernel_of_any_size_are_right(n: int) -> None:
    kernel = kernel_of_rank(n, n)
    found = k.leading_spectrum(kernel, 4)
    assert torch.allclose(found.eigenvalues, k.spectrum(kernel).eigenvalues[:4], rtol=1e-9)


def test_a_small_kernel_gives_all_its_eigenvalues_as_leading_ones() -> None:
    H = kernel_of_rank(6, 3)
    found = k.leading_spectrum(H, 6)
    torch.testing.assert_close(found.eigenvalues, k.spectrum(H).eigenvalues)
    with refused("out-of-bounds"):
        k.leading_spectrum(H, 7)


def test_the_identity_has_full_effective_rank() -> None:
    found = k.spectrum(torch.eye(8))
    assert found.effective_rank == pytest.approx(8.0)


def test_two_classes_become_plus_and_minus_one() -> None:
    assert k.class_targets(torch.tensor([0, 1, 1]), 2).tolist() == [[-1.0], [1.0], [1.0]]
    assert k.class_targets(torch.tensor([0, 2]), 3).tolist() == [
        [1.0, -1.0, -1.0],
        [-1.0, -1.0, 1.0],
    ]


@pytest.mark.wide
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("ridge", [0.0, 1e-3])
@pytest.mark.parametrize("rank", [7, 29, 30, 60])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nu_is_one_quantity_with_and_without_eigenvalues(
    columns: int, ridge: float, rank: int, dtype: torch.dtype
) -> None:
    kernel, targets = kernel_of_rank(30, rank).to(dtype), random_targets(30, columns)
    found, whole = k.nu(kernel, targets, ridge), k.spectrum(kernel, targets, ridge)
    assert whole.nu is not None
    assert found.value == pytest.approx(whole.nu, rel=1e-8)
    assert found.ridge == ridge
    assert found.outside == pytest.approx(whole.outside, abs=1e-12)
    if ridge:
        assert (found.rank, found.cutoff) == (30, 0.0)
    else:
        assert (found.rank, whole.rank) == (min(rank, 30),) * 2
        assert found.cutoff == pytest.approx(whole.cutoff, rel=1e-6)
        assert (found.outside > 1e-6) == (rank < 30)


def test_nu_of_a_singular_kernel_is_that_of_its_exact_pseudo_inverse() -> None:
    kernel, y = kernel_of_rank(30, 11), random_targets(30, 1)[:, 0]
    expected = float(y @ torch.linalg.pinv(kernel / kernel.trace(), rtol=1e-9) @ y)
    assert k.nu(kernel, y).value == pytest.approx(expected, rel=1e-8)


def test_rounding_of_a_float32_kernel_kept_in_float64_is_not_counted_as_rank() -> None:
    kernel, targets = kernel_of_rank(60, 11), random_targets(60, 1)
    rounded = kernel.float().double()  # the dtype says nothing any more
    exact, found = k.spectrum(kernel, targets), k.spectrum(rounded, targets)
    assert (exact.rank, found.rank) == (11, 11)
    assert found.cutoff > 100 * exact.cutoff
    assert found.nu == pytest.approx(exact.nu, rel=1e-4)
    assert k.nu(rounded, targets).value == pytest.approx(exact.nu, rel=1e-4)


def test_equal_inputs_with_different_labels_are_found() -> None:
    x = torch.tensor([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [3.0, 1.0], [3.0, 1.0], [1.0, 2.0]])
    assert k.contradictory_examples(x, torch.tensor([0, 1, 0, 2, 1, 2])).tolist() == [0, 2, 3, 4, 5]
    assert k.contradictory_examples(x, torch.tensor([0, 1, 0, 2, 2, 0])).tolist() == []
    assert k.contradictory_examples(x[:, None], torch.arange(6)).tolist() == [0, 2, 3, 4, 5]


SINGULAR = kernel_of_rank(30, 30) - 2 * torch.eye(30) * kernel_of_rank(30, 30).trace() / 100
BLOCK = torch.randn((5, 5), generator=torch.Generator().manual_seed(0)) + 5 * torch.eye(5)
NO_SPECTRUM: list[tuple[str, Tensor, Tensor | None, float]] = [
    ("not-finite", torch.eye(3) * math.nan, None, 0.0),
    ("not-finite", torch.full((3, 3), math.inf), None, 0.0),
    ("singular", torch.zeros((3, 3)), None, 0.0),
    ("wrong-shape", torch.zeros((3, 2)), None, 0.0),
    ("wrong-shape", torch.eye(3), torch.ones(4), 0.0),
    ("not-finite", torch.eye(3), torch.tensor([1.0, math.nan, 1.0]), 0.0),
    ("singular", SINGULAR, random_targets(30, 1), 0.0),
    ("singular", SINGULAR, random_targets(30, 1), 1e-9),
    ("out-of-bounds", torch.eye(3), torch.ones(3), -1e-3),
    ("out-of-bounds", torch.eye(3), torch.ones(3), math.inf),
    ("not-symmetric", BLOCK, None, 0.0),  # of two sets of examples
]


@pytest.mark.parametrize(("kind", "kernel", "targets", "ridge"), NO_SPECTRUM)
def test_kernels_and_targets_that_have_no_spectrum_are_refused(
    kind: str, kernel: Tensor, targets: Tensor | None, ridge: float
) -> None:
    with refused(kind):
        k.spectrum(kernel, targets, ridge)
    if targets is not None:
        with refused(kind):
            k.nu(kernel, targets, ridge)


def test_rounding_makes_no_kernel_asymmetric_and_no_indefinite_one_is_without_eigenvalues() -> None:
    rounded = kernel_of_rank(5, 5).float()
    rounded[0, 1] *= 1 + 1e-6
    assert k.spectrum(rounded).rank == 5
    assert k.spectrum(SINGULAR).rho_min < 0
    with refused("out-of-bounds"):
        k.class_targets(torch.tensor([3]), 3)
    with refused("out-of-bounds"):
        k.class_targets(torch.tensor([-1]), 3)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
def test_class_numbers_are_no_outputs_to_be_learnt(dtype: torch.dtype) -> None:
    numbers = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    with refused("wrong-type", value=dtype):
        k.gradient_flow(kernel_of_rank(5, 5), numbers, [1.0])
    with refused("wrong-type", value=dtype):
        k.gradient_descent(kernel_of_rank(5, 5), numbers, 1e-3, [1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_cutoff_is_examples_times_rounding_times_the_largest_eigenvalue(
    dtype: torch.dtype,
) -> None:
    kernel = torch.diag(torch.tensor([6.0, 2, 2, 2, 2, 2])).to(dtype)
    found = k.nu(kernel, torch.tensor([1.0, -1, 1, -1, 1, -1]))
    assert found.cutoff == pytest.approx(6 * torch.finfo(dtype).eps * 6 / 16, rel=1e-9)
    assert found.value == pytest.approx(16 / 6 + 5 * 8, rel=1e-12)


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
    y[[20, 21]] = y[[21, 20]]  # of two classes: each is the other's
    assert k.kernel_regression(K, y, train, test).accuracy == pytest.approx(0.8)


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


def test_what_cannot_be_fitted_is_refused() -> None:
    K, y = problem(2)
    train, test = torch.arange(20), torch.arange(20, 30)
    for kind, kernel, part, ridge in (
        ("contradiction", K, train, 1e-3),  # in both
        ("out-of-bounds", K, test, 0.0),
        ("not-finite", K * torch.nan, test, 1e-3),
        ("singular", K * 0.0, test, 1e-3),
    ):
        with refused(kind):
            k.kernel_regression(kernel, y, train, part, ridge)
    with refused("out-of-bounds"):
        k.random_gating_kernel(4, 1.5, 3)
