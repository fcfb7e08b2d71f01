"""Kernels too large to diagonalise: leading eigenvalues with a bound on their error, and ν."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.kernels.spectra import columns_of, scaled_to_trace_one

FULL_UP_TO = 2000  # examples; above it `spectrum` takes minutes
POWERS = 6  # products with the kernel that one round of the subspace holds
MOST_ROUNDS = 12
TOLERANCE = 1e-10  # of the residual, relative to the largest eigenvalue


@dataclass(frozen=True)
class LeadingSpectrum:
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
def leading_spectrum(kernel: Tensor, count: int) -> LeadingSpectrum:
    """Largest eigenvalues of a symmetric kernel (n, n) by block Krylov iteration, restarted until
    the residuals ‖Ĥu − ρu‖ are below 10⁻¹⁰ ρ_max or 12 rounds are done; `error` is the largest.

    The random start is fixed, so equal kernels give equal results. O(n²·count) per round.
    """
    scaled, trace = scaled_to_trace_one(kernel)
    n = len(scaled)
    if not 1 <= count <= n:
        raise UserError(f"{count} eigenvalues were asked for of a kernel of {n} examples.")
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
def ridge_nu(kernel: Tensor, targets: Tensor, ridge: float | None = None) -> tuple[float, float]:
    """ν = tr(Yᵀ(Ĥ + ridge·I)⁻¹Y)/C without eigenvalues, and the ridge: O(n³/3).

    Ĥ = H/trace H (n, n), targets (n,) or (n, C) of ±1. Without `ridge` it is the cut-off of
    `spectrum`, n · (rounding of the kernel's dtype) · ρ_max, tenfold until Ĥ + ridge·I has a
    Cholesky factor. Raises `UserError` where a given ridge is too small for that.
    """
    largest = float(leading_spectrum(kernel, 1).eigenvalues[0])
    scaled, _ = scaled_to_trace_one(kernel)
    n = len(scaled)
    y = columns_of(targets, n).to("cpu", torch.float64)
    added = n * torch.finfo(kernel.dtype).eps * largest if ridge is None else ridge
    diagonal = scaled.diagonal().clone()
    while True:
        scaled.diagonal().copy_(diagonal + added)
        factor, failed = torch.linalg.cholesky_ex(scaled)
        if not failed:
            break
        if ridge is not None or added > largest:
            raise UserError(f"The ridge {added:.3g} is too small to invert the kernel scaled to 1.")
        added *= 10
    return float((y * torch.cholesky_solve(y, factor)).sum()) / y.shape[1], added
