"""Gate churn: how many gates switched between two moments (THEORY §5)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dgn_engine.errors import UserError

SIDE = 0.5  # a soft gate counts as open from here on


def gate_churn(before: Sequence[Tensor], after: Sequence[Tensor]) -> tuple[float, list[float]]:
    """Share of (example, unit) gates on the other side of ½ than before: in all, and by layer.

    `before[l]`, `after[l]`: gates of the same examples, (n, *gated_shapes[l]).
    Raises `UserError` where the shapes differ.
    """
    if [g.shape for g in before] != [g.shape for g in after]:
        raise UserError("Gate churn compares gates of the same examples and layers.")
    switched = [
        int(((now >= SIDE) != (then >= SIDE)).sum())
        for then, now in zip(before, after, strict=True)
    ]
    sizes = [gates.numel() for gates in after]
    by_layer = [count / size for count, size in zip(switched, sizes, strict=True)]
    return sum(switched) / max(sum(sizes), 1), by_layer
