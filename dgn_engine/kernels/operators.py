"""Kernels as linear operators: products with vectors, for n too large for n² numbers.

A `scipy.sparse.linalg.LinearOperator` can be passed to `eigsh` for the leading eigenpairs and to
`cg` for linear systems. Blocks of two sets of examples are supported, too.
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
    check_choice,
    check_count,
    check_flag,
    check_network_inputs,
    check_trains,
)
from dgn_engine.kernels.backward_sweep import output_delta
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.ntk import check_gates_have_network, tangent_kernels
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

BUDGET = 256 << 20  # working memory of one product, besides its vectors and the weights
KEPT = 12  # tensors of a layer's size that a pass keeps per example
DIAGONAL_TILE = 32  # examples per square block that is computed for its diagonal

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
    """Return the tangent kernel of a network as a linear operator.

        K v = J (Jᵀ v),

    computed with the structured sweeps of `tangent_kernels`, twice over chunks of examples, without
    forming K or J. It equals `tangent_kernels(...).total_kernel`.

    Args:
        network: The network.
        x: Inputs, `(n, *input_shape)`.
        other: Second set of inputs, `(m, *input_shape)`.
        logits: 'mean' or 'sumlogit' as for `tangent_kernels`; 'full' for all pairs of logits, with
          rows ordered by example, then logit.
        trains: As for `tangent_kernels`.
        folded: As for `tangent_kernels`.
        budget_bytes: Memory limit, respected if it has room for eight times the weights and the
          pass of one example.

    Returns:
        Operator in the dtype of the weights, of shape (n, n) or (n, m); for 'full' (nC, nC) or
        (nC, mC).

    Raises:
        ValueError: An argument does not fit, or `other` is combined with given gates (FRG).
    """
    from scipy.sparse.linalg import LinearOperator  # imported here because nothing else needs it

    check_network_inputs(network, x)
    _check_logits(logits)
    check_trains(trains)
    check_flag("folded", folded)
    check_count("budget_bytes", budget_bytes)
    if other is not None:
        check_network_inputs(network, other, "other")
        check_gates_have_network(network)
    rows, columns = (
        _Jacobian(network, inputs, logits, trains, folded, budget_bytes)
        for inputs in (x, x if other is None else other)
    )
    return LinearOperator(
        shape=(rows.size, columns.size),
        matvec=lambda v: _kernel_product(columns, rows, _require_real(v)),
        rmatvec=lambda v: _kernel_product(rows, columns, _require_real(v)),
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
    """Compute the diagonal of `tangent_operator`; its sum is the trace of K.

    Args:
        network: The network.
        x: Inputs, `(n, *input_shape)`.
        logits: As for `tangent_operator`.
        trains: As for `tangent_kernels`.
        folded: As for `tangent_kernels`.

    Returns:
        The diagonal, `(n,)`, or `(nC,)` for 'full'.

    Raises:
        ArgumentError: An argument does not fit.
    """
    check_network_inputs(network, x)
    _check_logits(logits)
    check_trains(trains)
    check_flag("folded", folded)
    diagonals = []
    for part in _example_slices(len(x), DIAGONAL_TILE):
        view = _network_for_slice(network, part)
        kernel = tangent_kernels(view, x[part], logits, trains, folded=folded).total_kernel
        if kernel.dim() == 4:
            kernel = kernel.reshape(len(x[part]) * kernel.shape[1], -1)
        diagonals.append(kernel.diagonal())
    return torch.cat(diagonals)


def path_operator(
    architecture: Architecture,
    inputs: PathInputs,
    other: PathInputs | None = None,
    *,
    normalise: OperatorScale = "none",
    budget_bytes: int = BUDGET,
) -> LinearOperator:
    """Return the neural path kernel H (or Λ, without x^v) as a linear operator.

    It equals `neural_path_kernel` (or `overlap`) without forming n² numbers. A product computes the
    kernel in tiles of rows and discards them. A dense network has as many features
    φ as the product of input size and widths; if this is cheaper, it multiplies by Φ(Φᵀv) instead,
    which is linear in n.

    Args:
        architecture: The network.
        inputs: Gates, and x^v and masks as needed.
        other: Second set of inputs.
        normalise: 'none' or 'width'.
        budget_bytes: Working memory of one product.

    Returns:
        Operator of shape (n, n) or (n, m), float64.

    Raises:
        ArgumentError: An argument does not fit.
    """
    from scipy.sparse.linalg import LinearOperator  # imported here because nothing else needs it

    if isinstance(normalise, str) and normalise in ("trace", "cosine"):
        raise ArgumentError(
            f"normalise is '{normalise}'; an operator supports only 'none' and 'width' (for "
            "'trace', divide the eigenvalues by the sum of `path_diagonal`).",
            kind="out-of-bounds",
        )
    check_choice("normalise", normalise, OperatorScale)
    check_path_inputs(architecture, inputs, other)
    check_count("budget_bytes", budget_bytes)
    both, block = inputs.join_with(other)
    factors = _explicit_factors(architecture, both, block)
    product: _TileProduct | _FeatureProduct
    if factors is None:
        product = _TileProduct(architecture, both, normalise, block, budget_bytes)
    else:
        widths = widths_outside_blocks(architecture) if normalise == "width" else 1.0
        product = _FeatureProduct(factors, widths, block, budget_bytes)
    return LinearOperator(
        shape=block.shape,
        matvec=lambda v: product.multiply_vector(_as_column(v)).numpy(),
        rmatvec=lambda v: product.multiply_vector(_as_column(v), transposed=True).numpy(),
        dtype=np.float64,
    )


def path_diagonal(
    architecture: Architecture,
    inputs: PathInputs,
    *,
    normalise: OperatorScale = "none",
) -> Tensor:
    """Compute the diagonal of `path_operator`; its sum is the trace.

    Args:
        architecture: The network.
        inputs: Gates, and x^v and masks as needed.
        normalise: 'none' or 'width'.

    Returns:
        The diagonal, `(n,)`, float64.

    Raises:
        ArgumentError: An argument does not fit.
    """
    check_choice("normalise", normalise, OperatorScale)
    check_path_inputs(architecture, inputs)
    plain = PathInputs(inputs.gates, inputs.x_value, inputs.masks)
    diagonal = recursion_diagonal(architecture, plain, by_width=normalise == "width")[0]
    return diagonal if normalise == "width" else diagonal * widths_outside_blocks(architecture)


def _check_logits(logits: str) -> None:
    """Raise `ArgumentError` unless `logits` gives a single matrix."""
    if isinstance(logits, str) and logits == "perclass":
        raise ArgumentError(
            "logits is 'perclass', but an operator is a single matrix; use 'mean', 'sumlogit' or "
            "'full'.",
            kind="contradiction",
        )
    check_choice("logits", logits, OperatorLogits)


def _example_slices(n: int, size: int) -> Iterator[slice]:
    """Split n examples into slices of `size`."""
    for left, right in pairwise([*range(0, n, size), n]):
        yield slice(left, right)


def _network_for_slice(network: GatedNetwork, part: slice) -> GatedNetwork:
    """Return the network for a slice of the examples, with their share of given gates."""
    if network.given_gates is None:
        return network
    return network.with_gates(tuple(gates[part] for gates in network.given_gates))


class _Jacobian:
    """The Jacobian of the logits at x by what trains, as products with it and its transpose.

    Both work on a chunk of examples and a group of logits at a time.
    """

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
        weights = sum(prod(weight_shape(layer)) for layer in architecture.weight_layers)
        weights *= 1 if network.own_gates else 2
        # Half of the budget for the gradient sums of a group of logits, half for a chunk of
        # examples.
        group = self.classes if logits == "full" else budget_bytes // (4 * item * weights)
        self._group = max(1, min(self.classes, group))
        self._chunk = max(1, budget_bytes // (2 * item * self._numbers_per_example()))

    def _numbers_per_example(self) -> int:
        """Count the numbers held per example of a chunk: layers, windows and deltas."""
        architecture = self.network.architecture
        numbers = prod(architecture.input_shape)
        for node, shape in architecture.shapes():
            numbers += (KEPT + 3 * self._group) * prod(shape)
            if isinstance(node, Conv):
                numbers += 2 * node.inputs * node.kernel**2 * prod(shape[1:])
        return numbers

    def output_deltas(self) -> list[Tensor]:
        """Return the output deltas of each group of logits.

        Returns:
            One tensor `(1, c, C)` per group.
        """
        if self.logits == "sumlogit":
            return [output_delta(self.classes, slice(0, self.classes), True, self.x)]
        groups = _example_slices(self.classes, self._group)
        return [output_delta(self.classes, group, False, self.x) for group in groups]

    def _layer_sides(self, part: slice, top: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Compute factor and side of each trained layer for a chunk of examples."""
        view = _network_for_slice(self.network, part)
        return layer_sides(view, self.x[part], top, self._trains, self._folded)

    def multiply_transposed(self, v: Tensor, top: Tensor) -> list[Tensor]:
        """Compute Jᵀv for one group of logits.

        Args:
            v: Vector, `(n, 1)`, or `(n, C)` in mode 'full'.
            top: Output deltas of the group.

        Returns:
            One tensor per layer, `(c·b, a)`, or `(b, a)` in mode 'full'.
        """
        totals: list[Tensor] = []
        for part in _example_slices(len(self.x), self._chunk):
            for index, (rows, side) in enumerate(self._layer_sides(part, top)):
                scale = v[part].reshape(len(rows), 1, -1, 1)
                weighted = side * scale
                if self.logits == "full":
                    weighted = weighted.sum(2, keepdim=True)
                # Σ_s v_s ∂ŷ(s)/∂W = Σ_{s,p} v_s D[s, p] Z[s, p]ᵀ
                share = weighted.flatten(2).flatten(0, 1).T @ rows.flatten(0, 1)
                if index == len(totals):
                    totals.append(share)
                else:
                    totals[index] += share
        return totals

    def multiply_gradients(self, sums: list[Tensor], top: Tensor) -> Tensor:
        """Multiply the result of `multiply_transposed` by J.

        Args:
            sums: One tensor per layer.
            top: Output deltas of the group.

        Returns:
            `(n,)`, summed over the logits of the group, or `(n, C)` in mode 'full'.
        """
        products = []
        for part in _example_slices(len(self.x), self._chunk):
            shares = []
            for (rows, side), gradient in zip(self._layer_sides(part, top), sums, strict=True):
                # ⟨∂ŷ(s)/∂W, g⟩ = Σ_p D[s, p]ᵀ g Z[s, p]
                images = rows @ gradient.T
                images = images.reshape(*images.shape[:2], -1, side.shape[3])
                share = (images * side).sum((1, 3))
                shares.append(share if self.logits == "full" else share.sum(1))
            products.append(reduce(add, shares))
        return torch.cat(products)


