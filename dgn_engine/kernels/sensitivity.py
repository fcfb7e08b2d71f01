"""The sensitive overlap S: which paths are about to switch (THEORY §5)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dgn_engine.kernels.normalise import Normalise, normalised
from dgn_engine.kernels.overlap import layer_overlap
from dgn_engine.kernels.recursion import path_recursion
from dgn_engine.model.architecture import Architecture


def sensitive_overlap(
    architecture: Architecture,
    gates: Sequence[Tensor],
    sensitivities: Sequence[Tensor],
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
) -> Tensor:
    """S (n, n), float64: the derivative of Λ at ε = 0 under G_lG_lᵀ → G_lG_lᵀ + εD_lD_lᵀ.

    For dense networks Σ_l (D_lD_lᵀ) ⊙ Π_{l'≠l} τ_{l'}. Computed for every architecture with dual
    numbers in the recursion of Λ, O(d). `gates[l]`, `sensitivities[l]`: (n, *gated_shapes[l]).
    Max-pooling `masks` are held fixed.
    """
    result = path_recursion(
        architecture, gates, sensitivities=sensitivities, masks=masks, by_width=normalise == "width"
    )
    assert result.derivative is not None
    return normalised(result.derivative, normalise, result.widths)


def layer_sensitivity(sensitivities: Tensor) -> Tensor:
    """D_l D_lᵀ (n, n) of one layer, averaged over positions for convolutions."""
    return layer_overlap(sensitivities)
