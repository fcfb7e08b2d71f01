"""Full-batch training of two layers without biases, one logit, ½ mean e² and weight decay."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Descent = Literal["sgd", "adam"]
Weights = tuple[Tensor, Tensor]  # of the hidden layer (m, d), of the logit (1, m)


def forward(x: Tensor, gates: Tensor | None, weights: Weights) -> Tensor:
    """Return the logit (n, 1) through given gates (n, m) or, without any, of a ReLU network."""
    q = x @ weights[0].T
    return (torch.relu(q) if gates is None else q * gates) @ weights[1].T


@torch.no_grad()
def train_two_layers(
    weights: Weights,
    x: Tensor,
    y: Tensor,
    gates: Tensor | None,
    *,
    optimiser: Descent,
    rate: float,
    steps: int,
    penalty: float = 0.0,
    anneal: bool = False,
) -> tuple[list[float], Weights]:
    """Minimise ½ mean e² + λ/2 ‖Θ‖² from these weights, which stay as they are.

    Args:
        weights: Those to begin with.
        x: Inputs (n, d), float64.
        y: Targets (n,).
        gates: Given gates (n, m), or None for ReLU.
        optimiser: 'sgd' (without momentum) or 'adam'.
        rate: Learning rate.
        steps: Number of steps.
        penalty: Weight decay λ.
        anneal: Whether the learning rate falls to zero along a cosine.

    Returns:
        The objective before each step and after the last, infinite once it overflows, and the
        final weights.
    """
    first, second = (weight.clone() for weight in weights)
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimiser]
    descent = make([first, second], lr=rate)
    curve: list[float] = []
    for step in range(steps + 1):
        q = x @ first.T
        opened = (q > 0).to(x.dtype) if gates is None else gates
        hidden = q * opened
        error = hidden @ second.T - y[:, None]
        norms = first.square().sum() + second.square().sum()
        curve.append(float(0.5 * (error.square().mean() + penalty * norms)))
        if not math.isfinite(curve[-1]):
            return curve[:-1] + [math.inf] * (steps + 2 - len(curve)), (first, second)
        if step < steps:
            first.grad = ((error @ second) * opened).T @ x / len(x) + penalty * first
            second.grad = error.T @ hidden / len(x) + penalty * second
            if anneal:
                descent.param_groups[0]["lr"] = (
                    0.5 * rate * (1 + math.cos(math.pi * step / max(steps, 1)))
                )
            descent.step()
    return curve, (first, second)
