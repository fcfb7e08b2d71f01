"""Products of examples with examples, A Bᵀ, by the faster library and in tiles of rows."""

from __future__ import annotations

import timeit
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dgn_engine.kernels.arguments import check_inputs, check_tensor
from dgn_engine.kernels.precision import full_precision

Indices = npt.NDArray[np.int64]

WORTH_IT = 1.2  # oneDNN is used if it is at least this much faster than the BLAS
TILE_ITEMS = 8 << 20  # numbers in one tile of rows
ROWS_AT_LEAST = 64  # a product of fewer rows than this is slow
ROWS_ON_A_CARD = 1024  # the same on a GPU; not tuned (64 took twice as long on an H100 at n = 200)


def accumulator_dtype(tensor: Tensor) -> torch.dtype:
    """Return the widest floating dtype of a tensor's device.

    Args:
        tensor: Any tensor.

    Returns:
        float64, or float32 on Apple's MPS.
    """
    return torch.float32 if tensor.device.type == "mps" else torch.float64


@full_precision
def input_gram(x: Tensor, other: Tensor | None = None) -> Tensor:
    """Compute the Gram matrix of inputs, Σ[s, s'] = ⟨x_s, x_{s'}⟩.

    Args:
        x: Inputs, `(n, ...)`.
        other: Second set of inputs, `(m, ...)`.

    Returns:
        Σ, `(n, n)` or `(n, m)`, in the dtype of `x`.

    Raises:
        ArgumentError: An argument is not a finite float tensor, or the shapes differ.
    """
    check_tensor("x", x)
    if other is not None:
        check_inputs("other", other, tuple(x.shape[1:]), like=x)
    return flat_gram(x, other)


def flat_gram(x: Tensor, other: Tensor | None = None) -> Tensor:
    """Compute `input_gram` without argument checks.

    Args:
        x: Inputs, `(n, ...)`.
        other: Second set of inputs, `(m, ...)`, or `None`.

    Returns:
        Σ, `(n, n)` or `(n, m)`.
    """
    return gram_product(x.flatten(1), (x if other is None else other).flatten(1))


def gram_product(one: Tensor, two: Tensor, buffer: Tensor | None = None) -> Tensor:
    """Compute one @ two.T, with oneDNN if that is faster here.

    Args:
        one: Matrix, `(n, k)`, of any floating dtype and device.
        two: Matrix, `(m, k)`.
        buffer: Buffer `(n, m)` that may be used for the result, which saves page faults.

    Returns:
        The product, `(n, m)`.
    """
    if one.dtype == torch.float32 and one.device.type == "cpu" and onednn_is_faster():
        return _onednn_product(one.contiguous(), two.contiguous())
    return one @ two.T if buffer is None else torch.mm(one, two.T, out=buffer)


def _onednn_product(one: Tensor, two: Tensor) -> Tensor:
    """Compute one @ two.T with oneDNN."""
    # A private operator, the only single-threaded access to oneDNN's matrix product; it is tested
    # against the BLAS before use.
    result: Tensor = torch.ops.mkldnn._linear_pointwise(one, two, None, "none", [], "")
    return result


@cache
def onednn_is_faster() -> bool:
    """Time once per process whether oneDNN multiplies float32 clearly faster than the BLAS.

    Returns:
        `True` if it is at least 1.2 times as fast; takes 10 ms.
    """
    sample = torch.full((256, 512), 0.5)
    try:
        if not torch.equal(_onednn_product(sample, sample), sample @ sample.T):
            return False
    except (AttributeError, RuntimeError):
        return False
    onednn = min(timeit.repeat(lambda: _onednn_product(sample, sample), number=1))
    blas = min(timeit.repeat(lambda: sample @ sample.T, number=1))
    return blas > WORTH_IT * onednn


@dataclass(frozen=True)
class KernelBlock:
    """The pairs of examples that are wanted: `rows` with `columns`.

    If both are the same examples, the block is symmetric and its upper half is enough.
    """

    rows: slice
    columns: slice

    @staticmethod
    def all_pairs(n: int) -> KernelBlock:
        """Return the symmetric block of all pairs.

        Args:
            n: Number of examples.

        Returns:
            The block.
        """
        return KernelBlock(slice(0, n), slice(0, n))

    @property
    def is_symmetric(self) -> bool:
        """Return whether rows and columns are the same examples.

        Returns:
            `True` for equal slices.
        """
        return self.rows == self.columns

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the block.

        Returns:
            Numbers of rows and columns.
        """
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    def first_column(self, row: int) -> int:
        """Return the first column that is needed for a row.

        Args:
            row: Index of the example.

        Returns:
            `row` itself in a symmetric block, else the block's first column.
        """
        return row if self.is_symmetric else self.columns.start

    def row_stretches(self, limit: int) -> Iterator[tuple[int, slice]]:
        """Split each row into slices of columns; of a symmetric block, the upper half only.

        Args:
            limit: Maximum number of columns per slice.

        Yields:
            Row and slice of columns, as indices of examples.
        """
        end = self.columns.stop
        for row in range(self.rows.start, self.rows.stop):
            for start in range(self.first_column(row), end, limit):
                yield row, slice(start, min(end, start + limit))

    def pair_groups(self, limit: int) -> Iterator[tuple[Indices, Indices]]:
        """Split the pairs into groups; those of a symmetric block, of the upper half only.

        Args:
            limit: Maximum number of pairs per group.

        Yields:
            First and second examples of the pairs, as indices of examples.
        """
        n, m = self.shape
        row, column = np.triu_indices(n) if self.is_symmetric else np.divmod(np.arange(n * m), m)
        for start in range(0, len(row), limit):
            group = slice(start, start + limit)
            yield row[group] + self.rows.start, column[group] + self.columns.start

    def local_columns(self, columns: slice) -> slice:
        """Convert columns from indices of examples to indices into the block.

        Args:
            columns: Slice of examples.

        Returns:
            The slice within the block.
        """
        return slice(columns.start - self.columns.start, columns.stop - self.columns.start)


def rows_at_least(device: torch.device) -> int:
    """Return the number of rows from which a product on this device is fast.

    Args:
        device: The device.

    Returns:
        64 on a CPU, 1024 on a GPU.
    """
    return ROWS_ON_A_CARD if device.type == "cuda" else ROWS_AT_LEAST


def row_tiles(
    n: int, row_items: int, device: torch.device, symmetric: bool = True
) -> Iterator[slice]:
    """Split the rows of a kernel into tiles of bounded memory.

    Args:
        n: Number of rows.
        row_items: Numbers held per row.
        device: Device of the kernel.
        symmetric: Whether tiles must also be small enough to skip most of the lower half.

    Yields:
        Slices of rows.
    """
    step = max(1, TILE_ITEMS // row_items)
    if symmetric:
        step = min(step, max(rows_at_least(device), n // 8, 1))
    for top in range(0, n, step):
        yield slice(top, min(n, top + step))


def mirror_upper_half(kernel: Tensor) -> None:
    """Copy the upper half of a matrix onto the lower one, in place.

    Args:
        kernel: Matrices, `(..., n, n)`.
    """
    n = kernel.shape[-1]
    for rows in row_tiles(n, n, kernel.device):
        kernel[..., rows.stop :, rows] = kernel[..., rows, rows.stop :].mT
        block = kernel[..., rows, rows]
        block.copy_(block.triu() + block.triu(1).mT)
