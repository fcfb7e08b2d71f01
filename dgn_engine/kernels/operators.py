"""Kernels that are never held: their products with vectors, for n that leave no room for n².

A `scipy.sparse.linalg.LinearOperator` multiplies; `eigsh` finds leading eigenpairs with it, `cg`
solves with it. Blocks of two sets of examples multiply likewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from math import prod
from operator import add
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_count,
    check_flag,
    check_network_inputs,
    check_trains,
    check_word,
)
from dgn_engine.kernels.backward_sweep import output_delta
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.ntk import check_gates_are_made, tangent_kernels
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.recursion import path_diagonal as recursion_diagonal
from dgn_engine.kernels.recursion import path_recursion
from dgn_engine.kernels.tangent_sweep import layer_sides
from dgn_engine.kernels.walk import widths_outside_blocks
from dgn_engine.model.architecture import Architecture, Conv, Dense, weight_shape
from dgn_engine.model.network import GatedNetwork
from dgn_engine.regimes import Trained

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

BUDGET = 256 << 20  # bytes that one product works with, besides its vectors and the weights
KEPT = 12  # tensors of a layer's size that a pass holds of each example
DIAGONAL_TILE = 32  # examples whose square block is computed for its diagonal

OperatorLogits = Literal["mean", "sumlogit", "full"]
OperatorScale = Literal["none", "width"]
Vector = npt.NDArray[Any]


def tangent_operator(
    network: GatedNetwork,
    x: Tensor,
    other: Tensor | None = None,
    *,
    logits: OperatorLogits = "mean",
    trains: Trained | None = None,
    folded: bool = False,
    budget_bytes: int = BUDGET,
) -> LinearOperator:
    """K of a network at x (n, *input_shape) as a `LinearOperator` (n, n), or (n, m) against
    `other`: `tangent_kernels(...).whole` without its n² numbers.

    'mean' and 'sumlogit' as there; 'full' is (nC, nC), rows in the order example, logit. K·v is
    J(Jᵀv), by the structured sweeps of `tangent_kernels` over chunks of examples, twice; in the
    weights' dtype; `trains` and `folded` as there. Memory: no more than the budget, where that has
    room for eight times the weights and one example's pass.
    Raises `ValueError` for other words and for gates that no network makes (FRG) with `other`.
    """
    from scipy.sparse.linalg import LinearOperator  # the other kernels do without it

    check_network_inputs(network, x)
    _check_logits(logits)
    check_trains(trains)
    check_flag("folded", folded)
    check_count("budget_bytes", budget_bytes)
    if other is not None:
        check_network_inputs(network, other, "other")
        check_gates_are_made(network)
    rows, columns = (
        _Jacobian(network, inputs, logits, trains, folded, budget_bytes)
        for inputs in (x, x if other is None else other)
    )
    return LinearOperator(
        shape=(rows.size, columns.size),
        matvec=lambda v: _through(columns, rows, _real(v)),
        rmatvec=lambda v: _through(rows, columns, _real(v)),
        dtype=torch.empty(0, dtype=x.dtype).numpy().dtype,
    )


def tangent_diagonal(
    network: GatedNetwork,
    x: Tensor,
    *,
    logits: OperatorLogits = "mean",
    trains: Trained | None = None,
    folded: bool = False,
) -> Tensor:
    """The diagonal of `tangent_operator(network, x)`, (n,) or (nC,): its sum is the trace."""
    check_network_inputs(network, x)
    _check_logits(logits)
    check_trains(trains)
    check_flag("folded", folded)
    found = []
    for part in _chunks(len(x), DIAGONAL_TILE):
        view = _at(network, part)
        kernel = tangent_kernels(view, x[part], logits, trains, folded=folded).whole
        if kernel.dim() == 4:
            kernel = kernel.reshape(len(x[part]) * kernel.shape[1], -1)
        found.append(kernel.diagonal())
    return torch.cat(found)


def path_operator(
    architecture: Architecture,
    inputs: PathInputs,
    other: PathInputs | None = None,
    *,
    normalise: OperatorScale = "none",
    budget_bytes: int = BUDGET,
) -> LinearOperator:
    """H as a float64 `LinearOperator` (n, n), or (n, m) against `other`; Λ where the inputs have
    no x^v. Equals `neural_path_kernel` (or `overlap`) without its n² numbers.

    A product forms the kernel tile by tile of rows and drops it; where every layer is dense and
    the features themselves, Π of inputs and widths, are fewer than what a row of tiles costs, it
    goes through them, linear in n.
    """
    from scipy.sparse.linalg import LinearOperator  # the other kernels do without it

    if isinstance(normalise, str) and normalise in ("trace", "cosine"):
        raise ArgumentError(
            f"normalise is '{normalise}'; a kernel that is not held has 'none' or 'width' (divide "
            "the eigenvalues by the sum of `path_diagonal` for the trace).",
            kind="out-of-bounds",
        )
    check_word("normalise", normalise, OperatorScale)
    check_path_inputs(architecture, inputs, other)
    check_count("budget_bytes", budget_bytes)
    both, block = inputs.joined(other)
    factors = _explicit(architecture, both, block)
    product: _TileProduct | _FeatureProduct
    if factors is None:
        product = _TileProduct(architecture, both, normalise, block, budget_bytes)
    else:
        widths = widths_outside_blocks(architecture) if normalise == "width" else 1.0
        product = _FeatureProduct(factors, widths, block, budget_bytes)
    return LinearOperator(
        shape=block.shape,
        matvec=lambda v: product.times(_column(v)).numpy(),
        rmatvec=lambda v: product.times(_column(v), transposed=True).numpy(),
        dtype=np.float64,
    )


def path_diagonal(
    architecture: Architecture,
    inputs: PathInputs,
    *,
    normalise: OperatorScale = "none",
) -> Tensor:
    """The diagonal (n,) of `path_operator(architecture, inputs)`: its sum is the trace."""
    check_word("normalise", normalise, OperatorScale)
    check_path_inputs(architecture, inputs)
    plain = PathInputs(inputs.gates, inputs.x_value, inputs.masks)
    found = recursion_diagonal(architecture, plain, by_width=normalise == "width")[0]
    return found if normalise == "width" else found * widths_outside_blocks(architecture)


def _check_logits(logits: str) -> None:
    if isinstance(logits, str) and logits == "perclass":
        raise ArgumentError(
            "logits is 'perclass'; a kernel that is not held is one matrix: 'mean', 'sumlogit' or "
            "'full'.",
            kind="contradiction",
        )
    check_word("logits", logits, OperatorLogits)


def _chunks(n: int, size: int) -> Iterator[slice]:
    for left, right in pairwise([*range(0, n, size), n]):
        yield slice(left, right)


def _at(network: GatedNetwork, part: slice) -> GatedNetwork:
    """The network for some of the examples: gates that were given are these examples' own."""
    if network.given_gates is None:
        return network
    return network.with_gates(tuple(gates[part] for gates in network.given_gates))


