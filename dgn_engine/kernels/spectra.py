"""Spectra of kernels: eigenvalues, effective rank, ν and alignment with the targets (THEORY §7)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.kernels.gram import accumulator


@dataclass(frozen=True)
class Spectrum:
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


@torch.no_grad()
def spectrum(kernel: Tensor, targets: Tensor | None = None, ridge: float = 0.0) -> Spectrum:
    """Diagonalise a symmetric kernel (n, n); targets (n,) or (n, C) of ±1 add ν and alignment.

    The cut-off is n · (rounding of the kernel's own dtype) · ρ_max. Raises `UserError` where the
    kernel has no spectrum to show: not finite, or without a positive trace.
    """
    scaled, trace = scaled_to_trace_one(kernel)
    n = len(scaled)
    rounding = torch.finfo(kernel.dtype).eps
    values, vectors = torch.linalg.eigh(scaled)
    values, vectors = values.flip(0), vectors.flip(1)
    cutoff = n * rounding * float(values[0])
    kept = values > cutoff
    nu = outside = target_alignment = alignment = None
    if targets is not None:
        y = columns_of(targets, n).to("cpu", torch.float64)
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
        rho_min=float(values[-1]),
        rho_max=float(values[0]),
        nu=nu,
        outside=outside,
        alignment=alignment,
        target_alignment=target_alignment,
    )


def scaled_to_trace_one(kernel: Tensor) -> tuple[Tensor, float]:
    """Ĥ = H/trace H (n, n), symmetrised, float64 on the CPU; and the trace."""
    if kernel.dim() != 2 or kernel.shape[0] != kernel.shape[1]:
        raise UserError(f"A spectrum needs a square kernel; its shape is {tuple(kernel.shape)}.")
    if not bool(torch.isfinite(kernel).all()):
        raise UserError("The kernel holds values that are not finite; it has no spectrum.")
    trace = float(kernel.diagonal().to(accumulator(kernel)).sum())
    if trace <= 0:
        raise UserError(f"The kernel's trace is {trace:g}; a spectrum needs a positive one.")
    scaled = kernel.to("cpu", torch.float64) / trace
    return (scaled + scaled.T) / 2, trace


def class_targets(labels: Tensor, classes: int) -> Tensor:
    """One-versus-rest targets of ±1: (n, classes), or (n, 1) with class 1 as +1 for two classes.

    `labels` (n,) are class numbers from 0. `classes` 1 is a network with one logit: two classes.
    """
    classes = max(classes, 2)
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise UserError(f"The labels must lie between 0 and {classes - 1}.")
    if classes == 2:
        return (2.0 * labels.to(torch.float64) - 1.0)[:, None]
    member = labels[:, None] == torch.arange(classes, device=labels.device)
    return 2.0 * member.to(torch.float64) - 1.0


def columns_of(targets: Tensor, n: int) -> Tensor:
    """Targets (n,) or (n, C) as (n, C); refused where they are not n."""
    columns = targets[:, None] if targets.dim() == 1 else targets
    if columns.shape[0] != n:
        raise UserError(f"{columns.shape[0]} targets were given for a kernel of {n} examples.")
    return columns
