"""The examples of every network of a stack: one copy where they are the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class StackedExamples:
    """Inputs (n, inputs) and labels (n,) of B networks.

    Rows are (m,) where every network is shown the same ones, (B, m) where each has its own.
    """

    def __init__(self, inputs: Sequence[Tensor], labels: Sequence[Tensor]) -> None:
        self._inputs = inputs
        self.one = all(x is inputs[0] for x in inputs)
        self._labels = torch.stack(list(labels))  # (B, n)
        self.examples = len(labels[0])

    def inputs(self, rows: Tensor) -> Tensor:
        """(m, inputs) where all networks see the same, else (B, m, inputs)."""
        if self.one:
            return self._inputs[0][rows]
        each = rows if rows.dim() == 2 else rows.expand(len(self._inputs), -1)
        return torch.stack([x[mine] for x, mine in zip(self._inputs, each, strict=True)])

    def labels(self, rows: Tensor) -> Tensor:
        if rows.dim() == 1:
            return self._labels[:, rows]
        return self._labels.gather(1, rows)
