"""Batch normalisation of one network: as published where it makes gates, γ alone where it does not.

A network that gates itself, and a feature network, normalise each channel before its gate
(Ioffe & Szegedy 2015, arXiv:1502.03167). A value network under the gates of another is not
normalised: it keeps a learnable γ per channel, so that it stays linear in its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dgn_engine.model.architecture import Architecture, Conv
from dgn_engine.model.layer_parameters import NormParameters

EPSILON = 1e-5  # torch's own
MOMENTUM = 0.1


class BatchNorms(nn.Module):
    """γ, shift, running mean and variance of each normalised layer, (C,) each.

    `active`: normalise; else multiply by γ. `gathers`: by the statistics of each batch, which are
    gathered meanwhile; else by those gathered so far. Fresh, it changes nothing.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.widths = {
            place: layer.outputs
            for place, layer in enumerate(architecture.weighted)
            if isinstance(layer, Conv) and layer.normal
        }
        widths = self.widths.values()
        self.scales = nn.ParameterList([torch.ones(width) for width in widths])
        self.shifts = nn.ParameterList([torch.zeros(width) for width in widths])
        for place, width in self.widths.items():
            self.register_buffer(f"mean_{place}", torch.zeros(width))
            self.register_buffer(f"variance_{place}", torch.ones(width))
        self._order = {place: number for number, place in enumerate(self.widths)}
        self.active = True
        self.gathers = False

    def _of(self, place: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """γ, shift, mean and variance of a weight layer."""
        number = self._order[place]
        scale, shift = cast(Tensor, self.scales[number]), cast(Tensor, self.shifts[number])
        return (
            scale,
            shift,
            self.get_buffer(f"mean_{place}"),
            self.get_buffer(f"variance_{place}"),
        )

    def folded(
        self, place: int, weight: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Weight and bias that do the same by themselves, with the statistics gathered so far."""
        if place not in self.widths:
            return weight, bias
        scale, shift, mean, variance = self._of(place)
        if not self.active:
            return weight * scale[:, None, None, None], None if bias is None else bias * scale
        slope = scale * torch.rsqrt(variance + EPSILON)
        moved = -mean if bias is None else bias - mean
        return weight * slope[:, None, None, None], moved * slope + shift

    def parts(
        self, place: int, weight: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, NormParameters]:
        """Of a normalised layer: what multiplies its weight when it is folded, (C,), and what is
        trained of its normalisation."""
        scale, _, mean, variance = self._of(place)
        if not self.active:
            return scale, NormParameters((weight, bias), shift=False)
        root = torch.rsqrt(variance + EPSILON)
        moved = -mean if bias is None else bias - mean
        unit = weight * root[:, None, None, None], moved * root
        return scale * root, NormParameters(unit, shift=True)

    def by_batch(self, place: int, q: Tensor) -> Tensor:
        """What a weight layer makes, (n, C, H, W), by this batch's statistics; gathers them."""
        if place not in self.widths:
            return q
        scale, shift, mean, variance = self._of(place)
        return F.batch_norm(q, mean, variance, scale, shift, True, MOMENTUM, EPSILON)

    @torch.no_grad()
    def stands_for(self, place: int, bias: Tensor | None) -> bool:
        """Of a layer that was folded before: only a shift by its bias; whether it took that."""
        if place not in self.widths:
            return False
        scale, shift, mean, variance = self._of(place)
        scale.fill_(1.0)
        mean.zero_()
        variance.fill_(1.0 - EPSILON)
        if bias is None or not self.active:
            shift.zero_()
        else:
            shift.copy_(bias)
        return self.active

    @torch.no_grad()
    def reset(self) -> None:
        """As if nothing had been learnt or gathered."""
        for place in self.widths:
            for tensor, value in zip(self._of(place), (1.0, 0.0, 0.0, 1.0), strict=True):
                tensor.fill_(value)

    @torch.no_grad()
    def take(self, tensors: Mapping[str, Tensor]) -> None:
        """Everything from the `state_dict` of another; raises `KeyError` where it lacks one."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(tensors[name])
