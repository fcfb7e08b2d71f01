"""Spectra of kernels: eigenvalues, effective rank, ν and alignment with the targets (THEORY §7)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_count,
    check_kernel,
    check_number,
    check_targets,
    check_tensor,
    check_whole,
)
from dgn_engine.kernels.gram import accumulator
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.kernels.precision import full_precision

FULL_UP_TO = 2000  # examples; above it `spectrum` takes minutes
POWERS = 6  # products with the kernel that one round of the subspace holds
MOST_ROUNDS = 12
TOLERANCE = 1e-10  # of the residual, relative to the largest eigenvalue
# A kernel has no negative eigenvalue: those that are found show how large rounding is, whatever the
# dtype it came in, and positive ones up to so many times their size are rounding as well.
NOISE = 10.0
INDEFINITE = 1e-3  # of the largest eigenvalue; one as negative as that is not rounding
MOST_CLASSES = 100_000  # a column of n numbers each; the largest known, ImageNet-21k, has 21,841
ASYMMETRIC = 1e-3  # of the largest entry, likewise


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
        raise ArgumentError(
            f"count: {count} eigenvalues of a kernel of {n} examples do not exist.",
            kind="out-of-bounds",
        )
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
        raise ArgumentError(
            f"The ridge {ridge:.3g} is too small to invert the kernel scaled to 1.", kind="singular"
        )
    value = float((y * torch.cholesky_solve(y, factor)).sum()) / y.shape[1]
    return Nu(value, n, cutoff, 0.0, ridge)


@dataclass(frozen=True)
class Nu(HtmlFields):
    """ν at trace 1 and what was done to get it.

    `value` = tr(Yᵀ(Ĥ + ridge·I)⁻¹Y)/C. Without a ridge, eigenvalues at or below `cutoff` count as
    zero, `rank` counts the others, and `outside` is the share of the targets' energy that is left
    out with them. With one all eigenvalues count: `cutoff` and `outside` are 0, `rank` is n.
    """

    value: float
    rank: int
    cutoff: float
    outside: float
    ridge: float


@dataclass(frozen=True)
class Spectrum(HtmlFields):
    """The spectrum of Ĥ = H/trace H (n, n), float64; for the eigenvalues of H multiply by `trace`.

    `eigenvalues` (n,) descending; `cumulative` (n,) cumulative energy, its last entry one;
    `cutoff`: eigenvalues at or below it count as zero, `rank` counts the others;
    `effective_rank` (Σρ)²/Σρ²; `rho_min`, `rho_max` the extreme eigenvalues.
    With targets Y (n, C): `alignment` (n,) Σ_c (u_iᵀy_c)²/C; `nu` = Σ_i alignment_i/(ρ̂_i + ridge)
    over the eigenvalues above the cut-off (all of them where ridge > 0); `outside` the share of
    the targets' energy that falls below it and is not in ν; `target_alignment`
    ⟨H, YYᵀ⟩/(‖H‖‖YYᵀ‖). All four are None without targets.
    """

    eigenvalues: Tensor
    cumulative: Tensor
    trace: float
    rank: int
    cutoff: float
    ridge: float
    effective_rank: float
    rho_min: float
    rho_max: float
    nu: float | None
    outside: float | None
    alignment: Tensor | None
    target_alignment: float | None

    @property
    def distribution(self) -> Tensor:
        """The e.c.d.f. (n,): cumulative sum of the ascending eigenvalues."""
        return self.eigenvalues.flip(0).cumsum(0)

    @property
    def nu_with_cut(self) -> Nu | None:
        """ν with what was left out of it or added to it; None without targets."""
        if self.nu is None or self.outside is None:
            return None
        if self.ridge > 0:
            return Nu(self.nu, len(self.eigenvalues), 0.0, 0.0, self.ridge)
        return Nu(self.nu, self.rank, self.cutoff, self.outside, 0.0)


@torch.no_grad()
def spectrum(kernel: Tensor, targets: Tensor | None = None, ridge: float = 0.0) -> Spectrum:
    """Diagonalise a symmetric kernel (n, n); targets (n,) or (n, C) of ±1 add ν and alignment.

    The cut-off is n · (rounding of the kernel's dtype) · ρ_max, or ten times the size of the most
    negative eigenvalue where that is more: a kernel computed in float32 and kept in float64 has
    such. Raises `ArgumentError` where there is no spectrum (not finite, not symmetric, no positive
    trace) or no ν: an eigenvalue below −ρ_max/1,000, or a ridge that leaves one at or below zero.

    Examples:
        A kernel in which each of n examples is on its own has ν = n², whatever the labels:

        >>> found = spectrum(torch.eye(4, dtype=torch.float64), torch.tensor([1.0, -1.0, 1.0, 1.0]))
        >>> found.nu, found.effective_rank, found.rank
        (16.0, 4.0, 4)
    """
    check_number("ridge", ridge)
    scaled, trace = scaled_to_trace_one(kernel)
    n = len(scaled)
    values, vectors = torch.linalg.eigh(scaled)
    values, vectors = values.flip(0), vectors.flip(1)
    rho_min, rho_max = float(values[-1]), float(values[0])
    cutoff = max(rounding_of(kernel, rho_max), -NOISE * rho_min)
    kept = values > cutoff
    nu = outside = target_alignment = alignment = None
    if targets is not None:
        y = columns_of(targets, n).to("cpu", torch.float64)
        _check_invertible(rho_min, rho_max, ridge)
        alignment = (vectors.T @ y).square().sum(1) / y.shape[1]
        used = torch.ones_like(kept) if ridge > 0 else kept
        nu = float((alignment[used] / (values[used] + ridge)).sum())
        outside = float(alignment[~used].sum() / alignment.sum())
        target_alignment = float((values * alignment).sum() * y.shape[1]) / float(
            values.norm() * (y.T @ y).norm()
        )
    return Spectrum(
        eigenvalues=values,
        cumulative=values.cumsum(0),
        trace=trace,
        rank=int(kept.sum()),
        cutoff=cutoff,
        ridge=ridge,
        effective_rank=float(values.sum().square() / values.square().sum()),
        rho_min=rho_min,
        rho_max=rho_max,
        nu=nu,
        outside=outside,
        alignment=alignment,
        target_alignment=target_alignment,
    )


def rounding_of(kernel: Tensor, rho_max: float) -> float:
    """n · (rounding of the kernel's dtype) · ρ_max: an eigenvalue as small as that is not known."""
    return len(kernel) * torch.finfo(kernel.dtype).eps * rho_max


def _check_invertible(rho_min: float, rho_max: float, ridge: float) -> None:
    if ridge > 0 and rho_min + ridge <= 0:
        raise ArgumentError(
            f"The ridge {ridge:.3g} is too small: the smallest eigenvalue of the kernel scaled to "
            f"trace 1 is {rho_min:.3g}.",
            kind="singular",
        )
    if ridge == 0 and rho_min < -INDEFINITE * rho_max:
        raise ArgumentError(
            f"The kernel is not positive semi-definite (eigenvalues from {rho_min:.3g} to "
            f"{rho_max:.3g} at trace 1), so it has no ν.",
            kind="singular",
        )


def scaled_to_trace_one(kernel: Tensor) -> tuple[Tensor, float]:
    """Ĥ = H/trace H (n, n), symmetrised, float64 on the CPU; and the trace."""
    check_kernel("kernel", kernel)
    if not bool(torch.isfinite(kernel).all()):
        raise ArgumentError(
            "The kernel holds values that are not finite; it has no spectrum.", kind="not-finite"
        )
    trace = float(kernel.diagonal().to(accumulator(kernel)).sum())
    if trace <= 0:
        raise ArgumentError(
            f"The kernel's trace is {trace:g}; a spectrum needs a positive one.", kind="singular"
        )
    scaled = kernel.to("cpu", torch.float64) / trace
    apart, largest = float((scaled - scaled.T).abs().max()), float(scaled.abs().max())
    if apart > ASYMMETRIC * largest:
        raise ArgumentError(
            f"The kernel is not symmetric: two entries that should be equal differ by "
            f"{apart / largest:.2g} of the largest. A block K(x, other) has no spectrum.",
            kind="not-symmetric",
        )
    return (scaled + scaled.T) / 2, trace


def class_targets(labels: Tensor, classes: int) -> Tensor:
    """One-versus-rest targets of ±1: (n, classes), or (n, 1) with class 1 as +1 for two classes.

    `labels` (n,) are class numbers from 0. `classes` 1 is a network with one logit: two classes;
    at most 100,000.

    Examples:
        >>> class_targets(torch.tensor([0, 2, 1]), 3).tolist()
        [[1.0, -1.0, -1.0], [-1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]]
    """
    check_whole("labels", labels)
    check_count("classes", classes, 1, MOST_CLASSES)
    classes = max(classes, 2)
    if not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ArgumentError(
            f"The labels must lie between 0 and {classes - 1}.", kind="out-of-bounds"
        )
    if classes == 2:
        return (2.0 * labels.to(torch.float64) - 1.0)[:, None]
    member = labels[:, None] == torch.arange(classes, device=labels.device)
    return 2.0 * member.to(torch.float64) - 1.0


def contradictory_examples(x: Tensor, labels: Tensor) -> Tensor:
    """The indices, ascending, of the examples of x (n, ...) that another one with the very same
    input contradicts by its label: no kernel of x fits them, and ν at ridge 0 leaves part of the
    targets out."""
    check_tensor("x", x)
    check_whole("labels", labels)
    if len(labels) != len(x):
        raise ArgumentError(
            f"{len(labels)} labels were given for {len(x)} examples of x.", kind="wrong-length"
        )
    _, group = torch.unique(x.flatten(1), dim=0, return_inverse=True)
    pair = torch.stack([group, labels.to(group)], dim=1)
    labels_of_group = torch.unique(pair, dim=0)[:, 0].bincount()
    found: Tensor = (labels_of_group[group] > 1).nonzero()[:, 0]
    return found


def columns_of(targets: Tensor, n: int) -> Tensor:
    """Targets (n,) or (n, C) as (n, C); refused where they are not n."""
    check_targets(targets, n)
    return targets[:, None] if targets.dim() == 1 else targets
