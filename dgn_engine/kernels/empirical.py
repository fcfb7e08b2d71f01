"""K of any module, gates or none: its Jacobian contracted in blocks that keep to a budget."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from dgn_engine.errors import ArgumentError, Hint, Where
from dgn_engine.kernels.arguments import check_count, check_finite, check_module, check_word
from dgn_engine.kernels.gram import ROWS_AT_LEAST, accumulator, product
from dgn_engine.kernels.jacobian_rows import ModuleFunction, Rows, as_real
from dgn_engine.kernels.ntk import Logits
from dgn_engine.kernels.precision import full_precision

UNIT = Hint("")  # of the bytes that K needs: the argument's name says it
BUDGET = 4 << 30
PIECE_BYTES = 256 << 20  # of one vectorised call: larger ones are no faster
_PART = 1 << 14  # numbers of a row that are added up in the rows' own type
WORKING = 2 << 20  # what does not grow with anything, such as the timing of a product


@dataclass(frozen=True)
class EmpiricalKernel:
    """K in the shapes of `empirical_ntk`; `remark`: what a reader should know of how, or '';
    `outputs`: of which of the module's outputs it is, where that is not plain, or ''."""

    kernel: Tensor
    remark: str
    outputs: str


@dataclass(frozen=True)
class _Chunk:
    """Rows of one side that are contracted together."""

    examples: slice
    logits: slice

    def pieces(self, size: int) -> Iterator[_Chunk]:
        """Its examples in order, `size` at a time."""
        start, stop = self.examples.start, self.examples.stop
        for first in range(start, stop, size):
            yield _Chunk(slice(first, min(first + size, stop)), self.logits)


@dataclass(frozen=True)
class _Blocks:
    """How many examples and logits are held at once, and how many examples one call takes."""

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
    """K(x, x) or K(x, other) of any module in evaluation mode, over its trained parameters.

    K[s, k, s', k'] = ⟨∂ŷ_k(x_s)/∂θ, ∂ŷ_k'(x_s')/∂θ⟩, θ all parameters with `requires_grad`, a tied
    one once (THEORY §4). It needs no gates, so it serves GELU, attention and LayerNorm; of a
    network that `adapt` takes, `tangent_kernels` gives the same faster, and its parts.

    x (n, ...) and `other` (m, ...) are what the module takes, real or whole numbers; the module
    returns (n, C), or (n,) for one logit, or an object that holds them: in its attribute or under
    its key 'logits', or as a tuple of one. The result is (n, m) for 'mean' (Σ_k K[k, k]/C) and
    'sumlogit' (of Σ_k ŷ_k), (C, n, m) for 'perclass' and (n, C, m, C) for 'full', in the
    parameters' dtype. A complex parameter counts as its real and its imaginary part, two real ones:
    K is real.

    ŷ is what the module returns: where it ends with a softmax or log_softmax, K is that of
    probabilities or their logarithms. `adapt`, `dgn kernels` and `dgn.watch` leave that end out and
    say so; here, give the module without it.

    Rows of the Jacobian are computed in chunks of examples and logits, so that the memory beyond x,
    `other` and the module stays below `budget_bytes`, the kernel included; a tight budget computes
    rows again instead. Where `torch.func` cannot vectorise the module (control flow that depends on
    data, a GRU), a loop of backward passes gives the same, with a `RuntimeWarning`.

    Raises `ValueError` where the module is not a function of one example (BatchNorm or Dropout in
    training mode, random, coupling a batch, changing its buffers), trains nothing or returns
    something else, and where the budget is too small, with the bytes that are needed.

    Source: Novak, Sohl-Dickstein, Schoenholz 2022, arXiv:2206.08720, 'Jacobian contraction'.

    Examples:
        Of a linear model without a bias K is the Gram matrix of its inputs:

        >>> x = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
        >>> empirical_ntk(nn.Linear(2, 1, bias=False).eval(), x).tolist()
        [[5.0, 2.0], [2.0, 1.0]]
    """
    found = module_kernel(module, x, other, logits, budget_bytes)
    if found.remark:
        warnings.warn(found.remark, RuntimeWarning, stacklevel=2)
    return found.kernel