def _kernel_product(from_: _Jacobian, to: _Jacobian, vector: Vector) -> Vector:
    """Compute K(to, from) v = J_to J_fromᵀ v, group by group, over C for the mean over logits."""
    v = torch.from_numpy(np.ascontiguousarray(vector)).to(from_.x).reshape(len(from_.x), -1)
    parts = (
        to.multiply_gradients(from_.multiply_transposed(v, top), top)
        for top in from_.output_deltas()
    )
    product_tensor: Tensor = reduce(add, parts)
    if from_.logits == "mean":
        product_tensor = product_tensor / from_.classes
    product: Vector = product_tensor.reshape(-1).cpu().numpy()
    return product


def _as_column(vector: Vector) -> Tensor:
    """Convert a vector to a float64 tensor."""
    return torch.from_numpy(np.ascontiguousarray(_require_real(vector), dtype=np.float64)).reshape(
        -1
    )


def _require_real(vector: Vector) -> Vector:
    """Refuse a complex vector, whose imaginary part torch and numpy would drop."""
    if np.iscomplexobj(vector):
        raise ArgumentError(
            f"The vector has dtype {vector.dtype}; multiply its real and imaginary parts "
            "separately.",
            kind="wrong-type",
        )
    return vector


class _TileProduct:
    """H·v in tiles of rows; in a symmetric block the upper half is used for both halves."""

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
        # A tile, its Gram matrices in both dtypes, their products and the scaled copy in float64.
        self._rows = max(1, budget_bytes // (8 * 8 * block.shape[1]))

    def multiply_vector(self, v: Tensor, transposed: bool = False) -> Tensor:
        """Multiply the kernel, or its transpose, by a vector.

        Args:
            v: Vector, `(m,)` or, transposed, `(n,)`.
            transposed: Whether to multiply by the transpose.

        Returns:
            The product, float64.
        """
        block = self._block
        n, m = block.shape
        out = torch.zeros(m if transposed else n, dtype=torch.float64)
        for part in _example_slices(n, self._rows):
            rows = slice(block.rows.start + part.start, block.rows.start + part.stop)
            first = part.start if block.is_symmetric else 0
            columns = slice(block.columns.start + first, block.columns.stop)
            tile = self._compute_tile(KernelBlock(rows, columns))
            if block.is_symmetric:
                out[part] += tile @ v[first:]
                out[part.stop :] += tile[:, part.stop - first :].T @ v[part]
            elif transposed:
                out += tile.T @ v[part]
            else:
                out[part] = tile @ v
        return out

    def _compute_tile(self, block: KernelBlock) -> Tensor:
        paths = path_recursion(self._architecture, self._inputs, self._by_width, block=block)
        kernel = paths.kernel.to("cpu", torch.float64)
        return kernel if self._by_width else kernel * paths.widths


def _explicit_factors(
    architecture: Architecture, inputs: PathInputs, block: KernelBlock
) -> list[Tensor] | None:
    """Return inputs and gates whose products are the features, if using them is cheaper."""
    dense = all(isinstance(node, Dense) for node in architecture.nodes)
    if not dense or architecture.gated_nodes != architecture.weight_layers[:-1]:
        return None
    factors = [] if inputs.x_value is None else [inputs.x_value]
    factors += inputs.gates
    sizes = [factor.shape[1] for factor in factors]
    n, m = block.shape
    # Two passes over n + m (or n) features against all pairs (or half of them).
    explicit = 2 * prod(sizes) * (2 * n if block.is_symmetric else n + m)
    tiled = 2 * sum(sizes) * n * (m / 2 if block.is_symmetric else m)
    return factors if explicit < tiled else None


class _FeatureProduct:
    """H·v = Φ(Φᵀv), with Φ computed for a chunk of examples at a time."""

    def __init__(
        self, factors: Sequence[Tensor], widths: float, block: KernelBlock, budget_bytes: int
    ) -> None:
        self._factors, self._widths, self._block = factors, widths, block
        features = prod(factor.shape[1] for factor in factors)
        self._chunk = max(1, budget_bytes // (3 * 8 * features))

    def multiply_vector(self, v: Tensor, transposed: bool = False) -> Tensor:
        """Multiply the kernel, or its transpose, by a vector.

        Args:
            v: Vector, `(m,)` or, transposed, `(n,)`.
            transposed: Whether to multiply by the transpose.

        Returns:
            The product, float64.
        """
        rows, columns = self._block.rows, self._block.columns
        from_, to = (rows, columns) if transposed else (columns, rows)
        total = reduce(add, (v[part] @ features for part, features in self._feature_chunks(from_)))
        return (
            torch.cat([features @ total for _, features in self._feature_chunks(to)]) / self._widths
        )

    def _feature_chunks(self, examples: slice) -> Iterator[tuple[slice, Tensor]]:
        """Yield slices of `examples` with their features Φ, `(b, Π sizes)`, float64."""
        for part in _example_slices(examples.stop - examples.start, self._chunk):
            where = slice(examples.start + part.start, examples.start + part.stop)
            factors = (f[where].to("cpu", torch.float64).flatten(1) for f in self._factors)
            yield part, reduce(lambda a, b: (a[:, :, None] * b[:, None]).flatten(1), factors)
