"""Pairs of positions: what a layer and a pooling do to K (B, H, W, H', W').

Legend: B pairs of examples, one row example s against several s'; C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.kernels.gram import accumulator
from dgn_engine.model.architecture import AveragePool, Conv


def both_windows(K: Tensor, node: AveragePool) -> Tensor:
    """Sum over both windows independently: path counts, the mean's 1/kernel² belongs to β."""
    for ends in ((1, 2, 3, 4), (3, 4, 1, 2)):
        K = K.permute(0, *ends)
        batch, high, wide = K.shape[0], K.shape[1], K.shape[2]
        maps = K.reshape(batch * high * wide, 1, *K.shape[3:])
        summed = F.avg_pool2d(maps, node.kernel, node.stride) * node.kernel**2
        K = summed.reshape(batch, high, wide, *summed.shape[2:])
        K = K if ends[0] == 1 else K.permute(0, 3, 4, 1, 2)
    return K


def total(K: Tensor) -> Tensor:
    """Σ over all p and p', (B,): what global pooling leaves."""
    return K.sum(dim=(1, 2, 3, 4), dtype=accumulator(K))


def same_place(K: Tensor) -> Tensor:
    """Σ over p = p', (B,): what flattening leaves."""
    return torch.einsum("byxyx->b", K.to(accumulator(K)))


def position_gram(maps: Tensor, row: int, columns: slice) -> Tensor:
    """⟨m(s,·,p), m(s',·,p')⟩ over channels: (B, H, W, H, W) for maps (n, C, H, W)."""
    height, width = maps.shape[2:]
    one = maps[row].flatten(1)
    many = maps[columns].flatten(2)
    gram = one.T @ many
    return gram.reshape(-1, height, width, height, width)


def box_sum(K: Tensor, node: Conv) -> Tensor:
    """Σ_r K[p+r; p'+r] over the window, for K (B, H, W, H', W'): separable in the two axes."""
    margin = node.padding
    if margin:
        K = _pad(K, margin, node.circular)
    for axis in (1, 2):
        K = _window_sum(K, axis, node.kernel, node.stride)
    return K


def _pad(K: Tensor, margin: int, circular: bool) -> Tensor:
    if not circular:
        return F.pad(K, (margin,) * 8)
    for axis in (1, 2, 3, 4):
        side = K.shape[axis]
        K = torch.cat([K.narrow(axis, side - margin, margin), K, K.narrow(axis, 0, margin)], axis)
    return K


def _window_sum(K: Tensor, axis: int, kernel: int, stride: int) -> Tensor:
    steps = (K.shape[axis] - kernel) // stride
    total: Tensor | None = None
    for offset in range(kernel):
        index = [slice(None)] * 5
        index[axis] = index[axis + 2] = slice(offset, offset + steps * stride + 1, stride)
        part = K[tuple(index)]
        total = part if total is None else total + part
    assert total is not None
    return total
