"""The infinite-width limit of any chain with residual blocks and average pooling (theory §6).

Legend: B pairs of examples; K is (B,) for vectors, (B, H, W, H', W') for maps over pairs of
positions, or (B, H, W) where only p = p' matters because nothing pools before the flattening.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_architecture, check_inputs
from dgn_engine.kernels.cntk import box_mean, join_examples, limits_by_pairs, rectify_covariance
from dgn_engine.kernels.infinite import LimitKernels, Sigmas, sigma_per_layer
from dgn_engine.kernels.slabs import both_windows
from dgn_engine.model import architecture as arch

TILE_BYTES = 16 << 20
HE = math.sqrt(2)  # weights of variance 2/fan-in


def network_limit(
    architecture: arch.Architecture,
    x: Tensor,
    other: Tensor | None = None,
    sigma_w: Sigmas = HE,
    sigma_b: Sigmas = 0.0,
) -> LimitKernels:
    """Compute the infinite-width ReLU limit of an architecture.

    In the NTK parametrisation each weight layer is

        q = (σ_w/√fan-in) W z + σ_b b,   W, b ~ N(0, 1),

    and the covariance Σ of the outputs (NNGP) and the tangent kernel K̃ of all weights and biases
    follow from

        weight layer:   Σ ← σ_w² Σ + σ_b²,   K̃ ← σ_w² K̃ + Σ
        ReLU:           Σ ← E[χ(q)χ(q')],     K̃ ← K̃ ⊙ E[χ'(q)χ'(q')]

    with (q, q') Gaussian of covariance Σ. A convolution averages Σ and K̃ over its window; average
    pooling averages over both positions independently; a residual block adds
    γ_post²(γ_pre² block(K) + skip(K)), since zero-mean weights leave the two branches uncorrelated.

    Args:
        architecture: Dense layers and convolutions (gated or not), average pooling, global average
          pooling, flattening, and residual blocks with identity or projected skips.
        x: Inputs, `(n, *input_shape)`.
        other: Second set of inputs, `(m, *input_shape)`. If `None`, `x` is compared with itself.
        sigma_w: σ_w for all weight layers, or one value per layer. Default: √2 (He).
        sigma_b: σ_b for all weight layers, or one value per layer. Default: 0.

    Returns:
        `tangent` (the NTK) and `covariance` (the NNGP kernel), `(n, n)` or `(n, m)`, float64.

    Raises:
        ArgumentError: An argument does not fit, the network has BatchNorm or a constant factor, or
          there is no closed form: max pooling (maximum of correlated Gaussians), a gate on a sum
          with a rectified skip (not Gaussian), or a block and a skip that both end with a gate
          (their means do not vanish).

    References:
        Arora et al. 2019; Novak et al. 2020 (neural-tangents), against which it was verified.
    """
    check_architecture(architecture)
    check_inputs("x", x, architecture.input_shape)
    if other is not None:
        check_inputs("other", other, architecture.input_shape, like=x)
    _check_closed_form(architecture)
    layers = len(architecture.weight_layers)
    sigmas = [
        sigma_per_layer("sigma_w", sigma_w, layers),
        sigma_per_layer("sigma_b", sigma_b, layers),
    ]
    inputs, block = join_examples(x.detach().to("cpu", torch.float64), other)
    pairs = _LimitPairs(architecture, inputs, sigmas[0], sigmas[1])
    covariance, tangent = limits_by_pairs(block, pairs.at_once, pairs.row_limits)
    return LimitKernels(tangent, covariance)


@dataclass(frozen=True)
class _Gaussian:
    """Properties of a layer's distribution that are known: Gaussian, or at least centred."""

    gaussian: bool
    centred: bool


def _check_closed_form(architecture: arch.Architecture) -> None:
    """Raise `ArgumentError` at the first node whose limit has no closed form."""
    law = _Gaussian(False, False)
    pending: list[_Gaussian] = []
    for index, node in enumerate(architecture.nodes):
        where = f"Node {index} ({type(node).__name__})"
        match node:
            case arch.MaxPool() | arch.GlobalMaxPool():
                raise ArgumentError(
                    f"{where}: max pooling has no closed-form infinite-width limit, because the "
                    "maximum of correlated Gaussians has none; use average pooling.",
                    kind="not-supported",
                )
            case arch.ChannelScale():
                raise ArgumentError(
                    f"{where}: the infinite-width limit does not support BatchNorm that follows no "
                    "weight layer (scaled channels).",
                    kind="not-supported",
                )
            case arch.Conv(normal=True):
                raise ArgumentError(
                    f"{where}: the infinite-width limit does not support batch normalisation.",
                    kind="not-supported",
                )
            case arch.Dense(factor=factor) if factor != 1.0:
                raise ArgumentError(
                    f"{where} has the factor {factor:g}; multiply its sigma_w by it instead.",
                    kind="not-supported",
                )
            case arch.Dense() | arch.Conv():
                law = _Gaussian(True, True)
            case arch.Fork():
                pending.append(law)
            case arch.Skip():
                law, pending[-1] = pending[-1], law
            case arch.Merge():
                block = pending.pop()
                if not (block.centred or law.centred):
                    raise ArgumentError(
                        f"{where}: the block and its skip both end with a gate, so neither has "
                        "zero mean; leave the last layer of the block ungated.",
                        kind="not-supported",
                    )
                law = _Gaussian(block.gaussian and law.gaussian, block.centred and law.centred)
        if arch.is_gated(node):
            if not law.gaussian:
                raise ArgumentError(
                    f"{where}: the input of this gate is not Gaussian in the limit, so there is no "
                    "closed form: it is a sum with, or a mean of, rectified values. Project the "
                    "skip, or put activations before the weights of a block (pre-activation).",
                    kind="not-supported",
                )
            law = _Gaussian(False, False)


class _LimitPairs:
    """The limit recursion over pairs of inputs, with precomputed variances at every gate."""

    def __init__(
        self,
        architecture: arch.Architecture,
        inputs: Tensor,
        sigma_w: Sequence[float],
        sigma_b: Sequence[float],
    ) -> None:
        self.architecture, self.inputs = architecture, inputs
        self.sigma_w, self.sigma_b = sigma_w, sigma_b
        self.maps = len(architecture.input_shape) == 3
        pools = (arch.AveragePool, arch.GlobalAveragePool)
        self.flat = self.maps and not any(isinstance(node, pools) for node in architecture.nodes)
        shapes = [architecture.input_shape, *(shape for _, shape in architecture.shapes())]
        areas = [shape[1] * shape[2] for shape in shapes if len(shape) == 3]
        largest = max(areas, default=1)
        self.at_once = max(1, TILE_BYTES // (8 * (largest if self.flat else largest**2)))
        self.variances: list[Tensor] = []  # E[q_l²] at each gate, (n, ...)
        chunks = [self._gate_variances(left) for left in range(0, len(inputs), self.at_once)]
        self.variances = [torch.cat(parts) for parts in zip(*chunks, strict=True)]

    def row_limits(self, row: int, columns: slice) -> tuple[Tensor, Tensor]:
        """Compute covariance and tangent kernel of the pairs (row, s') for s' in `columns`.

        Returns:
            Covariance and tangent kernel of the outputs, `(B,)` each.
        """
        left, right = self.inputs[row : row + 1], self.inputs[columns]
        variances = [(layer[row : row + 1], layer[columns]) for layer in self.variances]
        itself = slice(0, int(columns.start == row))
        return self._propagate_limits(self._input_covariance(left, right), variances, itself)[0]

    def _gate_variances(self, left: int) -> list[Tensor]:
        """Compute the variances E[q_l²] of up to `at_once` examples at every gate."""
        some = self.inputs[left : left + self.at_once]
        return self._propagate_limits(
            self._input_covariance(some, some), None, slice(0, len(some))
        )[1]

    def _input_covariance(self, one: Tensor, many: Tensor) -> Tensor:
        """Compute Σ_0, the covariance of the inputs averaged over channels."""
        one = one.expand_as(many)
        if not self.maps:
            return (one * many).flatten(1).mean(1)
        pattern = "bcyx,bcyx->byx" if self.flat else "bcyx,bcvu->byxvu"
        return torch.einsum(pattern, one, many) / many.shape[1]

    def _propagate_limits(
        self, S: Tensor, variances: list[tuple[Tensor, Tensor]] | None, itself: slice
    ) -> tuple[tuple[Tensor, Tensor], list[Tensor]]:
        """Propagate covariance and tangent kernel from the inputs to the output.

        Args:
            S: Covariance of the inputs.
            variances: Variances of both sides at each gate. If `None`, the pairs are examples with
              themselves, and the variances are read off the diagonal of Σ.
            itself: Which of the pairs are an example with itself.

        Returns:
            Covariance and tangent kernel at the output, and the variances at each gate.
        """
        T, gate_variances = torch.zeros_like(S), []
        pending: list[tuple[Tensor, Tensor]] = []
        weight = 0
        for node in self.architecture.nodes:
            match node:
                case arch.Dense() | arch.Conv():
                    scale, shift = self.sigma_w[weight] ** 2, self.sigma_b[weight] ** 2
                    weight += 1
                    if isinstance(node, arch.Conv):
                        S, T = box_mean(S, node), box_mean(T, node)
                    # Σ ← σ_w²·Σ + σ_b²;  K̃ ← σ_w²·K̃ + Σ
                    S, T = scale * S, scale * T
                    S = S + shift
                    T = T + S
                case arch.AveragePool():
                    S, T = (both_windows(K, node) / node.kernel**4 for K in (S, T))
                case arch.GlobalAveragePool() | arch.Flatten():
                    S, T = _pool_kernel(S, node), _pool_kernel(T, node)
                case arch.Fork():
                    pending.append((S, T))
                case arch.Skip():
                    (S, T), pending[-1] = pending[-1], (S, T)
                case arch.Merge():
                    block = pending.pop()
                    # The block is uncorrelated with its skip, so covariances add:
                    # K ← γ_post²·(γ_pre²·block(K) + skip(K))
                    S, T = (
                        node.post**2 * (node.pre**2 * through + beside)
                        for through, beside in zip(block, (S, T), strict=True)
                    )
            if arch.is_gated(node):
                if variances is None:
                    variance = _map_diagonal(S)
                    gate_variances.append(variance)
                    row_variance = column_variances = variance
                else:
                    row_variance, column_variances = variances[len(gate_variances)]
                    gate_variances.append(row_variance)
                # Σ ← E[χχ'];  K̃ ← K̃ ⊙ E[χ'χ']
                S, slope = rectify_covariance(S, row_variance, column_variances, itself)
                S, T = S / 2, T * slope / 2
        return (S, T), gate_variances


def _map_diagonal(K: Tensor) -> Tensor:
    """Return K(p, p), `(B,)` for vectors and `(B, H, W)` for maps."""
    return torch.einsum("byxyx->byx", K) if K.dim() == 5 else K


def _pool_kernel(K: Tensor, node: arch.GlobalAveragePool | arch.Flatten) -> Tensor:
    """Pool a kernel of maps to `(B,)`: mean over all pairs of positions, or over p = p' only."""
    if K.dim() == 1:
        return K
    return (K if isinstance(node, arch.GlobalAveragePool) else _map_diagonal(K)).flatten(1).mean(1)
