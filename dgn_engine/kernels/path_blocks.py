"""Exact path kernels block by block: a long computation in slices, with progress and pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from dgn_engine.kernels.gram import KernelBlock, accumulator_dtype, mirror_upper_half
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.path_kernels import Normalise, normalise_kernel
from dgn_engine.kernels.recursion import PathRecursion
from dgn_engine.kernels.walk import widths_outside_blocks
from dgn_engine.model.architecture import Architecture, Conv

Clock = Callable[[], float]


class PathBlocks:
    """H (or Λ, without x^v), and S if there are sensitivities, computed pair by pair.

    `slices` runs until every pair is done and yields about every `seconds`; a single pair is never
    split. The results equal `neural_path_kernel`, `overlap` and `sensitive_overlap`.

    Args:
        architecture: The network.
        inputs: Gates, and x^v, masks and sensitivities as needed.
        by_width: Whether the kernels are for normalisation 'width'.
        clock: Source of time in seconds.

    Attributes:
        pairs: Number of pairs of examples.
        done: Number of pairs computed so far.
        seconds_per_pair: Measured pace; 0 while unknown (after the first pair at the earliest).
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
        self._whole = KernelBlock.all_pairs(n)
        self._recursion: PathRecursion | None = None
        like = inputs.gates[0]
        self._kernel = torch.zeros((n, n), dtype=accumulator_dtype(like), device=like.device)
        self._derivative = None if inputs.sensitivities is None else torch.zeros_like(self._kernel)
        self._maps = any(isinstance(node, Conv) for node in architecture.nodes)
        self.pairs = n * (n + 1) // 2
        self.done = 0  # pairs computed so far
        self.seconds_per_pair = 0.0  # measured; 0 before the first pair

    @property
    def seconds_left(self) -> float:
        """Expected time for the remaining pairs at the current pace.

        Returns:
            Seconds.
        """
        return self.seconds_per_pair * (self.pairs - self.done)

    @torch.no_grad()
    def slices(self, seconds: float = 0.3) -> Iterator[float]:
        """Compute the remaining pairs in slices.

        Args:
            seconds: Approximate duration of a slice.

        Yields:
            The fraction of the pairs that is done.
        """
        n = self._whole.rows.stop
        if self._recursion is None:
            self._recursion = PathRecursion(
                self._architecture, self._inputs, self._by_width, whole=self._whole
            )
        if not self._maps:  # dense layers: one product for all pairs
            self._compute_block(self._whole)
            self.done = self.pairs
            yield 1.0
            return
        spent, counted = 0.0, 0
        for row in range(n):
            start = row
            while start < n:
                pace = spent / counted if counted else 0.0
                count = max(1, int(seconds / pace)) if pace else 1
                columns = slice(start, min(n, start + count))
                began = self._clock()
                self._compute_block(KernelBlock(slice(row, row + 1), columns))
                took = self._clock() - began
                start = columns.stop
                self.done += columns.stop - columns.start
                if self.done > 1 or n == 1:  # the first pair also computes what all pairs share
                    spent, counted = spent + took, counted + columns.stop - columns.start
                    self.seconds_per_pair = spent / counted
                yield self.done / self.pairs

    def _compute_block(self, block: KernelBlock) -> None:
        """Compute one block and store it."""
        assert self._recursion is not None
        paths = self._recursion.block_kernels(block)
        self._kernel[block.rows, block.columns] = paths.kernel
        if self._derivative is not None and paths.derivative is not None:
            self._derivative[block.rows, block.columns] = paths.derivative

    def kernel(self, normalise: Normalise = "none") -> Tensor:
        """Return H (or Λ), once every pair is done.

        Args:
            normalise: Normalisation, as for `neural_path_kernel`.

        Returns:
            The kernel, `(n, n)`.
        """
        return self._normalise_symmetric(self._kernel, normalise)

    def sensitive_overlap(self, normalise: Normalise = "none") -> Tensor:
        """Return S, once every pair is done.

        Args:
            normalise: Normalisation, as for `neural_path_kernel`.

        Returns:
            The kernel, `(n, n)`.
        """
        assert self._derivative is not None
        return self._normalise_symmetric(self._derivative, normalise)

    def _normalise_symmetric(self, kernel: Tensor, normalise: Normalise) -> Tensor:
        """Mirror and normalise a copy of a kernel."""
        assert self.done == self.pairs
        kernel = kernel.clone()
        mirror_upper_half(kernel)
        widths = widths_outside_blocks(self._architecture)
        return normalise_kernel(kernel, normalise, widths)