@full_precision
def module_kernel(
    module: nn.Module,
    x: Tensor,
    other: Tensor | None,
    logits: Logits,
    budget_bytes: int,
    before_softmax: bool = False,
) -> EmpiricalKernel:
    """`empirical_ntk` with its remark as text; with `before_softmax`, of the logits that a softmax
    or log_softmax at the end of the module is given."""
    check_module("module", module)
    check_word("logits", logits, Logits)
    check_count("budget_bytes", budget_bytes, 0)
    for name, side in (("x", x), ("other", other)):
        if side is not None:
            _check_examples(name, side, module)
    probe = other if other is not None and len(x) == 1 else x
    _enter_context(x.device)
    function = ModuleFunction(module, probe, before_softmax)
    with function.undisturbed(), torch.no_grad():
        kernel = _Contraction(function, x, other, logits, budget_bytes).kernel()
    return EmpiricalKernel(kernel, function.remark, function.outputs)


class _Contraction:
    """One kernel on its way: the function, both sides, and the blocks that the budget allows."""

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
        self.dtype = torch.float32  # at least: sums in half precision lose too much
        for parameter in function.parameters.values():
            self.dtype = torch.promote_types(self.dtype, as_real(parameter).dtype)
        self.blocks = self._blocks(budget)

    def kernel(self) -> Tensor:
        total = torch.zeros(self.shape, dtype=self.dtype, device=self.x.device)
        sides = (self._chunks(len(self.x)), self._chunks(len(self.other)))
        for lefts, rights in zip(*sides, strict=True):
            for place, left in enumerate(lefts):
                held = self._held(left)
                if self.same:
                    self._add_square(total, left, held)
                for right in rights[place + 1 :] if self.same else rights:
                    for piece in right.pieces(self.blocks.piece):
                        rows = self._rows(self.other, piece)
                        self._add(total, left, piece, held, rows, mirrored=self.same)
                        del rows  # before the next are computed
                del held
        return total.div_(self.function.classes) if self.logits == "mean" else total

    def _blocks(self, budget: int) -> _Blocks:
        """All examples, then all logits, as far as the budget holds their rows; `ValueError`
        where not even one row beside another fits."""
        n, row, cost = len(self.x), self.function.row_bytes, self.function.cost(self.x)
        each = cost.each + 2 * cost.copied  # a row, in order for a product and packed by it
        size = math.prod(self.shape) * self.dtype.itemsize
        taken = 2 * size + WORKING  # the kernel, and a block of it on its way
        room = budget - taken
        least = max(
            row + cost.fixed + each, 2 * (cost.fixed + cost.each)
        )  # `cost` itself takes two
        if room < least:
            raise ArgumentError(
                Where("budget_bytes")
                + " is "
                + Hint(f"{budget:,}")
                + f"; K of these {n:,} examples needs at least {taken + least:,}"
                + UNIT
                + f" ({size:,} for K itself).",
                value=budget,
                kind="too-large",
            )
        examples, logits = n, min(len(self.basis), (room - cost.fixed) // (n * row + each))
        if logits < 1:
            logits = 1
            examples = max(1, min(room * 3 // 4, room - cost.fixed - each) // row)
        call = cost.fixed + logits * each
        free = min(room - examples * logits * row, max(PIECE_BYTES, call))
        return _Blocks(examples, logits, max(1, free // call))

    def _chunks(self, n: int) -> list[list[_Chunk]]:
        """Lists of the chunks that meet: of one slice of the logits, but all of them for 'full'."""
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

    def _rows(self, x: Tensor, chunk: _Chunk) -> Rows:
        return self.function.rows(x[chunk.examples], self.basis[chunk.logits])

    def _held(self, chunk: _Chunk) -> Rows:
        """The rows of a whole chunk of x, computed piece by piece into their place: of each
        parameter (b, c, ...), by logits in memory where they are contracted one by one."""
        b, c = _length(chunk.examples), _length(chunk.logits)
        held: Rows = {}
        for name, parameter in self.function.parameters.items():
            p = as_real(parameter)
            if self.logits == "perclass":
                held[name] = p.new_empty((c, b, *p.shape)).transpose(0, 1)
            else:
                held[name] = p.new_empty((b, c, *p.shape))
        for piece in chunk.pieces(self.blocks.piece):
            first = piece.examples.start - chunk.examples.start
            rows = self._rows(self.x, piece)
            for name, row in rows.items():
                held[name][first : first + len(row)] = row
            del rows, row  # before the next are computed
        return held

    def _add_square(self, total: Tensor, chunk: _Chunk, held: Rows) -> None:
        """The chunk against itself: tiles on and above the diagonal, mirrored below."""
        start = chunk.examples.start
        tile = min(self.blocks.piece, max(ROWS_AT_LEAST, _length(chunk.examples) // 8))
        for columns in chunk.pieces(tile):
            first, stop = columns.examples.start - start, columns.examples.stop - start
            rows = {name: row[first:stop] for name, row in held.items()}
            self._add(total, columns, columns, rows, rows)
            if first:
                above = _Chunk(slice(start, columns.examples.start), chunk.logits)
                before = {name: row[:first] for name, row in held.items()}
                self._add(total, above, columns, before, rows, mirrored=True)

    def _add(
        self,
        total: Tensor,
        left: _Chunk,
        right: _Chunk,
        one: Rows,
        two: Rows,
        mirrored: bool = False,
    ) -> None:
        """Add the products of two chunks' rows at their place, and at the mirrored one."""
        s, k, t, q = left.examples, left.logits, right.examples, right.logits
        for name, row in one.items():
            a, b = row.flatten(2).to(self.dtype), two[name].flatten(2).to(self.dtype)
            match self.logits:
                case "full":
                    part = _products(a.flatten(0, 1), b.flatten(0, 1))
                    total[s, k, t, q] += part.reshape(*a.shape[:2], *b.shape[:2])
                case "perclass":
                    for place in range(_length(k)):
                        total[k.start + place, s, t] += _products(a[:, place], b[:, place])
                case _:
                    total[s, t] += _products(a.flatten(1), b.flatten(1))
        if mirrored:
            match self.logits:
                case "full":
                    total[t, q, s, k] = total[s, k, t, q].permute(2, 3, 0, 1)
                case "perclass":
                    total[k, t, s] = total[k, s, t].transpose(1, 2)
                case _:
                    total[t, s] = total[s, t].T


def _products(one: Tensor, two: Tensor) -> Tensor:
    """one @ two.T; of a few rows not by oneDNN, which fills them up to 64.

    For a few rows a BLAS adds up each number of the result in one float32: over the 23 million
    numbers of a layer of ResNet-18 with ten logits that is 1e-3 off. Sums of parts are not.
    """
    if min(len(one), len(two)) >= ROWS_AT_LEAST:
        return product(one, two)
    total = torch.zeros((len(one), len(two)), dtype=accumulator(one), device=one.device)
    for left, right in zip(torch.split(one, _PART, 1), torch.split(two, _PART, 1), strict=True):
        total += left @ right.T
    return total.to(one.dtype)


@cache
def _enter_context(device: torch.device) -> None:
    """Let autograd's own thread for a card enter CUDA's context by a kernel: where a product comes
    first, torch warns that there is none."""
    if device.type == "cuda":
        with torch.enable_grad():
            one = torch.ones((), device=device, requires_grad=True)
            torch.autograd.grad(2.0 * one, one)


def _length(part: slice) -> int:
    return int(part.stop - part.start)


def _check_examples(name: str, examples: object, module: nn.Module) -> None:
    if not isinstance(examples, Tensor):
        raise ArgumentError(
            f"{name} must be a tensor, not {type(examples).__name__}.", kind="wrong-type"
        )
    if examples.dim() < 1 or not len(examples):
        raise ArgumentError(
            f"{name} has shape {tuple(examples.shape)}; it must hold examples.", kind="wrong-shape"
        )
    parameter = next(module.parameters(), None)
    if parameter is not None and parameter.device != examples.device:
        raise ArgumentError(
            f"{name} is on {examples.device}, the module on {parameter.device}.",
            kind="other-device",
        )
    if examples.is_complex():
        raise ArgumentError(
            f"{name} holds complex numbers; K is of real inputs: give the real and imaginary parts "
            "to a module that puts them together.",
            kind="wrong-type",
        )
    if examples.is_floating_point():
        check_finite(name, examples)
