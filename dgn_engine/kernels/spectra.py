"""Spectra of kernels: eigenvalues, effective rank, ν and alignment with the targets (theory §7)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_count,
    check_integer_tensor,
    check_kernel,
    check_number,
    check_targets,
    check_tensor,
)
from dgn_engine.kernels.gram import accumulator_dtype
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.kernels.precision import full_precision

FULL_UP_TO = 2000  # examples; `spectrum` takes minutes for more
POWERS = 6  # products with the kernel per round of the subspace iteration
MOST_ROUNDS = 12
TOLERANCE = 1e-10  # residual, relative to the largest eigenvalue
# A kernel has no negative eigenvalues, so computed ones show the size of rounding errors, whatever
# the dtype. Positive ones up to this many times their size are treated as rounding, too.
NOISE = 10.0
INDEFINITE = 1e-3  # relative to the largest eigenvalue; a more negative one is not rounding
MOST_CLASSES = 100_000  # columns of targets; ImageNet-21k has 21,841
ASYMMETRIC = 1e-3  # relative to the largest entry; more asymmetry is not rounding


@dataclass(frozen=True)
class LeadingSpectrum(HtmlFields):
    """The largest eigenvalues of Ĥ = H/trace H, float64.

    Attributes:
        eigenvalues: In descending order, `(k,)`, each within `error` of an eigenvalue of Ĥ.
        vectors: Eigenvectors, `(n, k)`.
        cumulative: Cumulative energy, as fractions of the whole trace, `(k,)`.
        trace: trace H.
        effective_rank: (Σρ)²/Σρ², exact.
        error: Largest residual ‖Ĥu − ρu‖.
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
    """Compute the largest eigenvalues of a symmetric kernel by block Krylov iteration.

    It restarts until all residuals ‖Ĥu − ρu‖ are below 10⁻¹⁰ ρ_max or 12 rounds are done, at
    O(n²·k) per round. The random start is fixed, so equal kernels give equal results.

    Args:
        kernel: H, `(n, n)`.
        count: Number of eigenvalues k.

    Returns:
        Eigenvalues and eigenvectors of H/trace H.

    Raises:
        ArgumentError: The kernel has no spectrum (not finite, not symmetric, no positive trace), or
          `count` is out of bounds.
    """
    scaled, trace = scaled_to_trace_one(kernel)
    n = len(scaled)
    check_count("count", count)
    if count > n:
        raise ArgumentError(
            f"count is {count}, but a kernel of {n} examples has only {n} eigenvalues.",
            kind="out-of-bounds",
        )
    width = count + 10
    if 2 * width > n:  # too small for a Krylov step: use the whole space
        width = n
    generator = torch.Generator().manual_seed(0)
    start = torch.randn((n, width), generator=generator, dtype=torch.float64)
    values, vectors, error = torch.zeros(count), start, float("inf")
    for _ in range(MOST_ROUNDS):
        basis = _krylov_basis(scaled, vectors)
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


def _krylov_basis(kernel: Tensor, start: Tensor) -> Tensor:
    """Return an orthonormal basis of [S, KS, K²S, …], at most n columns."""
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
    """Compute ν = tr(Yᵀ Ĥ⁻¹ Y)/C of a kernel, Ĥ = H/trace H, without its spectrum.

    It equals `spectrum(kernel, targets, ridge).nu`, but is also feasible for large n: if every
    eigenvalue lies above the cut-off, or with a ridge, it takes one or two Cholesky factorisations,
    O(n³/3) each; a singular kernel is diagonalised (n = 5,000: about a minute on one core).

    Args:
        kernel: H, `(n, n)`.
        targets: ±1, `(n,)` or `(n, C)`.
        ridge: Ridge that is added to the eigenvalues of Ĥ.

    Returns:
        ν and how it was computed.

    Raises:
        ArgumentError: As for `spectrum`.
    """
    check_number("ridge", ridge)
    scaled, _ = scaled_to_trace_one(kernel)
    n = len(scaled)
    y = target_columns(targets, n).to("cpu", torch.float64)
    diagonal = scaled.diagonal().clone()
    cutoff = 0.0
    if ridge > 0:
        scaled.diagonal().add_(ridge)
    else:
        cutoff = eigenvalue_rounding(kernel, float(leading_spectrum(kernel, 1).eigenvalues[0]))
        scaled.diagonal().sub_(cutoff)
        # K − cutoff·I is positive definite exactly if every eigenvalue lies above the cut-off.
        if torch.linalg.cholesky_ex(scaled).info:
            whole = spectrum(kernel, targets)
            assert whole.nu_with_cutoff is not None
            return whole.nu_with_cutoff
        scaled.diagonal().copy_(diagonal)
    factor, failed = torch.linalg.cholesky_ex(scaled)
    if failed:
        raise ArgumentError(
            f"The ridge {ridge:.3g} is too small to invert the kernel scaled to trace 1.",
            kind="singular",
        )
    # ν = tr(Yᵀ Ĥ⁻¹ Y)/C
    value = float((y * torch.cholesky_solve(y, factor)).sum()) / y.shape[1]
    return Nu(value, n, cutoff, 0.0, ridge)


