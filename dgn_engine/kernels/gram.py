"""Matrix products of examples with examples, A Bᵀ: by the faster library, in tiles of rows."""

from __future__ import annotations

import timeit
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from dgn_engine.kernels.arguments import check_inputs, check_tensor
from dgn_engine.kernels.precision import full_precision

WORTH_IT = 1.2  # oneDNN is used where it is at least this much faster than the BLAS
TILE_ITEMS = 8 << 20  # numbers in one tile of rows
ROWS_AT_LEAST = 64  # fewer rows than this make the products of a tile slow
ROWS_ON_A_CARD = 1024  # not tuned; with 64, n = 200 took twice as long on an H100


def accumulator(tensor: Tensor) -> torch.dtype:
    """The widest floating type of the tensor's device: float64, but float32 on Apple's MPS."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


@full_precision
def input_gram(x: Tensor, other: Tensor | None = None) -> Tensor:
    """Σ[s, s'] = ⟨x_s, x_{s'}⟩ for x (n, ...); (n, n), or (n, m) against `other` (m, ...)."""
    check_tensor("x", x)
    if other is not None:
        check_inputs("other", other, tuple(x.shape[1:]), like=x)
    return flat_gram(x, other)


def flat_gram(x: Tensor, other: Tensor | None = None) -> Tensor:
    """`input_gram` without its checks, for each tile."""
    return product(x.flatten(1), (x if other is None else other).flatten(1))


def product(one: Tensor, two: Tensor, into: Tensor | None = None) -> Tensor:
    """one @ two.T for matrices (n, k) and (m, k), any float type and device.

    `into` (n, m) may be used for the result: fresh memory costs page faults.
    """
    if one.dtype == torch.float32 and one.device.type == "cpu" and onednn_is_faster():
        return _onednn(one.contiguous(), two.contiguous())
    return one @ two.T if into is None else torch.mm(one, two.T, out=into)


def _onednn(one: Tensor, two: Tensor) -> Tensor:
    # A private operator, the only single-threaded road to oneDNN's product: tried, never trusted.
    result: Tensor = torch.ops.mkldnn._linear_pointwise(one, two, None, "none", [], "")
    return result


@cache
def onednn_is_faster() -> bool:
    """Whether oneDNN multiplies float32 clearly faster here: timed once per process, 10 ms."""
    sample = torch.full((256, 512), 0.5)
    try:
        if not torch.equal(_onednn(sample, sample), sample @ sample.T):
            return False
    except (AttributeError, RuntimeError):
        return False
    onednn = min(timeit.repeat(lambda: _onednn(sample, sample), number=1))
    blas = min(timeit.repeat(lambda: sample @ sample.T, number=1))
    return blas > WORTH_IT * onednn


@dataclass(frozen=True)
class KernelBlock:
    """Which pairs of the examples given are wanted: `rows` with `columns`. Where they are the
    same examples the block is symmetric, and its upper half is enough."""

    rows: slice
    columns: slice

    @staticmethod
    def whole(n: int) -> KernelBlock:
        return KernelBlock(slice(0, n), slice(0, n))

    @property
    def symmetric(self) -> bool:
        return self.rows == self.columns

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    def first_column(self, row: int) -> int:
        """Where the pairs of example `row` begin."""
        return row if self.symmetric else self.columns.start

    def stretches(self, most: int) -> Iterator[tuple[int, slice]]:
        """Each row with `most` of its columns at a time; of a symmetric block the upper half."""
        end = self.columns.stop
        for row in range(self.rows.start, self.rows.stop):
            for left in range(self.first_column(row), end, most):
                yield row, slice(left, min(end, left + most))

    def column_places(self, columns: slice) -> slice:
        return slice(columns.start - self.columns.start, columns.stop - self.columns.start)


def rows_at_least(device: torch.device) -> int:
    """Rows of which a product on this device is not slow."""
    return ROWS_ON_A_CARD if device.type == "cuda" else ROWS_AT_LEAST


def row_tiles(
    n: int, row_items: int, device: torch.device, symmetric: bool = True
) -> Iterator[slice]:
    """Rows of a kernel of n examples, a tile at a time.

    Few enough for the budget, where each row holds `row_items` numbers, and where the kernel is
    symmetric few enough to skip most of the lower half.
    """
    step = max(1, TILE_ITEMS // row_items)
    if symmetric:
        step = min(step, max(rows_at_least(device), n // 8, 1))
    for top in range(0, n, step):
        yield slice(top, min(n, top + step))


def mirror(kernel: Tensor) -> None:
    """Copy the upper half of (..., n, n) onto the lower, in place."""
    n = kernel.shape[-1]
    for rows in row_tiles(n, n, kernel.device):
        kernel[..., rows.stop :, rows] = kernel[..., rows, rows.stop :].mT
        block = kernel[..., rows, rows]
        block.copy_(block.triu() + block.triu(1).mT)
