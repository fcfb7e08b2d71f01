"""The convolutional tangent kernel of infinitely many channels (Arora et al. 2019; THEORY §6).

Legend: B pairs of examples, maps K (B, H, W, H', W') over pairs of positions; after flattening
only p = p' matters, and the maps are (B, H, W).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels import cntk_slabs
from dgn_engine.kernels.arguments import check_architecture, check_inputs
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.infinite import LimitKernels, relu_moments
from dgn_engine.kernels.positions import box_sum
from dgn_engine.model import architecture as arch

TILE_BYTES = 32 << 20


def convolutional_limit(
    architecture: arch.Architecture, x: Tensor, other: Tensor | None = None
) -> LimitKernels:
    """The ReLU limit of a network with convolutions for x (n, C, H, W): (n, n), float64; against
    `other` (m, C, H, W) the block (n, m).

    Parametrisation: conv weights N(0, 2/(C·kernel²)) (the first N(0, 1/kernel²)), dense ones
    N(0, 2/inputs), each with gradients measured in units of its own standard deviation, every
    layer trained, global average pooling or flattening. `tangent` is mean(T ⊙ Σ̂ + Σ) as Arora
    et al. write it; gates after the pooling continue as in a dense network. One row of pairs at a
    time, symmetric half only, memory bounded.
    """
    check_architecture(architecture)
    check_inputs("x", x, architecture.input_shape)
    if other is not None:
        check_inputs("other", other, architecture.input_shape, like=x)
    if not isinstance(architecture.nodes[0], arch.Conv):
        raise ArgumentError(
            "The convolutional limit needs a network that starts with a convolution."
        )
    last = architecture.nodes[-1]
    for node in architecture.nodes:
        if isinstance(node, (arch.Conv, arch.Dense)) and not node.gated and node is not last:
            raise ArgumentError(
                "The convolutional limit needs a gate behind every layer but the last."
            )
        if not isinstance(node, (arch.Conv, arch.Dense, arch.Flatten, arch.GlobalAveragePool)):
            raise ArgumentError(
                f"The convolutional limit does not know {type(node).__name__}; use global average "
                "pooling or flattening."
            )
    images = x.detach().to("cpu", torch.float64)
    if other is None:
        single, kinds = images.unique(dim=0, return_inverse=True)  # type: ignore[no-untyped-call]
        if len(single) < len(images):  # repetitions are equal, not told apart by rounding
            found = convolutional_limit(architecture, single)
            covariance, tangent = (
                kernel[kinds][:, kinds] for kernel in (found.covariance, found.tangent)
            )
            return LimitKernels(tangent, covariance)
    n, block = len(images), KernelBlock.whole(len(images))
    if other is not None:
        images = torch.cat([images, other.detach().to("cpu", torch.float64)])
        block = KernelBlock(slice(0, n), slice(n, len(images)))
    variances = _variances(architecture, images)
    fast = cntk_slabs.map_limits(architecture, images, variances, block)
    covariance, tangent = fast or _map_limits(architecture, images, variances, block)
    gated = sum(isinstance(node, arch.Dense) and node.gated for node in architecture.nodes)
    # Rectifying keeps 2E[χ²] equal to the variance, so that these are those of every dense layer.
    own = _own_covariances(architecture, images, variances, covariance, block, gated > 0)
    for _ in range(gated):
        tangent = tangent + covariance
        covariance, slope = relu_moments(covariance, *own, block.symmetric)
        tangent = tangent * slope
    return LimitKernels(tangent + covariance, covariance)


def _own_covariances(
    architecture: arch.Architecture,
    images: Tensor,
    variances: list[Tensor],
    covariance: Tensor,
    block: KernelBlock,
    needed: bool,
) -> tuple[Tensor, Tensor]:
    """Σ of every example with itself after the pooling or flattening: of the rows, (n,), and of the
    columns, (m,)."""
    if block.symmetric or not needed:
        diagonal = covariance.diagonal().clone()
        return diagonal, diagonal
    flat = any(isinstance(node, arch.Flatten) for node in architecture.nodes)
    found = [
        _pairs(architecture, images, variances, row, slice(row, row + 1), flat)[0]
        for row in range(len(images))
    ]
    own = torch.cat(found)
    return own[block.rows], own[block.columns]


def _map_limits(
    architecture: arch.Architecture, images: Tensor, variances: list[Tensor], block: KernelBlock
) -> tuple[Tensor, Tensor]:
    """Σ and T (n, m) after the pooling or flattening."""
    flat = any(isinstance(node, arch.Flatten) for node in architecture.nodes)
    covariance, tangent = (torch.zeros(block.shape, dtype=torch.float64) for _ in range(2))
    for row in range(block.rows.start, block.rows.stop):
        for columns in _columns(variances, row, block, flat):
            S, T = _pairs(architecture, images, variances, row, columns, flat)
            place, span = row - block.rows.start, block.column_places(columns)
            covariance[place, span], tangent[place, span] = S, T
            if block.symmetric:
                covariance[span, place], tangent[span, place] = S, T
    return covariance, tangent


def _columns(variances: list[Tensor], row: int, block: KernelBlock, flat: bool) -> list[slice]:
    positions = max(layer[0].numel() for layer in variances)
    pairs = max(1, TILE_BYTES // (8 * (positions if flat else positions**2)))
    end = block.columns.stop
    return [
        slice(left, min(end, left + pairs)) for left in range(block.first_column(row), end, pairs)
    ]


def _variances(architecture: arch.Architecture, images: Tensor) -> list[Tensor]:
    """E[q_l(p)²] (n, H, W) of each convolution: rectifying keeps 2E[χ²] equal to it."""
    maps = images.square().sum(1)
    found = []
    for node in architecture.nodes:
        if isinstance(node, arch.Conv):
            maps = _window_mean(maps, node)
            found.append(maps)
    return found


def _window_mean(maps: Tensor, node: arch.Conv) -> Tensor:
    """Mean over the window, padding counted as zeros, for maps (B, H, W)."""
    stack, margin = maps[:, None], node.padding
    if node.circular and margin:
        stack, margin = F.pad(stack, (margin,) * 4, mode="circular"), 0
    stack = F.pad(stack, (margin,) * 4)
    return F.avg_pool2d(stack, node.kernel, node.stride)[:, 0]


def _pairs(
    architecture: arch.Architecture,
    images: Tensor,
    variances: list[Tensor],
    row: int,
    columns: slice,
    flat: bool,
) -> tuple[Tensor, Tensor]:
    """Covariance and tangent (B,) of pairs (row, s'), up to the pooling or flattening."""
    pattern = "cyx,bcyx->byx" if flat else "cyx,bcvu->byxvu"
    S = torch.einsum(pattern, images[row], images[columns])
    T = torch.zeros_like(S)
    layers = iter(variances)
    for node in architecture.nodes:
        match node:
            case arch.Conv():
                S, T = box_mean(S, node), box_mean(T, node)
                T = T + S
                v = next(layers)
                itself = slice(0, int(columns.start == row))
                S, slope = rectified(S, v[row : row + 1], v[columns], itself)
                T = T * slope
            case arch.GlobalAveragePool() | arch.Flatten():
                axes = tuple(range(1, S.dim()))
                return S.mean(axes), T.mean(axes)
            case arch.Dense():
                break
    raise AssertionError("a map must be pooled or flattened before a dense layer")


def box_mean(K: Tensor, node: arch.Conv) -> Tensor:
    """What a convolution does to a covariance: the mean over its window, both ends together."""
    if K.dim() == 3:
        return _window_mean(K, node)
    return box_sum(K, node) / node.kernel**2


def rectified(M: Tensor, one: Tensor, many: Tensor, itself: slice) -> tuple[Tensor, Tensor]:
    """2E[χχ'] and 2E[χ'χ'] for covariances M of vectors (B,), of maps (B, H, W) with p = p', or
    (B, H, W, H', W'), and variances (1 or B, ...), (B, ...).

    `itself`: these pairs are an example with itself, whose correlation at p = p' is one exactly.
    """
    pairs = M.dim() == 5
    if pairs:
        one, many = one[:, :, :, None, None], many[:, None, None]
    scale = (one * many).sqrt()
    rho = torch.where(scale > 0, M / scale, 0.0).clamp(-1.0, 1.0)
    if pairs:
        torch.einsum("byxyx->byx", rho)[itself] = 1.0
    else:
        rho[itself] = 1.0
    angle = torch.acos(rho)
    slope = (torch.pi - angle) / torch.pi
    return scale * ((1 - rho.square()).sqrt() / torch.pi + slope * rho), slope
