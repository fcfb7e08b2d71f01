"""The limit of infinite width for any chain with residual blocks and average pooling (THEORY §6).

Legend: B pairs of examples; K of vectors (B,), of maps over pairs of positions (B, H, W, H', W'),
or (B, H, W) where only p = p' matters, because nothing pools before the flattening.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_architecture, check_inputs
from dgn_engine.kernels.cntk import box_mean, joined_examples, limits_by_pairs, rectified
from dgn_engine.kernels.infinite import LimitKernels, Sigmas, each_sigma
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
    """The ReLU limit of an architecture as all its widths grow, for x (n, *input_shape): (n, n),
    float64; against `other` (m, *input_shape) the block (n, m).

    Dense layers and convolutions, with or without a gate, average pooling, global average pooling,
    flattening, residual blocks with identity or projected skips and their constants. NTK
    parametrisation: q = (σ_w/√fan-in)Wz + σ_b·b, W and b ~ N(0, 1); `sigma_w` and `sigma_b` for all
    weight layers or one for each. `covariance` is that of the outputs (NNGP), `tangent` the NTK of
    all weights and biases. A window of average pooling is a mean over both its positions; a block
    adds to its skip, because fresh weights of mean zero leave no covariance between the two.

    Raises `ArgumentError` where there is no closed form: max pooling (the largest of correlated
    Gaussians), a gate on a sum with a skip that was rectified, which is no Gaussian, and a block
    and a skip that both end behind gates, whose means do not vanish.
    Sources: Arora et al. 2019; Novak et al. 2020 (neural-tangents), which it was held against.
    """
    check_architecture(architecture)
    check_inputs("x", x, architecture.input_shape)
    if other is not None:
        check_inputs("other", other, architecture.input_shape, like=x)
    _check_closed_form(architecture)
    layers = len(architecture.weighted)
    sigmas = [each_sigma("sigma_w", sigma_w, layers), each_sigma("sigma_b", sigma_b, layers)]
    inputs, block = joined_examples(x.detach().to("cpu", torch.float64), other)
    pairs = _LimitPairs(architecture, inputs, sigmas[0], sigmas[1])
    covariance, tangent = limits_by_pairs(block, pairs.at_once, pairs.row)
    return LimitKernels(tangent, covariance)


@dataclass(frozen=True)
class _Gaussian:
    """What is known of a layer's law: a centred Gaussian, or at least of mean zero."""

    gaussian: bool
    centred: bool


def _check_closed_form(architecture: arch.Architecture) -> None:
    """Raise `ArgumentError` at the node whose limit is not known."""
    law = _Gaussian(False, False)
    waiting: list[_Gaussian] = []
    for place, node in enumerate(architecture.nodes):
        where = f"Node {place} ({type(node).__name__})"
        match node:
            case arch.MaxPool() | arch.GlobalMaxPool():
                raise ArgumentError(
                    f"{where}: max pooling has no closed form in the limit of infinite width, "
                    "because the largest of correlated Gaussians has none; use average pooling.",
                    kind="not-supported",
                )
            case arch.ChannelScale():
                raise ArgumentError(
                    f"{where}: the limit knows no scaled channels (BatchNorm).",
                    kind="not-supported",
                )
            case arch.Conv(normal=True):
                raise ArgumentError(
                    f"{where}: the limit knows no batch normalisation.", kind="not-supported"
                )
            case arch.Dense(factor=factor) if factor != 1.0:
                raise ArgumentError(
                    f"{where} has the factor {factor:g}; multiply its sigma_w by it instead.",
                    kind="not-supported",
                )
            case arch.Dense() | arch.Conv():
                law = _Gaussian(True, True)
            case arch.Fork():
                waiting.append(law)
            case arch.Skip():
                law, waiting[-1] = waiting[-1], law
            case arch.Merge():
                block = waiting.pop()
                if not (block.centred or law.centred):
                    raise ArgumentError(
                        f"{where}: the block and its skip both end behind gates, whose means do "
                        "not vanish; leave the last layer of the block without a gate.",
                        kind="not-supported",
                    )
                law = _Gaussian(block.gaussian and law.gaussian, block.centred and law.centred)
        if arch.is_gated(node):
            if not law.gaussian:
                raise ArgumentError(
                    f"{where}: this gate meets what is no Gaussian in the limit, for which there "
                    "is no closed form: a sum with a skip that was rectified before, or a mean of "
                    "what was. Project the skip, or put activations before the weights of a block.",
                    kind="not-supported",
                )
            law = _Gaussian(False, False)


