"""Alignment of a kernel with the labels, and the shape and scale of a kernel (theory §7).

The *shape* of a kernel is K/‖K‖, its *scale* are its trace and its norm. All norms are Frobenius.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_kernel, check_tensor
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.spectra import symmetric_part, target_columns


@dataclass(frozen=True)
class TargetAlignment(HtmlFields):
    """Alignment of a kernel with the labels.

    A value is NaN where it is not defined: if the kernel (centred, for the first two) is zero up to
    rounding, or the targets are the same for all examples.

    Attributes:
        centred: Centred kernel alignment (CKA) of K and YYᵀ.
        by_class: The same of K and y_cy_cᵀ for each column y_c of the targets, `(C,)`, float64.
        uncentred: ⟨K, YYᵀ⟩/(‖K‖‖YYᵀ‖).
    """

    centred: float
    by_class: Tensor
    uncentred: float


@torch.no_grad()
@full_precision
def centred_alignment(kernel: Tensor, targets: Tensor) -> TargetAlignment:
    """Compute the centred kernel alignment (CKA) of a kernel and the labels.

    With C = I − 11ᵀ/n,

        CKA = ⟨CKC, YYᵀ⟩/(‖CKC‖ ‖CYYᵀC‖),

    which is 1 exactly if CKC is a positive multiple of CYYᵀC, and does not depend on the scale of K
    or on the two numbers by which the targets code a class.

    Args:
        kernel: K, `(n, n)`.
        targets: ±1, `(n,)` or `(n, C)`, as from `class_targets`.

    Returns:
        The alignment with all targets together and with each column.

    Raises:
        ArgumentError: The kernel is not finite or not symmetric, or the targets do not fit it.

    References:
        Cortes, Mohri & Rostamizadeh 2012, arXiv:1203.0550 (centred alignment); Kornblith et al.
        2019, arXiv:1905.00414 (CKA); Cristianini et al. 2001 (without centring).

    Examples:
        >>> y = torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
        >>> found = centred_alignment(torch.outer(y, y) + 5.0, y)
        >>> round(found.centred, 6), round(found.uncentred, 6)
        (1.0, 0.421464)
    """
    shape, rounding = _unit_scale("kernel", kernel)
    y = target_columns(targets, len(shape)).to("cpu", torch.float64)
    # CKC and CY; ⟨CKC, YYᵀ⟩ = Σ_c y_cᵀ CKC y_c and ‖CYYᵀC‖ = ‖YᵀCY‖
    means = shape.mean(0)
    centred = shape - means[:, None] - means[None, :] + means.mean()
    centred_y = y - y.mean(0)
    products = (y * (centred @ y)).sum(0)
    gram = centred_y.T @ centred_y
    norm = float(centred.norm())
    if norm <= rounding * float(shape.norm()):
        norm = 0.0
    sizes = gram.diagonal()
    constant = sizes <= torch.finfo(torch.float64).eps * y.square().sum(0)
    return TargetAlignment(
        _ratio(float(products.sum()), norm * float(gram.norm()) * (not bool(constant.all()))),
        torch.where(constant | (norm == 0), torch.nan, products / (norm * sizes)),
        _ratio(float((y * (shape @ y)).sum()), float(shape.norm() * (y.T @ y).norm())),
    )


@torch.no_grad()
@full_precision
def shape_distance(kernel: Tensor, other: Tensor) -> float:
    """Compute the distance between the shapes of two kernels of the same examples.

    Args:
        kernel: K, `(n, n)`.
        other: K', `(n, n)`.

    Returns:
        r = ‖K/‖K‖ − K'/‖K'‖‖: 0 if one is a positive multiple of the other, at most √2 for
        positive semi-definite kernels; NaN if one of them is zero. Their cosine is 1 − r²/2.

    Raises:
        ArgumentError: A kernel is not finite or not symmetric, or their sizes differ.

    Examples:
        >>> kernel = torch.eye(3, dtype=torch.float64)
        >>> shape_distance(kernel, 7.0 * kernel)
        0.0
    """
    one, two = _unit_scale("kernel", kernel)[0], _unit_scale("other", other)[0]
    if one.shape != two.shape:
        raise ArgumentError(
            f"The kernels are of {len(one)} and {len(two)} examples; their shapes can only be "
            "compared on the same examples.",
            kind="wrong-shape",
        )
    sizes = float(one.norm()), float(two.norm())
    if not all(sizes):
        return math.nan
    return float((one / sizes[0] - two / sizes[1]).norm())


def _unit_scale(name: str, kernel: Tensor) -> tuple[Tensor, float]:
    """Return a kernel divided by its largest entry, and the size of its rounding errors.

    Its squares neither overflow nor vanish: with small weights, entries of 10⁻²⁰⁰ are possible.
    """
    check_kernel(name, kernel)
    check_tensor(name, kernel)  # finite
    exact = kernel.to("cpu", torch.float64)
    largest = float(exact.abs().max())
    rounding = len(kernel) * torch.finfo(kernel.dtype).eps
    return symmetric_part(exact / largest if largest > 0 else exact), rounding


def _ratio(product: float, sizes: float) -> float:
    """Return a cosine, NaN for 0/0."""
    return product / sizes if sizes > 0 else math.nan
