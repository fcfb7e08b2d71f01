"""Exact path kernels block by block: a long computation in slices, with its share and its pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from dgn_engine.kernels.gram import KernelBlock, accumulator, mirror
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.path_kernels import Normalise, normalised
from dgn_engine.kernels.recursion import PathRecursion
from dgn_engine.kernels.walk import widths_outside_blocks
from dgn_engine.model.architecture import Architecture, Conv

Clock = Callable[[], float]


class PathBlocks:
    """H, or Λ where the inputs have no x^v, and S where they have sensitivities, pair by pair.

    `slices` goes on until every pair is done and yields about every `seconds`, but a pair is never
    divided; `kernel` and `sensitive` are there at its end. They are those of `neural_path_kernel`,
    `overlap` and `sensitive_overlap`; `by_width`: for their 'width'.
    """

    def __init__(
        self,
        architecture: Architecture,
        inputs: PathInputs,
        by_width: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        check_path_inputs(architecture, inputs)
        self._architecture, self._inputs, self._clock = architecture, inputs, clock
        self._by_width = by_width
        n = len(inputs.gates[0])
        self._whole = KernelBlock.whole(n)
        self._recursion: PathRecursion | None = None
        like = inputs.gates[0]
        self._kernel = torch.zeros((n, n), dtype=accumulator(like), device=like.device)
        self._derivative = None if inputs.sensitivities is None else torch.zeros_like(self._kernel)
        self._maps = any(isinstance(node, Conv) for node in architecture.nodes)
        self.pairs = n * (n + 1) // 2
        self.done = 0  # pairs
        self.seconds_per_pair = 0.0  # as measured; 0 before the first

    @property
    def seconds_left(self) -> float:
        """That the remaining pairs are expected to take, at the pace so far."""
        return self.seconds_per_pair * (self.pairs - self.done)

    @torch.no_grad()
    def slices(self, seconds: float = 0.3) -> Iterator[float]:
        """Compute what is left; yields the share that is done."""
        n = self._whole.rows.stop
        if self._recursion is None:
            self._recursion = PathRecursion(
                self._architecture, self._inputs, self._by_width, whole=self._whole
            )
        if not self._maps:  # dense layers: one product for all pairs
            self._take(self._whole)
            self.done = self.pairs
            yield 1.0
            return
        spent, counted = 0.0, 0
        for row in range(n):
            left = row
            while left < n:
                pace = spent / counted if counted else 0.0
                count = max(1, int(seconds / pace)) if pace else 1
                columns = slice(left, min(n, left + count))
                began = self._clock()
                self._take(KernelBlock(slice(row, row + 1), columns))
                took = self._clock() - began
                left = columns.stop
                self.done += columns.stop - columns.start
                if self.done > 1 or n == 1:  # the first pair makes what all share
                    spent, counted = spent + took, counted + columns.stop - columns.start
                    self.seconds_per_pair = spent / counted
                yield self.done / self.pairs

    def _take(self, block: KernelBlock) -> None:
        assert self._recursion is not None
        found = self._recursion.kernels(block)
        self._kernel[block.rows, block.columns] = found.kernel
        if self._derivative is not None and found.derivative is not None:
            self._derivative[block.rows, block.columns] = found.derivative

    def kernel(self, normalise: Normalise = "none") -> Tensor:
        """H or Λ (n, n), once every pair is done."""
        return self._normalised(self._kernel, normalise)

    def sensitive(self, normalise: Normalise = "none") -> Tensor:
        """S (n, n), once every pair is done."""
        assert self._derivative is not None
        return self._normalised(self._derivative, normalise)

    def _normalised(self, kernel: Tensor, normalise: Normalise) -> Tensor:
        assert self.done == self.pairs
        kernel = kernel.clone()
        mirror(kernel)
        widths = widths_outside_blocks(self._architecture)
        return normalised(kernel, normalise, widths)
