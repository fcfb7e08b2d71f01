"""Weights side by side in one buffer: one update for all, one product for what they share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class FlatWeights:
    """Some parameters without a gap in a buffer, and the like for their gradients.

    `values` and `slopes`: the buffers, (numbers,); `gradients` are views of `slopes`, one for
    each of `parameters`.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], values: Tensor, slopes: Tensor) -> None:
        """The parameters become views of `values` and keep what they hold."""
        self.parameters = list(parameters)
        self.values, self.slopes = values, slopes
        for parameter, own in zip(parameters, self.views(values), strict=True):
            own.copy_(parameter.detach())
            parameter.data = own
        self.gradients = self.views(slopes)
        self._pointers = [parameter.data_ptr() for parameter in self.parameters]

    @property
    def intact(self) -> bool:
        """Whether the parameters still lie here: whoever packs networks moves them away."""
        return [parameter.data_ptr() for parameter in self.parameters] == self._pointers

    def views(self, flat: Tensor) -> list[Tensor]:
        """Of another buffer of this size, what belongs to each parameter."""
        pieces = torch.split(flat, [parameter.numel() for parameter in self.parameters])
        pairs = zip(pieces, self.parameters, strict=True)
        return [piece.view(parameter.shape) for piece, parameter in pairs]


@torch.no_grad()
def side_by_side(groups: Sequence[Sequence[nn.Parameter]]) -> list[FlatWeights]:
    """One buffer for all groups, one behind the other."""
    like = groups[0][0]
    lengths = [sum(parameter.numel() for parameter in group) for group in groups]
    values, slopes = (like.detach().new_zeros(sum(lengths)) for _ in range(2))
    pairs = zip(groups, torch.split(values, lengths), torch.split(slopes, lengths), strict=True)
    return [FlatWeights(*pair) for pair in pairs]


def joined(one: Tensor, two: Tensor) -> Tensor | None:
    """(a + b, k) over two matrices (a, k) and (b, k) of which the second lies behind the first, or
    None."""
    if one.shape[1] != two.shape[1] or _distance(one, two) != one.numel():
        return None
    return one.as_strided((len(one) + len(two), one.shape[1]), (one.shape[1], 1))


def stacked(matrices: Sequence[Tensor]) -> Tensor | None:
    """(l, a, b) over matrices of one shape that lie at even distances in one buffer, or None."""
    if not matrices or any(one.shape != matrices[0].shape for one in matrices):
        return None
    first = matrices[0]
    distances = {_distance(one, two) for one, two in pairwise(matrices)} or {first.numel()}
    distance = distances.pop()
    if distances or distance is None:
        return None
    return first.as_strided((len(matrices), *first.shape), (distance, *first.stride()))


def _distance(one: Tensor, two: Tensor) -> int | None:
    """Numbers from the begin of one to that of another in the same buffer."""
    if one.untyped_storage().data_ptr() != two.untyped_storage().data_ptr():
        return None
    return int(two.storage_offset() - one.storage_offset())
