"""A weight layer's share of a tangent kernel, from its inputs and its deltas (KERNELS §4.1, §4.4).

Legend: n and m examples, c logits, P positions. How logits meet: 'total' is Σ_k K[k, k], (n, m);
'perclass' (c, n, m); 'full' (n, c, m, c).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from dgn_engine.architecture import Dense, Weighted
from dgn_engine.kernels.sweep import patches

Contraction = Literal["total", "perclass", "full"]


def layer_gram(layer: Weighted, bias: bool, one: Tensor, two: Tensor) -> Tensor | None:
    """A = Z Zᵀ (n, m) of a dense layer's inputs, plus one where a bias is trained.

    None for convolutions, whose share is not a Hadamard product.
    """
    if not isinstance(layer, Dense):
        return None
    gram = one @ two.T
    return gram + 1.0 if bias else gram


def side(layer: Weighted, bias: bool, inputs: Tensor, delta: Tensor) -> Tensor:
    """One block's half of the product: the deltas themselves (dense), or the per-example
    gradients (n, c, parameters) of a convolution, its bias included."""
    if isinstance(layer, Dense):
        return delta
    windows = patches(layer, inputs)
    flat = delta.flatten(3)
    gradients = torch.einsum("ncop,nip->ncoi", flat, windows).flatten(2)
    if bias:
        gradients = torch.cat([gradients, flat.sum(-1)], dim=2)
    return gradients


def share(gram: Tensor | None, one: Tensor, two: Tensor, how: Contraction) -> Tensor:
    """⟨one, two⟩ over the last axis, (n or 1, c, ·) with (m or 1, c, ·), times A where given."""
    match how:
        case "total":
            product = one.flatten(1) @ two.flatten(1).T
            return product if gram is None else gram * product
        case "perclass":
            product = one.transpose(0, 1) @ two.permute(1, 2, 0)
            return product if gram is None else gram * product
        case "full":
            (n, c, size), m = one.shape, two.shape[0]
            product = (one.reshape(-1, size) @ two.reshape(-1, size).T).reshape(n, c, m, c)
            return product if gram is None else gram[:, None, :, None] * product
