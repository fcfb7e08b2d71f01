"""The tangent kernel of any module, with or without gates.

It contracts the module's Jacobian in blocks of examples and logits that fit a memory budget.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from dgn_engine.errors import ArgumentError, Hint, Where
from dgn_engine.kernels.arguments import check_choice, check_count, check_finite, check_module
from dgn_engine.kernels.gram import ROWS_AT_LEAST, accumulator_dtype, gram_product
from dgn_engine.kernels.jacobian_rows import ModuleFunction, Rows, as_real
from dgn_engine.kernels.ntk import Logits
from dgn_engine.kernels.precision import full_precision

UNIT = Hint("")  # unit of the bytes that K needs; implied by the argument's name
BUDGET = 4 << 30
PIECE_BYTES = 256 << 20  # memory of one vectorised call; larger calls are not faster
_PART = 1 << 14  # numbers of a row that are summed in the rows' own dtype
WORKING = 2 << 20  # constant overhead, for example of timing a product


@dataclass(frozen=True)
class EmpiricalKernel:
    """The tangent kernel of a module, with remarks.

    Attributes:
        kernel: K in one of the shapes of `empirical_ntk`.
        remark: How it was computed, if a reader should know, or ''.
        outputs: Which outputs of the module it belongs to, if that is not obvious, or ''.
    """

    kernel: Tensor
    remark: str
    outputs: str


@dataclass(frozen=True)
class _Chunk:
    """Rows of one side that are contracted together."""

    examples: slice
    logits: slice

    def split_examples(self, size: int) -> Iterator[_Chunk]:
        """Yield its examples in order, `size` at a time."""
        start, stop = self.examples.start, self.examples.stop
        for first in range(start, stop, size):
            yield _Chunk(slice(first, min(first + size, stop)), self.logits)


@dataclass(frozen=True)
class _Blocks:
    """Numbers of examples and logits held at once, and number of examples per call."""

    examples: int
    logits: int
    piece: int


@full_precision
def empirical_ntk(
    module: nn.Module,
    x: Tensor,
    other: Tensor | None = None,
    logits: Logits = "mean",
    budget_bytes: int = BUDGET,
) -> Tensor:
    """Compute the empirical tangent kernel of any module in evaluation mode.

        K[s, k, s', k'] = ⟨∂ŷ_k(x_s)/∂θ, ∂ŷ_k'(x_s')/∂θ⟩

    with θ all parameters that require gradients, a tied one counted once (theory §4). No gates are
    needed, so it works for GELU, attention and LayerNorm. For a network that `adapt` supports,
    `tangent_kernels` computes the same kernel faster, together with its parts.

    The rows of the Jacobian are computed in chunks of examples and logits such that the memory
    beyond `x`, `other` and the module stays below `budget_bytes`, the kernel included; a tight
    budget recomputes rows instead. If `torch.func` cannot vectorise the module (data-dependent
    control flow, a GRU), a loop of backward passes gives the same result, with a `RuntimeWarning`.

    ŷ is what the module returns: if it ends with a softmax or log_softmax, K is that of
    probabilities or their logarithms. `adapt`, `dgn kernels` and `dgn.watch` skip that layer and
    report it; here, pass the module without it.

    Args:
        module: The module. It returns `(n, C)`, or `(n,)` for one logit, or an object that contains
          one such tensor as attribute or key 'logits' or as the only item of a tuple.
        x: Inputs, `(n, ...)`, floating point or integer.
        other: Second set of inputs, `(m, ...)`. If `None`, `x` is compared with itself.
        logits: 'mean' for Σ_k K[k, k]/C, 'sumlogit' for the kernel of Σ_k ŷ_k, 'perclass' for the
          pairs k = k', 'full' for all pairs of logits.
        budget_bytes: Memory limit in bytes. Default: 4 GiB.

    Returns:
        K in the dtype of the parameters, but at least float32: `(n, m)` for 'mean' and 'sumlogit',
        `(C, n, m)` for 'perclass', `(n, C, m, C)` for 'full'. A complex parameter counts as its
        real and imaginary parts, so K is real.

    Raises:
        ValueError: The module is not a function of single examples (BatchNorm or Dropout in
          training mode, random, coupling a batch, changing its buffers), trains nothing, returns
          something else, or the budget is too small (the message gives the bytes needed).

    References:
        Novak, Sohl-Dickstein, Schoenholz 2022, arXiv:2206.08720, 'Jacobian contraction'.

    Examples:
        For a linear model without bias, K is the Gram matrix of its inputs:

        >>> x = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
        >>> empirical_ntk(nn.Linear(2, 1, bias=False).eval(), x).tolist()
        [[5.0, 2.0], [2.0, 1.0]]
    """
    result = module_kernel(module, x, other, logits, budget_bytes)
    if result.remark:
        warnings.warn(result.remark, RuntimeWarning, stacklevel=2)
    return result.kernel


@full_precision
def module_kernel(
    module: nn.Module,
    x: Tensor,
    other: Tensor | None,
    logits: Logits,
    budget_bytes: int,
    before_softmax: bool = False,
) -> EmpiricalKernel:
    """Compute `empirical_ntk`, returning remarks as text instead of warning.

    Args:
        module: As for `empirical_ntk`.
        x: Inputs, `(n, ...)`.
        other: Second set of inputs, `(m, ...)`, or `None`.
        logits: As for `empirical_ntk`.
        budget_bytes: Memory limit in bytes.
        before_softmax: Whether to use the inputs of a softmax or log_softmax that ends the module.

    Returns:
        The kernel and the remarks.

    Raises:
        ValueError: As for `empirical_ntk`.
    """
    check_module("module", module)
    check_choice("logits", logits, Logits)
    check_count("budget_bytes", budget_bytes, 0)
    for name, side in (("x", x), ("other", other)):
        if side is not None:
            _check_examples(name, side, module)
    probe = other if other is not None and len(x) == 1 else x
    _enter_context(x.device)
    function = ModuleFunction(module, probe, before_softmax)
    with function.restore_attributes(), torch.no_grad():
        kernel = _Contraction(function, x, other, logits, budget_bytes).contract_kernel()
    return EmpiricalKernel(kernel, function.remark, function.outputs)


class _Contraction:
    """The computation of one kernel: function, both sides and the blocks that fit the budget."""

    def __init__(
        self, function: ModuleFunction, x: Tensor, other: Tensor | None, logits: Logits, budget: int
    ) -> None:
        self.function, self.logits = function, logits
        self.x, self.other, self.same = x, x if other is None else other, other is None
        classes = function.classes
        self.basis = torch.eye(classes, dtype=function.output.dtype, device=x.device)
        if logits == "sumlogit":
            self.basis = self.basis.sum(0, keepdim=True)
        n, m = len(self.x), len(self.other)
        shapes = {"full": (n, classes, m, classes), "perclass": (classes, n, m)}
        self.shape = shapes.get(logits, (n, m))
        self.dtype = torch.float32  # at least, because sums in half precision lose too much
        for parameter in function.parameters.values():
            self.dtype = torch.promote_types(self.dtype, as_real(parameter).dtype)
        self.blocks = self._plan_blocks(budget)

    def contract_kernel(self) -> Tensor:
        """Compute the kernel, in the shape that `logits` asks for."""
        total = torch.zeros(self.shape, dtype=self.dtype, device=self.x.device)
        sides = (self._chunk_lists(len(self.x)), self._chunk_lists(len(self.other)))
        for lefts, rights in zip(*sides, strict=True):
            for index, left in enumerate(lefts):
                left_rows = self._chunk_rows(left)
                if self.same:
                    self._add_square(total, left, left_rows)
                for right in rights[index + 1 :] if self.same else rights:
                    for piece in right.split_examples(self.blocks.piece):
                        rows = self._piece_rows(self.other, piece)
                        self._add_products(total, left, piece, left_rows, rows, mirrored=self.same)
                        del rows  # free them before the next ones are computed
                del left_rows
        return total.div_(self.function.classes) if self.logits == "mean" else total

    def _plan_blocks(self, budget: int) -> _Blocks:
        """Choose the block sizes: all examples first, then all logits, as far as their rows fit.

        Raises `ArgumentError` if the budget does not hold one row and the computation of another.
        """
        n, row, cost = len(self.x), self.function.row_bytes, self.function.measure_cost(self.x)
        per_row = cost.each + 2 * cost.copied  # a row, plus two copies that a product makes of it
        size = math.prod(self.shape) * self.dtype.itemsize
        reserved = 2 * size + WORKING  # the kernel, and a block of it in progress
        available = budget - reserved
        least = max(
            row + cost.fixed + per_row, 2 * (cost.fixed + cost.each)
        )  # measuring the cost takes two rows
        if available < least:
            raise ArgumentError(
                Where("budget_bytes")
                + " is "
                + Hint(f"{budget:,}")
                + f"; K of {n:,} examples needs at least {reserved + least:,}"
                + UNIT
                + f" ({size:,} for K itself).",
                value=budget,
                kind="too-large",
            )
        examples, logits = n, min(len(self.basis), (available - cost.fixed) // (n * row + per_row))
        if logits < 1:
            logits = 1
            examples = max(1, min(available * 3 // 4, available - cost.fixed - per_row) // row)
        call = cost.fixed + logits * per_row
        free = min(available - examples * logits * row, max(PIECE_BYTES, call))
        return _Blocks(examples, logits, max(1, free // call))

    def _chunk_lists(self, n: int) -> list[list[_Chunk]]:
        """Return lists of chunks to combine: one per slice of logits, or one for 'full'."""
        examples, logits = self.blocks.examples, self.blocks.logits
        slices = [
            [
                _Chunk(slice(s, min(s + examples, n)), slice(k, min(k + logits, len(self.basis))))
                for s in range(0, n, examples)
            ]
            for k in range(0, len(self.basis), logits)
        ]
        every = [chunk for chunks in slices for chunk in chunks]
        return [every] if self.logits == "full" else slices

    def _piece_rows(self, x: Tensor, chunk: _Chunk) -> Rows:
        """Compute the rows of one piece."""
        return self.function.compute_rows(x[chunk.examples], self.basis[chunk.logits])

    def _chunk_rows(self, chunk: _Chunk) -> Rows:
        """Compute all rows of a chunk of `x`, piece by piece, into buffers `(b, c, ...)`.

        In mode 'perclass', memory is ordered by logit, since logits are contracted one by one.
        """
        b, c = _slice_length(chunk.examples), _slice_length(chunk.logits)
        buffers: Rows = {}
        for name, parameter in self.function.parameters.items():
            p = as_real(parameter)
            if self.logits == "perclass":
                buffers[name] = p.new_empty((c, b, *p.shape)).transpose(0, 1)
            else:
                buffers[name] = p.new_empty((b, c, *p.shape))
        for piece in chunk.split_examples(self.blocks.piece):
            first = piece.examples.start - chunk.examples.start
            rows = self._piece_rows(self.x, piece)
            for name, row in rows.items():
                buffers[name][first : first + len(row)] = row
            del rows, row  # free them before the next ones are computed
        return buffers

    def _add_square(self, total: Tensor, chunk: _Chunk, chunk_rows: Rows) -> None:
        """Contract a chunk with itself: tiles on and above the diagonal, mirrored below."""
        start = chunk.examples.start
        tile = min(self.blocks.piece, max(ROWS_AT_LEAST, _slice_length(chunk.examples) // 8))
        for columns in chunk.split_examples(tile):
            first, stop = columns.examples.start - start, columns.examples.stop - start
            rows = {name: row[first:stop] for name, row in chunk_rows.items()}
            self._add_products(total, columns, columns, rows, rows)
            if first:
                above = _Chunk(slice(start, columns.examples.start), chunk.logits)
                before = {name: row[:first] for name, row in chunk_rows.items()}
                self._add_products(total, above, columns, before, rows, mirrored=True)

    def _add_products(
        self,
        total: Tensor,
        left: _Chunk,
        right: _Chunk,
        one: Rows,
        two: Rows,
        mirrored: bool = False,
    ) -> None:
        """Add the products of the rows of two chunks to the kernel; mirror them if requested."""
        s, k, t, q = left.examples, left.logits, right.examples, right.logits
        for name, row in one.items():
            a, b = row.flatten(2).to(self.dtype), two[name].flatten(2).to(self.dtype)
            match self.logits:
                case "full":
                    part = _row_products(a.flatten(0, 1), b.flatten(0, 1))
                    total[s, k, t, q] += part.reshape(*a.shape[:2], *b.shape[:2])
                case "perclass":
                    for index in range(_slice_length(k)):
                        total[k.start + index, s, t] += _row_products(a[:, index], b[:, index])
                case _:
                    total[s, t] += _row_products(a.flatten(1), b.flatten(1))
        if mirrored:
            match self.logits:
                case "full":
                    total[t, q, s, k] = total[s, k, t, q].permute(2, 3, 0, 1)
                case "perclass":
                    total[k, t, s] = total[k, s, t].transpose(1, 2)
                case _:
                    total[t, s] = total[s, t].T


def _row_products(one: Tensor, two: Tensor) -> Tensor:
    """Return one @ two.T, avoiding oneDNN for few rows, which it pads to 64.

    For a few rows, a BLAS accumulates each entry in a single float32: for the 23 million numbers
    per row of a ResNet-18 layer with ten logits that is off by 1e-3. Summing parts in float64 is
    not.
    """
    if min(len(one), len(two)) >= ROWS_AT_LEAST:
        return gram_product(one, two)
    total = torch.zeros((len(one), len(two)), dtype=accumulator_dtype(one), device=one.device)
    for left, right in zip(torch.split(one, _PART, 1), torch.split(two, _PART, 1), strict=True):
        total += left @ right.T
    return total.to(one.dtype)


@cache
def _enter_context(device: torch.device) -> None:
    """Make autograd's worker thread enter the CUDA context by launching a kernel.

    If its first operation is a matrix product, torch warns that there is no context.
    """
    if device.type == "cuda":
        with torch.enable_grad():
            scalar = torch.ones((), device=device, requires_grad=True)
            torch.autograd.grad(2.0 * scalar, scalar)


def _slice_length(part: slice) -> int:
    """Return the length of a slice."""
    return int(part.stop - part.start)


def _check_examples(name: str, examples: object, module: nn.Module) -> None:
    """Raise `ArgumentError` unless the examples are a real tensor on the module's device."""
    if not isinstance(examples, Tensor):
        raise ArgumentError(
            f"{name} is of type {type(examples).__name__}; expected a tensor.", kind="wrong-type"
        )
    if examples.dim() < 1 or not len(examples):
        raise ArgumentError(
            f"{name} has shape {tuple(examples.shape)}; expected at least one example.",
            kind="wrong-shape",
        )
    parameter = next(module.parameters(), None)
    if parameter is not None and parameter.device != examples.device:
        raise ArgumentError(
            f"{name} is on {examples.device}, but the module is on {parameter.device}; move one "
            "of them.",
            kind="other-device",
        )
    if examples.is_complex():
        raise ArgumentError(
            f"{name} is complex, but K needs real inputs; pass real and imaginary parts to a "
            "module that combines them.",
            kind="wrong-type",
        )
    if examples.is_floating_point():
        check_finite(name, examples)
