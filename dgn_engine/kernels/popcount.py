"""The path-kernel recursion of convolutions with hard gates, on bits and in the cache.

Sixty-four channels form one word, τ is a bit count, and the recursion runs slab by slab (see
`slabs`) in float64. It needs numba (the extra `fast`); without it, `recursion` uses plain torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dgn_engine.kernels import slabs
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.slabs import Real, Whole
from dgn_engine.model.architecture import Architecture

Bits = npt.NDArray[np.uint64]

_ONES = np.uint64(0x5555555555555555)
_TWOS = np.uint64(0x3333333333333333)
_FOURS = np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
# Numba takes a few seconds per process to compile, which less work than this does not repay.
WORTH_COMPILING = 1e9  # pairs of positions, summed over layers and pairs of examples


@cache
def compiled_pairs() -> Callable[..., None]:
    """Compile the loop over pairs of examples (`_pairs` inside).

    Returns:
        The compiled function, which releases the GIL.
    """
    import numba

    jit: Callable[[Any], Any] = numba.njit(nogil=True, error_model="numpy")
    input_rows, wrap = jit(slabs.input_rows), jit(slabs.fill_margins)
    add_rows, total = jit(slabs.add_rows), jit(slabs.slab_total)
    count_bits = jit(_count_bits)
    box, box_of_three = jit(_box), jit(_box_of_three)

    def layer(
        one: Bits,
        two: Bits,
        below: Real,
        above: Real,
        level: Whole,
        beneath: Whole,
        geometry: Whole,
        scale: float,
        shift: int,
        shift_below: int,
        sums: Real,
        counts: Bits,
    ) -> None:
        height, cyclic, margin = level[0], level[2], level[3]
        kernel, stride = geometry[0], geometry[1]
        origin = 0 if cyclic else max(0, -shift)
        rows = height if cyclic else height - abs(shift)
        first = stride * origin - (0 if beneath[2] else max(0, -shift_below))
        pitch_below = beneath[1] + 2 * beneath[3]
        for row in range(rows):
            y = row + origin
            add_rows(below, first + stride * row, kernel, sums)
            count_bits(one[y], two[(y + shift) % height], counts)
            target = above[row + margin]
            if kernel == 3 and stride == 1:
                box_of_three(sums, pitch_below, counts, scale, target, margin)
            else:
                box(sums, pitch_below, kernel, stride, counts, scale, target, margin)

    layer = jit(layer)

    def _pairs(
        row: int,
        left: int,
        bits: Bits,
        inputs: Real,
        levels: Whole,
        layers: Whole,
        scales: Real,
        shifts: Whole,
        floats: int,
        flat: bool,
        out: Real,
    ) -> None:
        """Compute out[i] = K(row, left + i), all slabs of all pairs of one slice of a row."""
        count = len(layers)
        memory = np.zeros(floats)
        widest = 0
        for depth in range(count + 1):
            widest = max(widest, levels[depth, 1] + 2 * levels[depth, 3])
        sums, counts = np.zeros(widest * widest), np.zeros((widest, widest), dtype=np.uint64)
        for index in range(len(out)):
            result = 0.0
            below = memory[:0].reshape(-1, 1)
            for turn in range(len(shifts)):
                for depth in range(count + 1):
                    level, shift = levels[depth], shifts[turn, depth]
                    pitch = level[1] + 2 * level[3]
                    size = (level[0] + 2 * level[3]) * pitch * pitch
                    slab = memory[level[4] : level[4] + size].reshape(-1, pitch * pitch)
                    if depth == 0:
                        input_rows(inputs[row], inputs[left + index], slab, level, shift)
                    else:
                        words, start = layers[depth - 1, 2], layers[depth - 1, 3]
                        stop = start + level[0] * words * level[1]
                        layer(
                            bits[row, start:stop].reshape(level[0], words, level[1]),
                            bits[left + index, start:stop].reshape(level[0], words, level[1]),
                            below,
                            slab,
                            level,
                            levels[depth - 1],
                            layers[depth - 1],
                            scales[depth - 1],
                            shift,
                            shifts[turn, depth - 1],
                            sums,
                            counts,
                        )
                    wrap(slab, level, shift)
                    below = slab
                result += total(below, levels[count], shifts[turn, count], flat)
            out[index] = result

    compiled: Callable[..., None] = jit(_pairs)
    return compiled


def _count_bits(one: Bits, two: Bits, counts: Bits) -> None:
    """Compute counts[x, x'] = Σ_c G(s, c, p) G(s', c, p') for bits `(words, W)`.

    LLVM recognises the bit-counting pattern.
    """
    words, width = two.shape
    for x in range(width):
        count = counts[x]
        word_row, line = one[0, x], two[0]
        for far in range(width):
            v = word_row & line[far]
            v = v - ((v >> _1) & _ONES)
            v = (v & _TWOS) + ((v >> _2) & _TWOS)
            v = (v + (v >> _4)) & _FOURS
            count[far] = (v * _SUM) >> _56
        for word in range(1, words):
            word_row, line = one[word, x], two[word]
            for far in range(width):
                v = word_row & line[far]
                v = v - ((v >> _1) & _ONES)
                v = (v & _TWOS) + ((v >> _2) & _TWOS)
                v = (v + (v >> _4)) & _FOURS
                count[far] += (v * _SUM) >> _56


def _box_of_three(
    sums: Real, pitch: int, counts: Bits, scale: float, target: Real, margin: int
) -> None:
    """Compute `_box` for windows of three and stride one, which compiles to full vectors."""
    width = pitch - 2
    target_pitch = width + 2 * margin
    for x in range(width):
        first = x * pitch
        one = sums[first : first + width]
        two = sums[first + pitch + 1 : first + pitch + 1 + width]
        three = sums[first + 2 * pitch + 2 : first + 2 * pitch + 2 + width]
        left = (x + margin) * target_pitch + margin
        line, count = target[left : left + width], counts[x]
        for far in range(width):
            line[far] = (
                scale * np.float64(np.int64(count[far])) * (one[far] + two[far] + three[far])
            )


def _box(
    sums: Real,
    pitch: int,
    kernel: int,
    stride: int,
    counts: Bits,
    scale: float,
    target: Real,
    margin: int,
) -> None:
    """Multiply τ by the window sum over x and x' together."""
    width = (pitch - kernel) // stride + 1
    target_pitch = width + 2 * margin
    for x in range(width):
        left = (x + margin) * target_pitch + margin
        for far in range(width):
            value = 0.0
            for offset in range(kernel):
                value += sums[(x * stride + offset) * pitch + far * stride + offset]
            target[left + far] = scale * np.float64(np.int64(counts[x, far])) * value


def packed_maps(
    architecture: Architecture, gates: Sequence[Tensor], x_value: Tensor | None, whole: KernelBlock
) -> PackedMaps | None:
    """Pack gates as bits, if the recursion is faster with them.

    Args:
        architecture: The network.
        gates: Gates, `(n, C, H, W)` per convolution.
        x_value: Value input x^v, or `None` for Λ.
        whole: The block of all pairs that will be computed, which decides whether it pays.

    Returns:
        The packed gates, or `None` if this implementation does not apply: soft gates, another
        device, no numba, little work, pooling between layers, or alternating paddings.
    """
    if not gates or gates[0].device.type != "cpu":
        return None
    route = slabs.slab_route(architecture)
    if route is None or route.count_position_pairs(whole) < WORTH_COMPILING:
        return None
    gates = gates[: len(route.layers)]
    if not all(((layer == 0) | (layer == 1)).all() for layer in gates):  # soft gates
        return None
    if (
        not slabs.is_numba_available()
    ):  # checked last: importing numba takes half a second and 60 MB
        return None
    inputs = x_value
    if inputs is None:
        inputs = torch.ones((len(gates[0]), 1, *architecture.input_shape[1:]))
    return PackedMaps(route, gates, inputs)


class PackedMaps:
    """The map part of the recursion on bits, every τ divided by its width, in float64."""

    def __init__(self, route: slabs.SlabRoute, gates: Sequence[Tensor], inputs: Tensor) -> None:
        self._route = route
        self._images = np.ascontiguousarray(inputs.detach().double().numpy())
        layers, start = [], 0
        for (kernel, stride), layer in zip(route.layers, gates, strict=True):
            words = _word_count(layer)
            layers.append((kernel, stride, words, start))
            start += words * layer.shape[2] * layer.shape[3]
        self._table = np.array(layers, dtype=np.int64)
        self._bits = np.concatenate([_pack_bits(layer) for layer in gates], axis=1)
        self._scales = np.array([1.0 / layer.shape[1] for layer in gates])

    def kernel(self, block: KernelBlock) -> Tensor:
        """Compute the kernel of a block of pairs; of a symmetric block, the upper half.

        Args:
            block: The block.

        Returns:
            The kernel, `(n, m)`, float64.
        """
        route, kernel, loop = self._route, np.zeros(block.shape), compiled_pairs()

        def fill_pairs(row: int, columns: slice) -> None:
            out = kernel[row - block.rows.start, block.local_columns(columns)]
            loop(
                row,
                columns.start,
                self._bits,
                self._images,
                route.levels,
                self._table,
                self._scales,
                route.shifts,
                route.floats,
                route.flat,
                out,
            )

        route.run_stretches(fill_pairs, block)
        return torch.from_numpy(kernel)


def _word_count(gates: Tensor) -> int:
    """Return the number of 64-bit words per position."""
    return -(-gates.shape[1] // 64)


def _pack_bits(gates: Tensor) -> Bits:
    """Pack 0/1 gates `(n, C, H, W)` as bits along C, `(n, H·words·W)`, row by row."""
    n, channels, height, width = gates.shape
    padded = np.zeros((n, _word_count(gates) * 64, height, width), dtype=np.bool_)
    padded[:, :channels] = gates.detach().numpy() != 0
    octets = np.packbits(padded, axis=1).reshape(n, -1, 8, height, width)
    octets_last = np.ascontiguousarray(octets.transpose(0, 3, 1, 4, 2))  # (n, H, words, W, 8)
    return octets_last.view(np.uint64).reshape(n, -1)
