"""Gate overlaps: τ_l of one layer and Λ of the whole network (THEORY §3)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dgn_engine.kernels.normalise import Normalise, normalised, unit_diagonal
from dgn_engine.kernels.recursion import path_recursion
from dgn_engine.model.architecture import Architecture

__all__ = ["layer_overlap", "overlap", "unit_diagonal"]


def layer_overlap(gates: Tensor) -> Tensor:
    """τ_l = G_l G_lᵀ (n, n) for gates (n, w) or, averaged over positions, (n, C, H, W).

    For convolutions Σ_{c,p} G(s,c,p)G(s',c,p)/P: for display only, Λ does not factor into it.
    """
    flat = gates.flatten(1)
    positions = flat.shape[1] // gates.shape[1]
    return (flat @ flat.T) / positions


def overlap(
    architecture: Architecture,
    gates: Sequence[Tensor],
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
) -> Tensor:
    """Λ (n, n), float64: the NPK recursion with K_0 ≡ 1; Π_l τ_l for dense networks.

    `gates[l]` is (n, *gated_shapes[l]), after the wiring. 'none' counts active paths (per input
    unit) and overflows float64 only beyond 10³⁰⁸; 'width' divides each τ_l by its width. With
    max pooling its masks (`Trace.masks`) are needed too.
    """
    result = path_recursion(architecture, gates, masks=masks, by_width=normalise == "width")
    return normalised(result.kernel, normalise, result.widths)