@dataclass(frozen=True)
class Nu(HtmlFields):
    """ν at trace 1, and how it was computed.

    Attributes:
        value: tr(Yᵀ(Ĥ + ridge·I)⁻¹Y)/C.
        rank: Number of eigenvalues above `cutoff`; n with a ridge.
        cutoff: Eigenvalues at or below it count as zero; 0 with a ridge.
        outside: Fraction of the targets' energy along the eigenvectors left out; 0 with a ridge.
        ridge: The ridge.
    """

    value: float
    rank: int
    cutoff: float
    outside: float
    ridge: float


@dataclass(frozen=True)
class Spectrum(HtmlFields):
    """The spectrum of Ĥ = H/trace H, float64; multiply by `trace` for the eigenvalues of H.

    The last four attributes are `None` without targets.

    Attributes:
        eigenvalues: In descending order, `(n,)`.
        cumulative: Cumulative energy, `(n,)`; its last entry is one.
        trace: trace H.
        rank: Number of eigenvalues above `cutoff`.
        cutoff: Eigenvalues at or below it count as zero.
        ridge: The ridge used for ν.
        effective_rank: (Σρ)²/Σρ².
        rho_min: Smallest eigenvalue.
        rho_max: Largest eigenvalue.
        nu: Σ_i alignment_i/(ρ̂_i + ridge) over eigenvalues above the cut-off; all of them with a
          ridge.
        outside: Fraction of the targets' energy below the cut-off, which is not in ν.
        alignment: Σ_c (u_iᵀy_c)²/C, `(n,)`.
        target_alignment: ⟨H, YYᵀ⟩/(‖H‖‖YYᵀ‖).
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
        """The e.c.d.f. of the eigenvalues: their cumulative sum in ascending order.

        Returns:
            The cumulative sums, `(n,)`.
        """
        return self.eigenvalues.flip(0).cumsum(0)

    @property
    def nu_with_cutoff(self) -> Nu | None:
        """ν with its cut-off or ridge.

        Returns:
            The value, or `None` without targets.
        """
        if self.nu is None or self.outside is None:
            return None
        if self.ridge > 0:
            return Nu(self.nu, len(self.eigenvalues), 0.0, 0.0, self.ridge)
        return Nu(self.nu, self.rank, self.cutoff, self.outside, 0.0)


@torch.no_grad()
def spectrum(kernel: Tensor, targets: Tensor | None = None, ridge: float = 0.0) -> Spectrum:
    """Compute all eigenvalues of a symmetric kernel; with targets also ν and the alignments.

    With Ĥ = H/trace H = Σ_i ρ̂_i u_i u_iᵀ,

        ν = tr(Yᵀ Ĥ⁻¹ Y)/C = Σ_i alignment_i/ρ̂_i,   alignment_i = Σ_c (u_iᵀ y_c)²/C.

    The cut-off is n · (rounding of the kernel's dtype) · ρ_max, or ten times the magnitude of the
    most negative eigenvalue if that is more, as for a kernel computed in float32 and stored in
    float64.

    Args:
        kernel: H, `(n, n)`.
        targets: ±1, `(n,)` or `(n, C)`.
        ridge: Ridge that is added to the eigenvalues of Ĥ in ν.

    Returns:
        The spectrum.

    Raises:
        ArgumentError: There is no spectrum (not finite, not symmetric, no positive trace) or no ν:
          an eigenvalue below −ρ_max/1,000, or a ridge that leaves one at or below zero.

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
    cutoff = max(eigenvalue_rounding(kernel, rho_max), -NOISE * rho_min)
    above_cutoff = values > cutoff
    nu = outside = target_alignment = alignment = None
    if targets is not None:
        y = target_columns(targets, n).to("cpu", torch.float64)
        _check_invertible(rho_min, rho_max, ridge)
        # alignment_i = Σ_c (u_iᵀy_c)²/C;  ν = Σ_i alignment_i/(ρ̂_i + ridge)
        alignment = (vectors.T @ y).square().sum(1) / y.shape[1]
        used = torch.ones_like(above_cutoff) if ridge > 0 else above_cutoff
        nu = float((alignment[used] / (values[used] + ridge)).sum())
        outside = float(alignment[~used].sum() / alignment.sum())
        target_alignment = float((values * alignment).sum() * y.shape[1]) / float(
            values.norm() * (y.T @ y).norm()
        )
    return Spectrum(
        eigenvalues=values,
        cumulative=values.cumsum(0),
        trace=trace,
        rank=int(above_cutoff.sum()),
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


def eigenvalue_rounding(kernel: Tensor, rho_max: float) -> float:
    """Return the size of eigenvalues that are lost to rounding.

    Args:
        kernel: The kernel, `(n, n)`.
        rho_max: Its largest eigenvalue.

    Returns:
        n · (rounding of the kernel's dtype) · ρ_max.
    """
    return len(kernel) * torch.finfo(kernel.dtype).eps * rho_max


def _check_invertible(rho_min: float, rho_max: float, ridge: float) -> None:
    """Raise `ArgumentError` if ν is not defined for these extreme eigenvalues."""
    if ridge > 0 and rho_min + ridge <= 0:
        raise ArgumentError(
            f"The ridge {ridge:.3g} is too small: scaled to trace 1, the kernel's smallest "
            f"eigenvalue is {rho_min:.3g}.",
            kind="singular",
        )
    if ridge == 0 and rho_min < -INDEFINITE * rho_max:
        raise ArgumentError(
            f"ν is not defined, because the kernel is not positive semi-definite (eigenvalues "
            f"from {rho_min:.3g} to {rho_max:.3g} at trace 1).",
            kind="singular",
        )


def scaled_to_trace_one(kernel: Tensor) -> tuple[Tensor, float]:
    """Scale a kernel to trace 1.

    Args:
        kernel: H, `(n, n)`.

    Returns:
        H/trace H, symmetrised, `(n, n)`, float64 on the CPU; and trace H.

    Raises:
        ArgumentError: The kernel is not finite, not symmetric, or has no positive trace.
    """
    check_kernel("kernel", kernel)
    if not bool(torch.isfinite(kernel).all()):
        raise ArgumentError(
            "The kernel contains NaN or infinity, so it has no spectrum.", kind="not-finite"
        )
    trace = float(kernel.diagonal().to(accumulator_dtype(kernel)).sum())
    if trace <= 0:
        raise ArgumentError(
            f"The kernel's trace is {trace:g}; a spectrum needs a positive trace.", kind="singular"
        )
    return symmetric_part(kernel.to("cpu", torch.float64) / trace), trace


def symmetric_part(kernel: Tensor) -> Tensor:
    """Remove the asymmetry that rounding leaves in a kernel.

    Args:
        kernel: K, `(n, n)`.

    Returns:
        (K + Kᵀ)/2.

    Raises:
        ArgumentError: It is more asymmetric than by rounding.
    """
    asymmetry, largest = float((kernel - kernel.T).abs().max()), float(kernel.abs().max())
    if asymmetry > ASYMMETRIC * largest:
        raise ArgumentError(
            f"The kernel is not symmetric: entries that should be equal differ by up to "
            f"{asymmetry / largest:.2g} of the largest entry. Expected the kernel of one set of "
            "examples, not a block K(x, other).",
            kind="not-symmetric",
        )
    return (kernel + kernel.T) / 2


def class_targets(labels: Tensor, classes: int) -> Tensor:
    """Convert class numbers to one-versus-rest targets.

    Args:
        labels: Class numbers from 0, `(n,)`.
        classes: Number of classes, at most 100,000; 1 (a network with one logit) means two.

    Returns:
        ±1, `(n, classes)`; for two classes `(n, 1)`, with +1 for class 1. float64.

    Raises:
        ArgumentError: A label is out of range.

    Examples:
        >>> class_targets(torch.tensor([0, 2, 1]), 3).tolist()
        [[1.0, -1.0, -1.0], [-1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]]
    """
    check_integer_tensor("labels", labels)
    check_count("classes", classes, 1, MOST_CLASSES)
    classes = max(classes, 2)
    if not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ArgumentError(f"labels must be between 0 and {classes - 1}.", kind="out-of-bounds")
    if classes == 2:
        return (2.0 * labels.to(torch.float64) - 1.0)[:, None]
    member = labels[:, None] == torch.arange(classes, device=labels.device)
    return 2.0 * member.to(torch.float64) - 1.0


def contradictory_examples(x: Tensor, labels: Tensor) -> Tensor:
    """Find examples that have the same input as another one, but a different label.

    No kernel of x can fit them, and ν at ridge 0 leaves out part of the targets.

    Args:
        x: Inputs, `(n, ...)`.
        labels: Class numbers, `(n,)`.

    Returns:
        Their indices in ascending order.

    Raises:
        ArgumentError: An argument is of the wrong type, or the lengths differ.
    """
    check_tensor("x", x)
    check_integer_tensor("labels", labels)
    if len(labels) != len(x):
        raise ArgumentError(
            f"Got {len(labels)} labels for {len(x)} examples of x.", kind="wrong-length"
        )
    _, group = torch.unique(x.flatten(1), dim=0, return_inverse=True)
    pair = torch.stack([group, labels.to(group)], dim=1)
    labels_of_group = torch.unique(pair, dim=0)[:, 0].bincount()
    indices: Tensor = (labels_of_group[group] > 1).nonzero()[:, 0]
    return indices


def target_columns(targets: Tensor, n: int) -> Tensor:
    """Return targets as columns.

    Args:
        targets: ±1, `(n,)` or `(n, C)`.
        n: Number of examples.

    Returns:
        The targets, `(n, C)`.

    Raises:
        ArgumentError: They are not n.
    """
    check_targets(targets, n)
    return targets[:, None] if targets.dim() == 1 else targets
