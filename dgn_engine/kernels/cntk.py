"""The convolutional tangent kernel in the limit of infinitely many channels (theory §6).

Follows Arora et al. 2019. Legend: B pairs of examples; kernels of maps K are (B, H, W, H', W')
over pairs of positions. If the network flattens, only p = p' matters and they are (B, H, W).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels import slabs
from dgn_engine.kernels.arguments import check_architecture, check_inputs
from dgn_engine.kernels.contraction import pad_circular
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.infinite import LimitKernels, relu_moments
from dgn_engine.kernels.slabs import box_sum
from dgn_engine.model import architecture as arch

# Less work than this does not repay loading the compiled loops.
WORTH_COMPILING = 1e8  # pairs of positions, summed over layers and pairs of examples
TILE_BYTES = 32 << 20
CARD_SHARE = 40  # a tile may take this fraction of a card's free memory: there are about 15 copies


def map_limits(
    architecture: arch.Architecture,
    images: Tensor,
    variances: Sequence[Tensor],
    block: KernelBlock | None = None,
) -> tuple[Tensor, Tensor] | None:
    """Compute Σ and T of a block of pairs after global average pooling, with compiled loops.

    It agrees with the plain implementation to 1e-12, and to 1e-8 where two different examples look
    alike through a window: there arccos near one halves the digits of either implementation.

    Args:
        architecture: The network.
        images: Inputs, `(n, C, H, W)`, float64 on the CPU.
        variances: E[q_l(p)²] of each convolution l, `(n, H, W)`.
        block: Block of pairs to compute. Default: all pairs.

    Returns:
        Covariance and tangent kernel, or `None` where this implementation does not apply: no numba,
        little work, flattening (which needs p = p' only), or paddings that alternate or exceed the
        window.
    """
    block = block or KernelBlock.all_pairs(len(images))
    route = slabs.slab_route(architecture)
    if (
        route is None
        or route.flat
        or not route.complete
        or route.count_position_pairs(block) < WORTH_COMPILING
    ):
        return None
    slab_loops = slabs.compiled_loops()
    if slab_loops is None:
        return None
    stacked = []
    for layer in variances:
        deviation = layer.sqrt()
        inverse = torch.where(deviation > 0, 1.0 / deviation, 0.0)
        stacked.append(torch.stack([deviation, inverse], dim=1).flatten(1))
    deviations = np.ascontiguousarray(torch.cat(stacked, dim=1).numpy())
    inputs = np.ascontiguousarray(images.numpy())
    covariance, tangent = np.zeros(block.shape), np.zeros(block.shape)

    def fill_pairs(row: int, columns: slice) -> None:
        index, span = row - block.rows.start, block.local_columns(columns)
        slab_loops.limit_sums(
            row,
            columns.start,
            inputs,
            deviations,
            route.levels,
            route.layers,
            route.shifts,
            route.floats,
            covariance[index, span],
            tangent[index, span],
        )
        if block.is_symmetric:
            covariance[span, index] = covariance[index, span]
            tangent[span, index] = tangent[index, span]

    slabs.run_threads(fill_pairs, block.row_stretches(slabs.PAIRS_AT_ONCE))
    pooled = float(variances[-1][0].numel()) ** 2
    return torch.from_numpy(covariance / pooled), torch.from_numpy(tangent / pooled)


def convolutional_limit(
    architecture: arch.Architecture, x: Tensor, other: Tensor | None = None
) -> LimitKernels:
    """Compute the infinite-width ReLU limit (CNTK) of a network with convolutions.

    With S a covariance of maps and T its tangent kernel, both averaged over the window at each
    layer,

        T ← (T + S) ⊙ Ṡ,   S ← 2E[χ(q)χ(q')],   Ṡ = 2E[χ'(q)χ'(q')],   (q, q') ~ N(0, S),

    and after global average pooling `tangent` = mean(T + S), as Arora et al. write it. Gates after
    the pooling continue as in a dense network. The parametrisation is W ~ N(0, 2/(C·kernel²)) for
    convolutions (N(0, 1/kernel²) for the first) and N(0, 2/inputs) for dense layers, every gradient
    in units of its own standard deviation, and every layer trained.

    One row of pairs is computed at a time, for the symmetric half only, so memory is bounded.

    Args:
        architecture: Gated convolutions, global average pooling or flattening, then dense layers.
        x: Images, `(n, C, H, W)`.
        other: Second set of images, `(m, C, H, W)`. If `None`, `x` is compared with itself.

    Returns:
        `tangent` (the CNTK) and `covariance` (the NNGP kernel), `(n, n)` or `(n, m)`, float64.

    Raises:
        ArgumentError: The network has other layers, or a hidden layer without a gate.

    References:
        Arora et al. 2019, arXiv:1904.11955.
    """
    check_architecture(architecture)
    check_inputs("x", x, architecture.input_shape)
    if other is not None:
        check_inputs("other", other, architecture.input_shape, like=x)
    if not isinstance(architecture.nodes[0], arch.Conv):
        raise ArgumentError(
            "The convolutional limit needs a network whose first layer is a convolution.",
            kind="not-supported",
        )
    last = architecture.nodes[-1]
    for node in architecture.nodes:
        if isinstance(node, (arch.Conv, arch.Dense)) and not node.gated and node is not last:
            raise ArgumentError(
                "The convolutional limit needs a gate after every layer but the last.",
                kind="not-supported",
            )
        if not isinstance(node, (arch.Conv, arch.Dense, arch.Flatten, arch.GlobalAveragePool)):
            raise ArgumentError(
                f"The convolutional limit does not support {type(node).__name__}; use global "
                "average pooling or flattening.",
                kind="not-supported",
            )
    return limit_on_device(architecture, x, other)


def limit_on_device(
    architecture: arch.Architecture,
    x: Tensor,
    other: Tensor | None = None,
    device: torch.device | None = None,
) -> LimitKernels:
    """Compute `convolutional_limit` of checked arguments on a device with float64.

    Args:
        architecture: The network.
        x: Images, `(n, C, H, W)`.
        other: Second set of images, `(m, C, H, W)`.
        device: The device, without compiled loops. Default: the CPU, with them.

    Returns:
        The kernels on the CPU.
    """
    images = x.detach().to("cpu", torch.float64)
    if other is None:
        single, kinds = images.unique(dim=0, return_inverse=True)  # type: ignore[no-untyped-call]
        if len(single) < len(images):  # duplicates must not differ by rounding
            unique_limit = limit_on_device(architecture, single, device=device)
            covariance, tangent = (
                kernel[kinds][:, kinds]
                for kernel in (unique_limit.covariance, unique_limit.tangent)
            )
            return LimitKernels(tangent, covariance)
    images, block = join_examples(images, other)
    images = images.to(device or images.device)
    variances = position_variances(architecture, images)
    fast = None if device else map_limits(architecture, images, variances, block)
    covariance, tangent = fast or _map_limits(architecture, images, variances, block)
    gated = sum(isinstance(node, arch.Dense) and node.gated for node in architecture.nodes)
    # 2E[χ(q)²] = E[q²] for the ReLU: these are the variances at every dense layer, too.
    variances_of_pooled = _own_covariances(
        architecture, images, variances, covariance, block, gated > 0
    )
    for _ in range(gated):
        # T ← (T + Σ) ⊙ 2E[χ'χ'];  Σ ← 2E[χχ']
        tangent = tangent + covariance
        covariance, slope = relu_moments(covariance, *variances_of_pooled, block.is_symmetric)
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
    """Return Σ of each example with itself after the pooling: of rows `(n,)` and columns `(m,)`."""
    if block.is_symmetric or not needed:
        diagonal = covariance.diagonal().clone()
        return diagonal, diagonal
    flat = any(isinstance(node, arch.Flatten) for node in architecture.nodes)
    diagonals = [
        _map_pair_limits(architecture, images, variances, flat, row, slice(row, row + 1))[0]
        for row in range(len(images))
    ]
    covariances = torch.cat(diagonals).cpu()
    return covariances[block.rows], covariances[block.columns]


def _map_limits(
    architecture: arch.Architecture, images: Tensor, variances: list[Tensor], block: KernelBlock
) -> tuple[Tensor, Tensor]:
    """Compute Σ and T `(n, m)` after the pooling or flattening."""
    flat = any(isinstance(node, arch.Flatten) for node in architecture.nodes)
    pairs = partial(_map_pair_limits, architecture, images, variances, flat)
    return limits_by_pairs(block, _pairs_at_once(variances, flat), pairs)


def _pairs_at_once(variances: list[Tensor], flat: bool) -> int:
    """Return how many pairs of examples fit into a tile."""
    positions = max(layer[0].numel() for layer in variances)
    size = TILE_BYTES
    if variances[0].is_cuda:
        size = torch.cuda.mem_get_info(variances[0].device)[0] // CARD_SHARE
    return max(1, size // (8 * (positions if flat else positions**2)))


def join_examples(x: Tensor, other: Tensor | None) -> tuple[Tensor, KernelBlock]:
    """Concatenate two sets of examples.

    Args:
        x: First set, `(n, ...)`, float64 on the CPU.
        other: Second set, `(m, ...)`, or `None`.

    Returns:
        Both sets, `(n + m, ...)`, and the block of the first with the second; without a second set,
        `x` and the symmetric block of all its pairs.
    """
    n = len(x)
    if other is None:
        return x, KernelBlock.all_pairs(n)
    both = torch.cat([x, other.detach().to("cpu", torch.float64)])
    return both, KernelBlock(slice(0, n), slice(n, len(both)))


def limits_by_pairs(
    block: KernelBlock, at_once: int, pairs: Callable[[int, slice], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Compute a block of limit kernels row by row.

    Args:
        block: The block of pairs.
        at_once: Maximum number of pairs per call.
        pairs: Function of a row and a slice of columns that returns covariance and tangent kernel,
          `(B,)` each.

    Returns:
        Covariance and tangent kernel, `(n, m)` each, float64.
    """
    covariance, tangent = (torch.zeros(block.shape, dtype=torch.float64) for _ in range(2))
    for row, columns in block.row_stretches(at_once):
        S, T = pairs(row, columns)
        index, span = row - block.rows.start, block.local_columns(columns)
        covariance[index, span], tangent[index, span] = S, T
        if block.is_symmetric:
            covariance[span, index], tangent[span, index] = S, T
    return covariance, tangent


def position_variances(architecture: arch.Architecture, images: Tensor) -> list[Tensor]:
    """Compute E[q_l(p)²] of each convolution.

    The ReLU preserves it, 2E[χ(q)²] = E[q²], so it is a repeated window mean of |x(p)|².

    Args:
        architecture: The network.
        images: Inputs, `(n, C, H, W)`.

    Returns:
        One tensor `(n, H, W)` per convolution.
    """
    maps = images.square().sum(1)
    variances = []
    for node in architecture.nodes:
        if isinstance(node, arch.Conv):
            maps = _window_mean(maps, node)
            variances.append(maps)
    return variances


def _window_mean(maps: Tensor, node: arch.Conv) -> Tensor:
    """Average maps `(B, H, W)` over the window, with padding counted as zeros."""
    stack, margin = pad_circular(node, maps[:, None])
    stack = F.pad(stack, (margin,) * 4)
    return F.avg_pool2d(stack, node.kernel, node.stride)[:, 0]


def _map_pair_limits(
    architecture: arch.Architecture,
    images: Tensor,
    variances: list[Tensor],
    flat: bool,
    row: int,
    columns: slice,
) -> tuple[Tensor, Tensor]:
    """Compute Σ and T `(B,)` of the pairs (row, s') up to the pooling or flattening."""
    pattern = "cyx,bcyx->byx" if flat else "cyx,bcvu->byxvu"
    S = torch.einsum(pattern, images[row], images[columns])
    T = torch.zeros_like(S)
    layers = iter(variances)
    for node in architecture.nodes:
        match node:
            case arch.Conv():
                # Σ ← mean over the window;  T ← (mean of T + Σ) ⊙ 2E[χ'χ'];  Σ ← 2E[χχ']
                S, T = box_mean(S, node), box_mean(T, node)
                T = T + S
                v = next(layers)
                itself = slice(0, int(columns.start == row))
                S, slope = rectify_covariance(S, v[row : row + 1], v[columns], itself)
                T = T * slope
            case arch.GlobalAveragePool() | arch.Flatten():
                axes = tuple(range(1, S.dim()))
                return S.mean(axes), T.mean(axes)
            case arch.Dense():
                break
    raise AssertionError("a map must be pooled or flattened before a dense layer")


def box_mean(K: Tensor, node: arch.Conv) -> Tensor:
    """Apply a convolution to a covariance: the mean over its window, at both ends together.

    Args:
        K: Covariance of maps, `(B, H, W)` or `(B, H, W, H', W')`.
        node: The convolution.

    Returns:
        The covariance of its outputs, in the same layout.
    """
    if K.dim() == 3:
        return _window_mean(K, node)
    return box_sum(K, node) / node.kernel**2


def rectify_covariance(
    M: Tensor, one: Tensor, many: Tensor, itself: slice
) -> tuple[Tensor, Tensor]:
    """Compute the moments of the ReLU for Gaussian maps or vectors, in closed form.

        2E[χχ']   = √(vv') sin θ/π + (1 − θ/π) M,   cos θ = M/√(vv'),
        2E[χ'χ']  = 1 − θ/π.

    Args:
        M: Covariances of vectors `(B,)`, of maps at p = p' `(B, H, W)`, or of maps
          `(B, H, W, H', W')`.
        one: Variances v on the left, `(1, ...)` or `(B, ...)`.
        many: Variances v' on the right, `(B, ...)`.
        itself: Pairs of an example with itself, whose correlation at p = p' is exactly one.

    Returns:
        2E[χχ'] and 2E[χ'χ'], both in the layout of `M`.
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
