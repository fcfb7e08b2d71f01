"""The convolutional tangent kernel of infinitely many channels (Arora et al. 2019; THEORY §6).

Legend: B pairs of examples, maps K (B, H, W, H', W') over pairs of positions; after flattening
only p = p' matters, and the maps are (B, H, W).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels import slabs
from dgn_engine.kernels.arguments import check_architecture, check_inputs
from dgn_engine.kernels.contraction import wrapped
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.infinite import LimitKernels, relu_moments
from dgn_engine.kernels.slabs import Real, Whole, box_sum
from dgn_engine.model import architecture as arch

_STEPS = 5
_1_PI = 1.0 / np.pi
# Numba compiles once per process, a few seconds; less work than this is done sooner without it.
WORTH_COMPILING = 1e8  # pairs of positions over all layers and pairs of examples
TILE_BYTES = 32 << 20


def _angle_over_sine() -> Real:
    """The polynomial of θ/sin θ in u = 2t - 1, for t = cos θ in [0, 1]: (4, 5).

    Row r holds the powers r, r + 4, … of u, highest first: four short chains instead of a long
    one. The function is smooth on [0, 1] and its nearest singularity is t = -1, so that its
    Chebyshev series falls by 5.8 a degree: nineteen reach 2e-15.
    """
    count = 4 * _STEPS
    nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    angle = np.arccos((nodes + 1) / 2)
    series = np.polynomial.Chebyshev.fit(nodes, angle / np.sin(angle), count - 1, domain=[-1, 1])
    powers = series.convert(kind=np.polynomial.Polynomial).coef
    return np.ascontiguousarray(powers.reshape(_STEPS, 4)[::-1].T)


_POWERS = _angle_over_sine()


# The convolutional limit kernel slab by slab, in the cache: the road of `cntk` where numba is.
#
# Σ and T of all pairs of positions never leave the cache (see `slabs`), and the arc cosine is a
# polynomial, so that a processor does several at once. Needs numba (the extra `fast`).
@cache
def compiled_pairs() -> Callable[..., None]:
    """The compiled loop over pairs of examples (see `_pairs` inside); releases the GIL."""
    import numba  # optional, and half a second to import

    jit: Callable[[Any], Any] = numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
    input_rows, wrap = jit(slabs.input_rows), jit(slabs.wrap)
    add_rows, total = jit(slabs.add_rows), jit(slabs.slab_total)
    window_means, rectify = jit(_window_means), jit(_rectify)

    def layer(
        S_below: Real,
        T_below: Real,
        S: Real,
        T: Real,
        level: Whole,
        beneath: Whole,
        geometry: Whole,
        shift: int,
        shift_below: int,
        one: Real,
        two: Real,
        itself: bool,
        S_sums: Real,
        T_sums: Real,
    ) -> None:
        height, cyclic, margin = level[0], level[2], level[3]
        kernel, stride = geometry[0], geometry[1]
        origin = 0 if cyclic else max(0, -shift)
        rows = height if cyclic else height - abs(shift)
        first = stride * origin - (0 if beneath[2] else max(0, -shift_below))
        pitch_below = beneath[1] + 2 * beneath[3]
        for row in range(rows):
            y = row + origin
            other = (y + shift) % height
            add_rows(S_below, first + stride * row, kernel, S_sums)
            add_rows(T_below, first + stride * row, kernel, T_sums)
            S_row, T_row = S[row + margin], T[row + margin]
            window_means(S_sums, pitch_below, kernel, stride, S_row, margin)
            window_means(T_sums, pitch_below, kernel, stride, T_row, margin)
            rectify(
                S_row,
                T_row,
                margin,
                one[0, y],
                one[1, y],
                two[0, other],
                two[1, other],
                itself and shift == 0,
            )

    layer = jit(layer)

    def _pairs(
        row: int,
        left: int,
        inputs: Real,
        deviations: Real,
        levels: Whole,
        layers: Whole,
        shifts: Whole,
        floats: int,
        covariance: Real,
        tangent: Real,
    ) -> None:
        """covariance[i], tangent[i]: the sums over all p, p' of Σ and T of pair (row, left + i).

        `deviations` (n, 2·positions of all layers): √E[q_l(p)²] and its inverse, layer by layer.
        """
        count = len(layers)
        S_memory, T_memory = np.zeros(floats), np.zeros(floats)
        widest = 0
        for place in range(count + 1):
            widest = max(widest, levels[place, 1] + 2 * levels[place, 3])
        S_sums, T_sums = np.zeros(widest * widest), np.zeros(widest * widest)
        for index in range(len(covariance)):
            column = left + index
            S_total, T_total = 0.0, 0.0
            S_below, T_below = S_memory[:0].reshape(-1, 1), T_memory[:0].reshape(-1, 1)
            for turn in range(len(shifts)):
                start = 0
                for place in range(count + 1):
                    level, shift = levels[place], shifts[turn, place]
                    area = (level[1] + 2 * level[3]) ** 2
                    stop = level[4] + (level[0] + 2 * level[3]) * area
                    S = S_memory[level[4] : stop].reshape(-1, area)
                    T = T_memory[level[4] : stop].reshape(-1, area)
                    if place == 0:
                        input_rows(inputs[row], inputs[column], S, level, shift)
                        T[:] = 0.0
                    else:
                        end = start + 2 * level[0] * level[1]
                        layer(
                            S_below,
                            T_below,
                            S,
                            T,
                            level,
                            levels[place - 1],
                            layers[place - 1],
                            shift,
                            shifts[turn, place - 1],
                            deviations[row, start:end].reshape(2, level[0], level[1]),
                            deviations[column, start:end].reshape(2, level[0], level[1]),
                            row == column,
                            S_sums,
                            T_sums,
                        )
                        start = end
                        wrap(T, level, shift)
                    wrap(S, level, shift)
                    S_below, T_below = S, T
                shift = shifts[turn, count]
                S_total += total(S_below, levels[count], shift, False)
                T_total += total(T_below, levels[count], shift, False)
            covariance[index], tangent[index] = S_total, T_total

    compiled: Callable[..., None] = jit(_pairs)
    return compiled


def _window_means(
    sums: Real, pitch: int, kernel: int, stride: int, target: Real, margin: int
) -> None:
    """The window's mean over x and x' together, for one y, into a row of a slab."""
    width, scale = (pitch - kernel) // stride + 1, 1.0 / (kernel * kernel)
    for x in range(width):
        left = (x + margin) * (width + 2 * margin) + margin
        line = target[left : left + width]
        first, step = x * stride * pitch, pitch + 1
        if kernel == 3 and stride == 1:
            one = sums[first : first + width]
            two = sums[first + step : first + step + width]
            three = sums[first + 2 * step : first + 2 * step + width]
            for far in range(width):
                line[far] = scale * (one[far] + two[far] + three[far])
        else:
            for far in range(width):
                value = 0.0
                for offset in range(kernel):
                    value += sums[first + offset * step + far * stride]
                line[far] = scale * value


def _rectify(
    S_row: Real,
    T_row: Real,
    margin: int,
    one: Real,
    one_inverse: Real,
    two: Real,
    two_inverse: Real,
    itself: bool,
) -> None:
    """In place, for one y: Σ becomes 2E[χχ'] and T becomes (T + Σ) ⊙ 2E[χ'χ'].

    `one` (x) and `two` (x'): deviations and their inverses. `itself`: x' = x is the same position
    of the same example, whose correlation is one exactly.
    """
    width = len(two)
    for x in range(width):
        left = (x + margin) * (width + 2 * margin) + margin
        S, T = S_row[left : left + width], T_row[left : left + width]
        mine, mine_inverse = one[x], one_inverse[x]
        kept = T[x] + S[x]
        for far in range(width):
            rho = S[far] * (mine_inverse * two_inverse[far])
            cosine = abs(rho)
            if cosine > 1.0:
                cosine = 1.0
            u = 2.0 * cosine - 1.0
            u2 = u * u
            u4 = u2 * u2
            a, b, c, d = _POWERS[0, 0], _POWERS[1, 0], _POWERS[2, 0], _POWERS[3, 0]
            for step in range(1, _STEPS):
                a = a * u4 + _POWERS[0, step]
                b = b * u4 + _POWERS[1, step]
                c = c * u4 + _POWERS[2, step]
                d = d * u4 + _POWERS[3, step]
            sine = np.sqrt((1.0 - cosine) * (1.0 + cosine)) * _1_PI
            turned = sine * ((a + u * b) + u2 * (c + u * d))
            slope = 1.0 - turned if rho >= 0.0 else turned
            T[far] = (T[far] + S[far]) * slope
            S[far] = mine * two[far] * sine + slope * S[far]
        if itself:
            S[x], T[x] = mine * two[x], kept


def map_limits(
    architecture: arch.Architecture,
    images: Tensor,
    variances: Sequence[Tensor],
    block: KernelBlock | None = None,
) -> tuple[Tensor, Tensor] | None:
    """Σ and T of a block of pairs after global average pooling, for images (n, C, H, W), float64 on
    the CPU.

    `variances[l]` (n, H, W) is E[q_l(p)²] of convolution l. Agrees with the plain road to 1e-12,
    and to 1e-8 where two different examples look the same through a window: there arccos near one
    halves the digits of either road. None where this road does not apply: no numba, little work,
    flattening (the plain road needs p = p' alone), paddings that alternate or exceed the window.
    """
    block = block or KernelBlock.whole(len(images))
    route = slabs.route(architecture)
    if route is None or route.flat or not route.complete or route.work(block) < WORTH_COMPILING:
        return None
    if not slabs.available():  # last: numba takes half a second and 60 MB
        return None
    both = []
    for layer in variances:
        deviation = layer.sqrt()
        inverse = torch.where(deviation > 0, 1.0 / deviation, 0.0)
        both.append(torch.stack([deviation, inverse], dim=1).flatten(1))
    deviations = np.ascontiguousarray(torch.cat(both, dim=1).numpy())
    inputs = np.ascontiguousarray(images.numpy())
    loop = compiled_pairs()
    covariance, tangent = np.zeros(block.shape), np.zeros(block.shape)

    def pairs(row: int, columns: slice) -> None:
        place, span = row - block.rows.start, block.column_places(columns)
        loop(
            row,
            columns.start,
            inputs,
            deviations,
            route.levels,
            route.layers,
            route.shifts,
            route.floats,
            covariance[place, span],
            tangent[place, span],
        )
        if block.symmetric:
            covariance[span, place] = covariance[place, span]
            tangent[span, place] = tangent[place, span]

    route.fill(pairs, block)
    pooled = float(variances[-1][0].numel()) ** 2
    return torch.from_numpy(covariance / pooled), torch.from_numpy(tangent / pooled)


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
            "The convolutional limit needs a network that starts with a convolution.",
            kind="not-supported",
        )
    last = architecture.nodes[-1]
    for node in architecture.nodes:
        if isinstance(node, (arch.Conv, arch.Dense)) and not node.gated and node is not last:
            raise ArgumentError(
                "The convolutional limit needs a gate behind every layer but the last.",
                kind="not-supported",
            )
        if not isinstance(node, (arch.Conv, arch.Dense, arch.Flatten, arch.GlobalAveragePool)):
            raise ArgumentError(
                f"The convolutional limit does not know {type(node).__name__}; use global average "
                "pooling or flattening.",
                kind="not-supported",
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
    images, block = joined_examples(images, other)
    variances = position_variances(architecture, images)
    fast = map_limits(architecture, images, variances, block)
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
        _pairs(architecture, images, variances, flat, row, slice(row, row + 1))[0]
        for row in range(len(images))
    ]
    own = torch.cat(found)
    return own[block.rows], own[block.columns]


def _map_limits(
    architecture: arch.Architecture, images: Tensor, variances: list[Tensor], block: KernelBlock
) -> tuple[Tensor, Tensor]:
    """Σ and T (n, m) after the pooling or flattening."""
    flat = any(isinstance(node, arch.Flatten) for node in architecture.nodes)
    pairs = partial(_pairs, architecture, images, variances, flat)
    return limits_by_pairs(block, _pairs_at_once(variances, flat), pairs)


def _pairs_at_once(variances: list[Tensor], flat: bool) -> int:
    positions = max(layer[0].numel() for layer in variances)
    return max(1, TILE_BYTES // (8 * (positions if flat else positions**2)))


def joined_examples(x: Tensor, other: Tensor | None) -> tuple[Tensor, KernelBlock]:
    """Both sets one after the other, and the block of these with the others; of x (n, ...), float64
    on the CPU."""
    n = len(x)
    if other is None:
        return x, KernelBlock.whole(n)
    both = torch.cat([x, other.detach().to("cpu", torch.float64)])
    return both, KernelBlock(slice(0, n), slice(n, len(both)))


def limits_by_pairs(
    block: KernelBlock, at_once: int, pairs: Callable[[int, slice], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Covariance and tangent (n, m) of a block, from those (B,) of a row with some columns."""
    covariance, tangent = (torch.zeros(block.shape, dtype=torch.float64) for _ in range(2))
    for row, columns in block.stretches(at_once):
        S, T = pairs(row, columns)
        place, span = row - block.rows.start, block.column_places(columns)
        covariance[place, span], tangent[place, span] = S, T
        if block.symmetric:
            covariance[span, place], tangent[span, place] = S, T
    return covariance, tangent


def position_variances(architecture: arch.Architecture, images: Tensor) -> list[Tensor]:
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
    stack, margin = wrapped(node, maps[:, None])
    stack = F.pad(stack, (margin,) * 4)
    return F.avg_pool2d(stack, node.kernel, node.stride)[:, 0]


def _pairs(
    architecture: arch.Architecture,
    images: Tensor,
    variances: list[Tensor],
    flat: bool,
    row: int,
    columns: slice,
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
