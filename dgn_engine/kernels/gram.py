"""The Gram matrix of the inputs, Σ = XXᵀ (THEORY §3)."""

from __future__ import annotations

import torch
from torch import Tensor

from dgn_engine.kernels.product import product


def accumulator(tensor: Tensor) -> torch.dtype:
    """The widest floating type of the tensor's device: float64, but float32 on Apple's MPS."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def input_gram(x: Tensor, other: Tensor | None = None) -> Tensor:
    """Σ[s, s'] = ⟨x_s, x_{s'}⟩ for x (n, ...); (n, n), or (n, m) against `other` (m, ...)."""
    rows = x.flatten(1)
    columns = rows if other is None else other.flatten(1)
    return product(rows, columns)
