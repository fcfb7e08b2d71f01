"""Kernels too large to diagonalise: leading eigenvalues with a bound on their error, and ν."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_count, check_number
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.spectra import (
    Nu,
    columns_of,
    rounding_of,
    scaled_to_trace_one,
    spectrum,
)
from dgn_engine.text.html_fields import HtmlFields

FULL_UP_TO = 2000  # examples; above it `spectrum` takes minutes
POWERS = 6  # products with the kernel that one round of the subspace holds
MOST_ROUNDS = 12
TOLERANCE = 1e-10  # of the residual, relative to the largest eigenvalue


@dataclass(frozen=True)
class LeadingSpectrum(HtmlFields):
    """The `count` largest eigenvalues of Ĥ = H/trace H, float64.

    `eigenvalues` (k,) descending, each within `error` of an eigenvalue of Ĥ; `vectors` (n, k);
    `cumulative` (k,) cumulative energy of the whole trace; `effective_rank` (Σρ)²/Σρ², exact.
    """

    eigenvalues: Tensor
    vectors: Tensor
    cumulative: Tensor
    trace: float
    effective_rank: float
    error: float


@torch.no_grad()
@full_precision
def leading_spectrum(kernel: Tensor, count: int) -> LeadingSpectrum:
    """Largest eigenvalues of a symmetric kernel (n, n) by block Krylov iteration, restarted until
    the residuals ‖Ĥu − ρu‖ are below 10⁻¹⁰ ρ_max or 12 rounds are done; `error` is the largest.

    The random start is fixed, so equal kernels give equal results. O(n²·count) per round.
    """
    scaled, trace = scaled_to_trace_one(kernel)
    n = len(scaled)
    check_count("count", count)
    if count > n:
        raise ArgumentError(f"count: {count} eigenvalues of a kernel of {n} examples do not exist.")
    width = count + 10
    if 2 * width > n:  # no room for a product with the kernel beside the start: all of it
        width = n
    generator = torch.Generator().manual_seed(0)
    start = torch.randn((n, width), generator=generator, dtype=torch.float64)
    values, vectors, error = torch.zeros(count), start, float("inf")
    for _ in range(MOST_ROUNDS):
        basis = _krylov(scaled, vectors)
        images = scaled @ basis
        small, rotation = torch.linalg.eigh(basis.T @ images)
        values, rotation = small.flip(0)[:width], rotation.flip(1)[:, :width]
        vectors = basis @ rotation
        residual = (images @ rotation - vectors * values).norm(dim=0)[:count]
        error = float(residual.max())
        if error <= TOLERANCE * float(values[0]):
            break
    values, vectors = values[:count], vectors[:, :count]
    effective = 1.0 / float(scaled.square().sum())
    return LeadingSpectrum(values, vectors, values.cumsum(0), trace, effective, error)


def _krylov(kernel: Tensor, start: Tensor) -> Tensor:
    """An orthonormal basis of [S, KS, K²S, …], at most n columns."""
    block = torch.linalg.qr(start)[0]
    blocks = [block]
    while len(blocks) < POWERS and (len(blocks) + 1) * block.shape[1] <= len(kernel):
        block = torch.linalg.qr(kernel @ block)[0]
        blocks.append(block)
    basis: Tensor = torch.linalg.qr(torch.cat(blocks, dim=1))[0]
    return basis


@torch.no_grad()
@full_precision
def nu(kernel: Tensor, targets: Tensor, ridge: float = 0.0) -> Nu:
    """ν of a kernel (n, n) and targets (n,) or (n, C) of ±1: that of `spectrum`, at every n.

    Where every eigenvalue lies above the cut-off, or with a ridge, one or two Cholesky factors
    give it, O(n³/3) each; a singular kernel is diagonalised (n = 5,000: about a minute on a core).
    Raises `ArgumentError` as `spectrum` does.
    """
    check_number("ridge", ridge)
    scaled, _ = scaled_to_trace_one(kernel)
    n = len(scaled)
    y = columns_of(targets, n).to("cpu", torch.float64)
    diagonal = scaled.diagonal().clone()
    cutoff = 0.0
    if ridge > 0:
        scaled.diagonal().add_(ridge)
    else:
        cutoff = rounding_of(kernel, float(leading_spectrum(kernel, 1).eigenvalues[0]))
        scaled.diagonal().sub_(cutoff)
        if torch.linalg.cholesky_ex(scaled).info:  # an eigenvalue is at or below the cut-off
            whole = spectrum(kernel, targets)
            assert whole.nu_with_cut is not None
            return whole.nu_with_cut
        scaled.diagonal().copy_(diagonal)
    factor, failed = torch.linalg.cholesky_ex(scaled)
    if failed:
        raise ArgumentError(f"The ridge {ridge:.3g} is too small to invert the kernel scaled to 1.")
    value = float((y * torch.cholesky_solve(y, factor)).sum()) / y.shape[1]
    return Nu(value, n, cutoff, 0.0, ridge)
