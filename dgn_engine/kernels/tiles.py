"""Kernels row by row: tiles of bounded memory, and only the upper half where symmetric."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

TILE_ITEMS = 8 << 20  # numbers in one tile of rows
ROWS_AT_LEAST = 64  # fewer rows than this make the products of a tile slow


def row_tiles(n: int, row_items: int, spread: int = 1, symmetric: bool = True) -> Iterator[slice]:
    """Rows of a kernel of n examples, a tile at a time.

    Few enough for the budget, where each row holds `row_items` numbers, and where the kernel is
    symmetric few enough to skip most of the lower half; one example is `spread` matrix rows.
    """
    step = max(1, TILE_ITEMS // row_items)
    if symmetric:
        step = min(step, max(ROWS_AT_LEAST // spread, n // 8, 1))
    for top in range(0, n, step):
        yield slice(top, min(n, top + step))


def mirror(kernel: Tensor) -> None:
    """Copy the upper half of (..., n, n) onto the lower, in place."""
    n = kernel.shape[-1]
    for rows in row_tiles(n, n):
        kernel[..., rows.stop :, rows] = kernel[..., rows, rows.stop :].mT
        block = kernel[..., rows, rows]
        block.copy_(block.triu() + block.triu(1).mT)
