"""Gates: the hard step, the soft sigmoid and the open gate of THEORY §1, with the derivatives
that kernels need."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Gate:
    """γ_r(q) = 1{q > 0} (hard), γ_sr(q) = (1+ε)/(1+exp(-βq)) (soft), or always 1 (open: DLN)."""

    soft: bool = False
    beta: float = 8.0
    epsilon: float = 0.0
    open: bool = False

    def __call__(self, q: Tensor) -> Tensor:
        """Gate values for pre-activations of any shape; hard gates carry no gradient."""
        if self.open:
            return torch.ones_like(q)
        if self.soft:
            made = torch.sigmoid(self.beta * q)
            return (1.0 + self.epsilon) * made if self.epsilon else made
        return (q > 0).to(q.dtype)

    def derivative(self, q: Tensor) -> Tensor:
        """∂γ/∂q = βγ(1 - γ/(1+ε)) for soft gates, zero for hard and open ones."""
        if self.open or not self.soft:
            return torch.zeros_like(q)
        # σ(-t) rather than 1 - σ(t), which is 0 in float32 from t = 17 on.
        t = self.beta * q
        return (1.0 + self.epsilon) * self.beta * torch.sigmoid(t) * torch.sigmoid(-t)

    def slope(self, made: Tensor) -> Tensor:
        """∂γ/∂q of soft gates of which the values are `made`, as autograd has it: no sigmoid is
        computed again, and where a gate rounds to 1 its slope is 0."""
        return self.through(torch.ones_like(made), made)

    def through(self, delta: Tensor, made: Tensor) -> Tensor:
        """∂L/∂q for ∂L/∂γ `delta`, of soft gates of which the values are `made`."""
        share = made / (1.0 + self.epsilon) if self.epsilon else made
        passed: Tensor = torch.ops.aten.sigmoid_backward(delta, share)
        return passed.mul_(self.beta * (1.0 + self.epsilon))

    def sensitivity(self, q: Tensor, kappa: float = 0.1) -> Tensor:
        """D of THEORY §5: ∂γ (soft), or 1{|q| < κ·rms(q)} (hard), rms over the whole layer;
        zero where gates stand open."""
        if self.open:
            return torch.zeros_like(q)
        if self.soft:
            return self.derivative(q)
        rms = q.square().mean().sqrt()
        return (q.abs() < kappa * rms).to(q.dtype)


HARD = Gate(soft=False)


def slope_gate(q: Tensor, slope: Tensor) -> Tensor:
    """The gate of a leaky, parametric or absolute-value unit is its slope: 1 where q > 0, else
    `slope`, (1,) or (C,) for q (n, C, ...); of the absolute value (-1) it is 0 at the kink."""
    low = by_channel(slope, q)
    return torch.where(q > 0, 1.0, torch.where((q == 0) & (low == -1.0), 0.0, low))


def by_channel(numbers: Tensor, q: Tensor) -> Tensor:
    """(1,) or (C,) numbers with the axes of q (n, C, ...)."""
    return numbers.reshape(1, -1, *[1] * (q.dim() - 2))