class _LimitPairs:
    """The recursion for pairs of these inputs, whose own variances at every gate are known."""

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
        self.variances: list[Tensor] = []  # of each gate (n, ...)
        own = [self._own(left) for left in range(0, len(inputs), self.at_once)]
        self.variances = [torch.cat(parts) for parts in zip(*own, strict=True)]

    def row(self, row: int, columns: slice) -> tuple[Tensor, Tensor]:
        """Covariance and tangent (B,) of the outputs of (row, s') for s' in `columns`."""
        one, many = self.inputs[row : row + 1], self.inputs[columns]
        variances = [(each[row : row + 1], each[columns]) for each in self.variances]
        itself = slice(0, int(columns.start == row))
        return self._walk(self._start(one, many), variances, itself)[0]

    def _own(self, left: int) -> list[Tensor]:
        """The variances of some examples at every gate."""
        some = self.inputs[left : left + self.at_once]
        return self._walk(self._start(some, some), None, slice(0, len(some)))[1]

    def _start(self, one: Tensor, many: Tensor) -> Tensor:
        one = one.expand_as(many)
        if not self.maps:
            return (one * many).flatten(1).mean(1)
        pattern = "bcyx,bcyx->byx" if self.flat else "bcyx,bcvu->byxvu"
        return torch.einsum(pattern, one, many) / many.shape[1]

    def _walk(
        self, S: Tensor, variances: list[tuple[Tensor, Tensor]] | None, itself: slice
    ) -> tuple[tuple[Tensor, Tensor], list[Tensor]]:
        """Covariance and tangent at the output; and, where the variances are to be found, those of
        every gate. `itself`: these pairs are an example with itself."""
        T, found = torch.zeros_like(S), []
        waiting: list[tuple[Tensor, Tensor]] = []
        weight = 0
        for node in self.architecture.nodes:
            match node:
                case arch.Dense() | arch.Conv():
                    scale, shift = self.sigma_w[weight] ** 2, self.sigma_b[weight] ** 2
                    weight += 1
                    if isinstance(node, arch.Conv):
                        S, T = box_mean(S, node), box_mean(T, node)
                    S, T = scale * S, scale * T
                    S = S + shift
                    T = T + S
                case arch.AveragePool():
                    S, T = (both_windows(K, node) / node.kernel**4 for K in (S, T))
                case arch.GlobalAveragePool() | arch.Flatten():
                    S, T = _left(S, node), _left(T, node)
                case arch.Fork():
                    waiting.append((S, T))
                case arch.Skip():
                    (S, T), waiting[-1] = waiting[-1], (S, T)
                case arch.Merge():
                    block = waiting.pop()
                    S, T = (
                        node.post**2 * (node.pre**2 * through + beside)
                        for through, beside in zip(block, (S, T), strict=True)
                    )
            if arch.is_gated(node):
                if variances is None:
                    own = _diagonal(S)
                    found.append(own)
                    one = many = own
                else:
                    one, many = variances[len(found)]
                    found.append(one)
                S, slope = rectified(S, one, many, itself)
                S, T = S / 2, T * slope / 2
        return (S, T), found


def _diagonal(K: Tensor) -> Tensor:
    """K(p, p): (B,) of vectors, (B, H, W) of maps."""
    return torch.einsum("byxyx->byx", K) if K.dim() == 5 else K


def _left(K: Tensor, node: arch.GlobalAveragePool | arch.Flatten) -> Tensor:
    """What a pooling leaves of a map, (B,): the mean over all pairs of positions, or p = p'."""
    if K.dim() == 1:
        return K
    return (K if isinstance(node, arch.GlobalAveragePool) else _diagonal(K)).flatten(1).mean(1)
