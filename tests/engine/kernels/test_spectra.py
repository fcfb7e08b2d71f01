from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.errors import UserError


def kernel_of_rank(n: int, rank: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn((n, rank), generator=generator, dtype=torch.float64)
    return root @ root.T


def test_nu_is_the_quadratic_form_of_the_inverse_scaled_to_trace_one() -> None:
    H = kernel_of_rank(6, 9)
    y = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    found = k.spectrum(H, y)
    expected = float(y @ torch.linalg.solve(H / H.trace(), y))
    assert found.nu == pytest.approx(expected, rel=1e-10)
    assert found.rank == 6
    assert found.outside == pytest.approx(0.0, abs=1e-12)


def test_many_classes_are_averaged_one_versus_rest() -> None:
    H = kernel_of_rank(6, 9)
    Y = k.class_targets(torch.tensor([0, 1, 2, 0, 1, 2]), 3)
    found = k.spectrum(H, Y)
    expected = float((Y.T @ torch.linalg.solve(H / H.trace(), Y)).trace()) / 3
    assert found.nu == pytest.approx(expected, rel=1e-10)
    alignment = (H * (Y @ Y.T)).sum() / (H.norm() * (Y @ Y.T).norm())
    assert found.target_alignment == pytest.approx(float(alignment), rel=1e-10)
    assert found.alignment is not None
    assert float(found.alignment.sum()) == pytest.approx(6.0)


def test_a_ridge_is_used_and_reported() -> None:
    H = kernel_of_rank(5, 3)
    y = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
    found = k.spectrum(H, y, ridge=0.01)
    eye = torch.eye(5, dtype=torch.float64)
    expected = float(y @ torch.linalg.solve(H / H.trace() + 0.01 * eye, y))
    assert found.nu == pytest.approx(expected, rel=1e-8)
    assert found.ridge == 0.01


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
    with pytest.raises(UserError, match="7 eigenvalues"):
        k.leading_spectrum(H, 7)


def test_the_identity_has_full_effective_rank() -> None:
    found = k.spectrum(torch.eye(8))
    assert found.effective_rank == pytest.approx(8.0)


def test_the_cutoff_follows_the_precision_the_kernel_was_computed_in() -> None:
    H = kernel_of_rank(6, 6)
    assert k.spectrum(H.float()).cutoff > 1e6 * k.spectrum(H).cutoff


def test_two_classes_become_plus_and_minus_one() -> None:
    assert k.class_targets(torch.tensor([0, 1, 1]), 2).tolist() == [[-1.0], [1.0], [1.0]]
    assert k.class_targets(torch.tensor([0, 2]), 3).tolist() == [
        [1.0, -1.0, -1.0],
        [-1.0, -1.0, 1.0],
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_kernel_that_is_not_finite_is_refused(value: float) -> None:
    H = torch.eye(3)
    H[0, 1] = value
    with pytest.raises(UserError, match="not finite"):
        k.spectrum(H)


def test_kernels_and_targets_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UserError, match="trace is 0"):
        k.spectrum(torch.zeros((3, 3)))
    with pytest.raises(UserError, match="square"):
        k.spectrum(torch.zeros((3, 2)))
    with pytest.raises(UserError, match="4 targets"):
        k.spectrum(torch.eye(3), torch.ones(4))
    with pytest.raises(UserError, match="between 0 and 2"):
        k.class_targets(torch.tensor([3]), 3)


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


def test_negative_ridges_are_refused() -> None:
    kernel, targets = random_kernel(6), random_targets(6, 1)
    for ridge in (-1e-3, math.nan, math.inf):
        with pytest.raises(ValueError, match="ridge is"):
            k.spectrum(kernel, targets, ridge=ridge)
        with pytest.raises(ValueError, match="ridge is"):
            k.nu(kernel, targets, ridge=ridge)


def test_what_has_no_nu_is_refused() -> None:
    indefinite = random_kernel(30) - 2 * torch.eye(30) * random_kernel(30).trace() / 100
    targets = random_targets(30, 1)
    for call in (k.nu, k.spectrum):
        with pytest.raises(ValueError, match="not positive semi-definite"):
            call(indefinite, targets)
        with pytest.raises(ValueError, match="too small"):
            call(indefinite, targets, ridge=1e-9)
        with pytest.raises(ValueError, match="4 targets"):
            call(random_kernel(30), targets[:4])
    assert k.spectrum(indefinite).rho_min < 0


def test_a_block_of_two_sets_of_examples_is_not_made_symmetric_in_silence() -> None:
    block = torch.randn((5, 5), generator=torch.Generator().manual_seed(0)) + 5 * torch.eye(5)
    with pytest.raises(ValueError, match="not symmetric"):
        k.spectrum(block)
    rounded = random_kernel(5).float()
    rounded[0, 1] *= 1 + 1e-6
    assert k.spectrum(rounded).rank == 5


def test_equal_inputs_with_different_labels_are_found() -> None:
    x = torch.tensor([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [3.0, 1.0], [3.0, 1.0], [1.0, 2.0]])
    assert k.contradictory_examples(x, torch.tensor([0, 1, 0, 2, 1, 2])).tolist() == [0, 2, 3, 4, 5]
    assert k.contradictory_examples(x, torch.tensor([0, 1, 0, 2, 2, 0])).tolist() == []
    assert k.contradictory_examples(x[:, None], torch.arange(6)).tolist() == [0, 2, 3, 4, 5]


def random_kernel(n: int) -> Tensor:
    part = torch.randn((n, n), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return part @ part.T


def random_targets(n: int, columns: int) -> Tensor:
    draw = torch.rand((n, columns), generator=torch.Generator().manual_seed(2))
    return 2.0 * (draw > 0.5).double() - 1.0


@pytest.mark.parametrize("columns", [1, 3])
def test_alignment_is_the_kernels_own_product_with_the_targets(columns: int) -> None:
    kernel, y = random_kernel(12), random_targets(12, columns)
    found = k.spectrum(kernel, y)
    values, vectors = torch.linalg.eigh(kernel)
    by_vector = (vectors.flip(1).T @ y).square().sum(1) / columns
    torch.testing.assert_close(found.alignment, by_vector, rtol=1e-9, atol=1e-12)
    outer = y @ y.T
    cosine = (kernel * outer).sum() / (kernel.norm() * outer.norm())
    assert found.target_alignment == pytest.approx(float(cosine), rel=1e-10)
    assert found.rho_max == pytest.approx(float(values[-1] / kernel.trace()))
    assert found.rho_min == pytest.approx(float(values[0] / kernel.trace()), rel=1e-6)
