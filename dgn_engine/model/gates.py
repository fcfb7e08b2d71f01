"""Hard, soft and open gates (theory §1), with the derivatives that kernels need."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Gate:
    """A gate function γ.

        hard:  γ(q) = 1{q > 0}
        soft:  γ(q) = (1 + ε)/(1 + exp(−βq))
        open:  γ(q) = 1 (DLN)

    Attributes:
        soft: Whether the gate is soft.
        beta: Steepness β of a soft gate.
        epsilon: ε of a soft gate.
        open: Whether the gate is always open.
    """

    soft: bool = False
    beta: float = 8.0
    epsilon: float = 0.0
    open: bool = False

    def __call__(self, q: Tensor) -> Tensor:
        """Compute γ(q); hard gates carry no gradient.

        Args:
            q: Pre-activations of any shape.

        Returns:
            Gate values, in the same shape.
        """
        if self.open:
            return torch.ones_like(q)
        if self.soft:
            value = torch.sigmoid(self.beta * q)
            return (1.0 + self.epsilon) * value if self.epsilon else value
        return (q > 0).to(q.dtype)

    def derivative(self, q: Tensor) -> Tensor:
        """Compute ∂γ/∂q = βγ(1 − γ/(1 + ε)); zero for hard and open gates.

        Args:
            q: Pre-activations of any shape.

        Returns:
            The derivative, in the same shape.
        """
        if self.open or not self.soft:
            return torch.zeros_like(q)
        # σ(−t) instead of 1 − σ(t), which rounds to 0 in float32 for t ≥ 17
        t = self.beta * q
        return (1.0 + self.epsilon) * self.beta * torch.sigmoid(t) * torch.sigmoid(-t)

    def slope_from_gate(self, values: Tensor) -> Tensor:
        """Compute ∂γ/∂q of a soft gate from its values, exactly as autograd does.

        It needs no sigmoid, and is 0 where a gate rounds to 1.

        Args:
            values: Gate values γ(q).

        Returns:
            The derivative, in the same shape.
        """
        return self.backpropagate_gate(torch.ones_like(values), values)

    def backpropagate_gate(self, delta: Tensor, values: Tensor) -> Tensor:
        """Compute ∂L/∂q = ∂L/∂γ · ∂γ/∂q of a soft gate from its values.

        Args:
            delta: ∂L/∂γ.
            values: Gate values γ(q).

        Returns:
            ∂L/∂q, in the same shape.
        """
        share = values / (1.0 + self.epsilon) if self.epsilon else values
        # γ = (1 + ε)σ(βq):  ∂γ/∂q = (1 + ε)β·σ(1 − σ), and sigmoid_backward gives δ·σ(1 − σ)
        passed: Tensor = torch.ops.aten.sigmoid_backward(delta, share)
        return passed.mul_(self.beta * (1.0 + self.epsilon))

    def sensitivity(self, q: Tensor, kappa: float = 0.1) -> Tensor:
        """Compute the sensitivity D of a gate (theory §5).

            soft:  D = ∂γ(q)
            hard:  D = 1{|q| < κ·rms(q)}, rms over the whole tensor
            open:  D = 0

        Args:
            q: Pre-activations of one layer, `(n, ...)`.
            kappa: κ.

        Returns:
            D, in the same shape.
        """
        if self.open:
            return torch.zeros_like(q)
        if self.soft:
            return self.derivative(q)
        rms = q.square().mean().sqrt()
        return (q.abs() < kappa * rms).to(q.dtype)


HARD = Gate(soft=False)


def slope_gate(q: Tensor, slope: Tensor) -> Tensor:
    """Compute the gate of a leaky, parametric or absolute-value unit: its slope.

    Args:
        q: Pre-activations, `(n, C, ...)`.
        slope: Slope for q ≤ 0, `(1,)` or `(C,)`; −1 for the absolute value.

    Returns:
        1 for q > 0, else the slope; for the absolute value 0 at q = 0. In the shape of `q`.
    """
    low = by_channel(slope, q)
    return torch.where(q > 0, 1.0, torch.where((q == 0) & (low == -1.0), 0.0, low))


def by_channel(numbers: Tensor, q: Tensor) -> Tensor:
    """Reshape numbers per channel for broadcasting.

    Args:
        numbers: `(1,)` or `(C,)`.
        q: Tensor `(n, C, ...)` to broadcast against.

    Returns:
        `(1, C, 1, ...)`, with as many axes as `q`.
    """
    return numbers.reshape(1, -1, *[1] * (q.dim() - 2))
