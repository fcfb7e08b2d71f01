"""Which parameters are behind the weight and bias that a layer works with: constants, γ, shifts."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class NormParameters:
    """A normalisation γ⊙u + shift of what a weight layer makes, its statistics constants.

    `unit`: weight and bias of the layer that makes u, where γ is trained; `shift`: it is trained.
    `scale` (outputs,) or (1,): what is behind multiplies by it; None: by 1.
    """

    unit: tuple[Tensor, Tensor | None] | None
    shift: bool
    scale: Tensor | None = None


@dataclass(frozen=True)
class LayerParameters:
    """Of a weight layer q = Wz + b: the parameters that W and b are made of.

    `bias`: a bias of its own is one. `scale` (outputs,) or (1,): W and b are so many times the
    weight and bias that are trained; None: they are these themselves. `weight`: it is trained; it
    is not where it is frozen, or where there is none (scaled channels).
    """

    bias: bool
    scale: Tensor | None = None
    norms: tuple[NormParameters, ...] = ()
    weight: bool = True

    @property
    def plain(self) -> bool:
        """Whether W and b are themselves what is trained."""
        return self.weight and self.scale is None and not self.norms

    @property
    def any_trained(self) -> bool:
        return self.weight or self.bias or bool(self.norms)
