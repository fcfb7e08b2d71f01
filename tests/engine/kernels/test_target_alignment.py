"""CKA and shapes against sums that are written out, entry by entry."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from tests.refusals import refused


def drawn_kernel(n: int, rank: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn((n, rank), generator=generator, dtype=torch.float64)
    return root @ root.T + 3.0  # not centred


def written_out(kernel: Tensor, outer: Tensor, centred: bool) -> float:
    """⟨CKC, CTC⟩/(‖CKC‖‖CTC‖), each entry from the means of its row and column."""
    n = len(kernel)

    def entries(matrix: Tensor) -> list[float]:
        rows = [[float(matrix[a, b]) for b in range(n)] for a in range(n)]
        if not centred:
            return [value for row in rows for value in row]
        mean = [sum(row) / n for row in rows]
        whole = sum(mean) / n
        return [rows[a][b] - mean[a] - mean[b] + whole for a in range(n) for b in range(n)]

    one, two = entries(kernel), entries(outer)
    product = sum(a * b for a, b in zip(one, two, strict=True))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in two))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("scale", [1.0, 1e-250, 1e200])
def test_alignment_is_the_cosine_of_the_centred_matrices(classes: int, scale: float) -> None:
    kernel = drawn_kernel(9, 4)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0, 2]) % classes
    targets = k.class_targets(labels, classes)
    found = k.centred_alignment(kernel * scale, targets)
    whole = targets @ targets.T
    assert found.centred == pytest.approx(written_out(kernel, whole, True), rel=1e-12)
    assert found.uncentred == pytest.approx(written_out(kernel, whole, False), rel=1e-12)
    each = [written_out(kernel, torch.outer(y, y), True) for y in targets.T]
    assert found.by_class.tolist() == pytest.approx(each, rel=1e-12)
    assert found.uncentred == pytest.approx(k.spectrum(kernel, targets).target_alignment)


def test_the_coding_of_the_classes_does_not_matter_after_centring() -> None:
    kernel, labels = drawn_kernel(8, 3), torch.tensor([0, 1, 1, 0, 1, 0, 0, 0])
    signs = k.centred_alignment(kernel, k.class_targets(labels, 2))
    both = torch.nn.functional.one_hot(labels).double()
    assert k.centred_alignment(kernel, both).centred == pytest.approx(signs.centred, rel=1e-12)
    assert k.centred_alignment(kernel, both[:, 0]).centred == pytest.approx(
        signs.centred, rel=1e-12
    )


def test_the_kernel_of_the_labels_is_aligned_and_one_across_them_is_not() -> None:
    labels = torch.tensor([0, 0, 1, 1])
    y = k.class_targets(labels, 2)
    assert k.centred_alignment(y @ y.T + 2.0, y).centred == pytest.approx(1.0, abs=1e-14)
    across = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    assert k.centred_alignment(torch.outer(across, across), y).centred == 0.0


def test_what_is_not_defined_is_nan_and_never_rounding() -> None:
    kernel = drawn_kernel(6, 3)
    three = k.class_targets(torch.tensor([0, 0, 1, 1, 0, 1]), 3)  # no example of class 2
    found = k.centred_alignment(kernel, three)
    assert [math.isnan(value) for value in found.by_class.tolist()] == [False, False, True]
    assert math.isfinite(found.centred)
    alike = k.centred_alignment(kernel, torch.full((6,), 0.1, dtype=torch.float64))
    assert math.isnan(alike.centred)
    assert math.isfinite(alike.uncentred)
    flat = torch.full((6, 6), 0.1) + 1e-9 * torch.ones(6, 6)  # constant up to rounding
    assert math.isnan(k.centred_alignment(flat, three).centred)
    nothing = k.centred_alignment(torch.zeros(6, 6), three)
    assert math.isnan(nothing.centred)
    assert math.isnan(nothing.uncentred)


def test_the_shape_does_not_see_the_scale() -> None:
    one, two = drawn_kernel(7, 3), drawn_kernel(7, 5, seed=1)
    expected = one / one.norm() - two / two.norm()
    found = k.shape_distance(one * 1e-220, two * 1e250)
    assert found == pytest.approx(float(expected.norm()), rel=1e-12)
    cosine = float((one * two).sum() / one.norm() / two.norm())
    assert 1 - found**2 / 2 == pytest.approx(cosine, rel=1e-12)
    assert k.shape_distance(one, one * 8) == 0.0
    first, second = torch.zeros(3, 3), torch.zeros(3, 3)
    first[0, 0], second[1, 1] = 2.0, 5.0
    assert k.shape_distance(first, second) == pytest.approx(math.sqrt(2))
    assert math.isnan(k.shape_distance(first, torch.zeros(3, 3)))


def test_a_small_step_of_the_shape_is_not_lost_to_cancellation() -> None:
    kernel, step = drawn_kernel(7, 7), drawn_kernel(7, 7, seed=2)
    small = 1e-11
    change = small * (step / kernel.norm() - kernel * (kernel * step).sum() / kernel.norm() ** 3)
    found = k.shape_distance(kernel, kernel + small * step)
    assert found == pytest.approx(float(change.norm()), rel=1e-3)


def test_what_is_no_kernel_of_these_examples_is_refused() -> None:
    kernel = drawn_kernel(4, 4)
    y = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    with refused("wrong-shape"):
        k.shape_distance(kernel, kernel[:3, :3])
    with refused("not-symmetric"):
        k.shape_distance(kernel, kernel.tril())
    with refused("not-symmetric"):
        k.centred_alignment(kernel.tril(), y)
    with refused("not-finite"):
        k.centred_alignment(kernel * math.nan, y)
    with refused("wrong-shape"):
        k.centred_alignment(kernel, y[:3])
    with refused("wrong-type"):
        k.centred_alignment(kernel, torch.tensor([0, 1, 0, 1]))