class _Jacobian:
    """J of the logits at x with respect to what trains: products with it and with its transpose,
    a chunk of examples and a group of logits at a time."""

    def __init__(
        self,
        network: GatedNetwork,
        x: Tensor,
        logits: OperatorLogits,
        trains: Trained | None,
        folded: bool,
        budget_bytes: int,
    ) -> None:
        self.network, self.x, self.logits = network, x, logits
        self.classes = network.architecture.classes
        self.size = len(x) * (self.classes if logits == "full" else 1)
        self._trains, self._folded = trains, folded
        item, architecture = x.element_size(), network.architecture
        weights = sum(prod(weight_shape(layer)) for layer in architecture.weighted)
        weights *= 1 if network.own_gates else 2
        # Half for sums of gradients, of each logit of a group; half for a chunk of examples.
        group = self.classes if logits == "full" else budget_bytes // (4 * item * weights)
        self._group = max(1, min(self.classes, group))
        self._chunk = max(1, budget_bytes // (2 * item * self._numbers()))

    def _numbers(self) -> int:
        """What a chunk holds of one example: layers, windows of convolutions and deltas."""
        architecture = self.network.architecture
        held = prod(architecture.input_shape)
        for node, shape in architecture.shapes():
            held += (KEPT + 3 * self._group) * prod(shape)
            if isinstance(node, Conv):
                held += 2 * node.inputs * node.kernel**2 * prod(shape[1:])
        return held

    def tops(self) -> list[Tensor]:
        """What each group of logits begins its backward sweep with."""
        if self.logits == "sumlogit":
            return [output_delta(self.classes, slice(0, self.classes), True, self.x)]
        groups = _chunks(self.classes, self._group)
        return [output_delta(self.classes, group, False, self.x) for group in groups]

    def _layers(self, part: slice, top: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        view = _at(self.network, part)
        return layer_sides(view, self.x[part], top, self._trains, self._folded)

    def transposed_times(self, v: Tensor, top: Tensor) -> list[Tensor]:
        """Jᵀv of one group of logits, for v (n, 1), or (n, C) in mode 'full': of each layer
        (c·b, a), or (b, a)."""
        totals: list[Tensor] = []
        for part in _chunks(len(self.x), self._chunk):
            for place, (rows, side) in enumerate(self._layers(part, top)):
                scale = v[part].reshape(len(rows), 1, -1, 1)
                weighted = side * scale
                if self.logits == "full":
                    weighted = weighted.sum(2, keepdim=True)
                share = weighted.flatten(2).flatten(0, 1).T @ rows.flatten(0, 1)
                if place == len(totals):
                    totals.append(share)
                else:
                    totals[place] += share
        return totals

    def times(self, sums: list[Tensor], top: Tensor) -> Tensor:
        """J times what `transposed_times` gives: (n,), the group's logits added, or (n, C)."""
        found = []
        for part in _chunks(len(self.x), self._chunk):
            shares = []
            for (rows, side), gradient in zip(self._layers(part, top), sums, strict=True):
                images = rows @ gradient.T
                images = images.reshape(*images.shape[:2], -1, side.shape[3])
                share = (images * side).sum((1, 3))
                shares.append(share if self.logits == "full" else share.sum(1))
            found.append(reduce(add, shares))
        return torch.cat(found)


def _through(from_: _Jacobian, to: _Jacobian, vector: Vector) -> Vector:
    """K(to, from)·v = J_to J_fromᵀ v, a group of logits after the other; of the mean over logits
    divided by C."""
    v = torch.from_numpy(np.ascontiguousarray(vector)).to(from_.x).reshape(len(from_.x), -1)
    parts = (to.times(from_.transposed_times(v, top), top) for top in from_.tops())
    found: Tensor = reduce(add, parts)
    if from_.logits == "mean":
        found = found / from_.classes
    product: Vector = found.reshape(-1).cpu().numpy()
    return product


def _column(vector: Vector) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(_real(vector), dtype=np.float64)).reshape(-1)


def _real(vector: Vector) -> Vector:
    """The vector, if it is one of real numbers: torch and numpy would drop imaginary parts."""
    if np.iscomplexobj(vector):
        raise ArgumentError(
            f"The vector is of type {vector.dtype}; multiply its real and imaginary parts one "
            "after the other.",
            kind="wrong-type",
        )
    return vector


class _TileProduct:
    """H·v by tiles of rows; of a symmetric block the upper half serves both."""

    def __init__(
        self,
        architecture: Architecture,
        inputs: PathInputs,
        normalise: str,
        block: KernelBlock,
        budget_bytes: int,
    ) -> None:
        self._architecture, self._block = architecture, block
        self._by_width = normalise == "width"
        self._inputs = PathInputs(inputs.gates, inputs.x_value, inputs.masks)
        # A tile, its Gram matrices in both types, their products and the scaled copy, float64.
        self._rows = max(1, budget_bytes // (8 * 8 * block.shape[1]))

    def times(self, v: Tensor, transposed: bool = False) -> Tensor:
        block = self._block
        n, m = block.shape
        out = torch.zeros(m if transposed else n, dtype=torch.float64)
        for places in _chunks(n, self._rows):
            rows = slice(block.rows.start + places.start, block.rows.start + places.stop)
            first = places.start if block.symmetric else 0
            columns = slice(block.columns.start + first, block.columns.stop)
            tile = self._tile(KernelBlock(rows, columns))
            if block.symmetric:
                out[places] += tile @ v[first:]
                out[places.stop :] += tile[:, places.stop - first :].T @ v[places]
            elif transposed:
                out += tile.T @ v[places]
            else:
                out[places] = tile @ v
        return out

    def _tile(self, block: KernelBlock) -> Tensor:
        found = path_recursion(self._architecture, self._inputs, self._by_width, block=block)
        kernel = found.kernel.to("cpu", torch.float64)
        return kernel if self._by_width else kernel * found.widths


def _explicit(
    architecture: Architecture, inputs: PathInputs, block: KernelBlock
) -> list[Tensor] | None:
    """Inputs and gates whose products are the features, where going through these is cheaper."""
    dense = all(isinstance(node, Dense) for node in architecture.nodes)
    if not dense or architecture.gated != architecture.weighted[:-1]:
        return None
    factors = [] if inputs.x_value is None else [inputs.x_value]
    factors += inputs.gates
    sizes = [factor.shape[1] for factor in factors]
    n, m = block.shape
    # Twice through n + m (or n) features against all pairs (or half of them).
    explicit = 2 * prod(sizes) * (2 * n if block.symmetric else n + m)
    tiled = 2 * sum(sizes) * n * (m / 2 if block.symmetric else m)
    return factors if explicit < tiled else None


class _FeatureProduct:
    """H·v = Φ(Φᵀv), Φ made a chunk of examples at a time."""

    def __init__(
        self, factors: Sequence[Tensor], widths: float, block: KernelBlock, budget_bytes: int
    ) -> None:
        self._factors, self._widths, self._block = factors, widths, block
        features = prod(factor.shape[1] for factor in factors)
        self._chunk = max(1, budget_bytes // (3 * 8 * features))

    def times(self, v: Tensor, transposed: bool = False) -> Tensor:
        rows, columns = self._block.rows, self._block.columns
        from_, to = (rows, columns) if transposed else (columns, rows)
        total = reduce(add, (v[part] @ features for part, features in self._features(from_)))
        return torch.cat([features @ total for _, features in self._features(to)]) / self._widths

    def _features(self, examples: slice) -> Iterator[tuple[slice, Tensor]]:
        """Places among `examples`, and Φ of these (b, Π sizes), float64."""
        for part in _chunks(examples.stop - examples.start, self._chunk):
            where = slice(examples.start + part.start, examples.start + part.stop)
            factors = (f[where].to("cpu", torch.float64).flatten(1) for f in self._factors)
            yield part, reduce(lambda a, b: (a[:, :, None] * b[:, None]).flatten(1), factors)
