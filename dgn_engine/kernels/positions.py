"""Pairs of positions: what a layer, its gates and a pooling do to K (B, H, W, H', W').

Legend: B pairs of examples, one row example s against several s'; C channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.architecture import AveragePool, Conv
from dgn_engine.kernels.gram import accumulator


@dataclass(frozen=True)
class Gated:
    """The gates of a convolution for a row of pairs, and the max pooling behind it, if any."""

    mask: Tensor | None
    row: int
    columns: slice

    def times(self, gates: Tensor, K: Tensor) -> Tensor:
        """⟨G(s,·,p), G(s',·,p')⟩/C · K, and where a max pooling follows, its mask (one more gate
        per channel and window) and the sum over both windows."""
        channels = gates.shape[1]
        if self.mask is None:
            return K * (position_gram(gates, self.row, self.columns) / channels)
        chosen = gates.flatten(2).gather(2, self.mask.flatten(2))
        # Each window takes one position per channel, so pairs of windows are summed by channel:
        # K̂(q, q') = Σ_{c} G(s,c,a_c(q)) G(s',c,a'_c(q')) K(a_c(q), a'_c(q')).
        flat = K.reshape(K.shape[0], K.shape[1] * K.shape[2], -1)
        place, places = self.mask[self.row].flatten(1), self.mask[self.columns].flatten(2)
        one, many = chosen[self.row], chosen[self.columns]
        total = flat.new_zeros((flat.shape[0], place.shape[1], places.shape[2]))
        for c in range(channels):
            rows = flat[:, place[c]]
            wanted = places[:, c][:, None].expand(-1, rows.shape[1], -1)
            total += rows.gather(2, wanted) * one[c][None, :, None] * many[:, c][:, None]
        sides = self.mask.shape[2:]
        return (total / channels).reshape(-1, *sides, *sides)


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
