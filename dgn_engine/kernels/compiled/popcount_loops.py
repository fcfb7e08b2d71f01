"""The inner loops of `popcount`, compiled by numba on first use; legend in `slab_loops`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dgn_engine.kernels.compiled import slab_loops
from dgn_engine.kernels.compiled.slab_loops import Real, Whole

Bits = npt.NDArray[np.uint64]

_ONES = np.uint64(0x5555555555555555)
_TWOS = np.uint64(0x3333333333333333)
_FOURS = np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


@cache
def pairs() -> Callable[..., None]:
    """The compiled loop over pairs of examples (see `_pairs` inside); releases the GIL."""
    import numba

    jit: Callable[[Any], Any] = numba.njit(nogil=True, error_model="numpy")
    input_rows, wrap = jit(slab_loops.input_rows), jit(slab_loops.wrap)
    add_rows, total = jit(slab_loops.add_rows), jit(slab_loops.total)
    count_bits = jit(_count_bits)
    box, box_of_three = jit(_box), jit(_box_of_three)

    def layer(
        one: Bits, two: Bits, below: Real, above: Real, level: Whole, beneath: Whole,
        geometry: Whole, scale: float, shift: int, shift_below: int, sums: Real, counts: Bits,
    ) -> None:  # fmt: skip
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
        row: int, left: int, bits: Bits, inputs: Real, levels: Whole, layers: Whole, scales: Real,
        shifts: Whole, floats: int, flat: bool, out: Real,
    ) -> None:  # fmt: skip
        """out[i] = K(row, left + i): all slabs of all pairs of one stretch of a row."""
        count = len(layers)
        memory = np.zeros(floats)
        widest = 0
        for place in range(count + 1):
            widest = max(widest, levels[place, 1] + 2 * levels[place, 3])
        sums, counts = np.zeros(widest * widest), np.zeros((widest, widest), dtype=np.uint64)
        for index in range(len(out)):
            result = 0.0
            below = memory[:0].reshape(-1, 1)
            for turn in range(len(shifts)):
                for place in range(count + 1):
                    level, shift = levels[place], shifts[turn, place]
                    pitch = level[1] + 2 * level[3]
                    size = (level[0] + 2 * level[3]) * pitch * pitch
                    slab = memory[level[4] : level[4] + size].reshape(-1, pitch * pitch)
                    if place == 0:
                        input_rows(inputs[row], inputs[left + index], slab, level, shift)
                    else:
                        words, start = layers[place - 1, 2], layers[place - 1, 3]
                        stop = start + level[0] * words * level[1]
                        layer(
                            bits[row, start:stop].reshape(level[0], words, level[1]),
                            bits[left + index, start:stop].reshape(level[0], words, level[1]),
                            below, slab, level, levels[place - 1], layers[place - 1],
                            scales[place - 1], shift, shifts[turn, place - 1], sums, counts,
                        )  # fmt: skip
                    wrap(slab, level, shift)
                    below = slab
                result += total(below, levels[count], shifts[turn, count], flat)
            out[index] = result

    compiled: Callable[..., None] = jit(_pairs)
    return compiled


def _count_bits(one: Bits, two: Bits, counts: Bits) -> None:
    """counts[x, x'] = Σ_c G(s, c, p) G(s', c, p') for bits (words, W): LLVM knows the pattern."""
    words, width = two.shape
    for x in range(width):
        count = counts[x]
        mine, line = one[0, x], two[0]
        for far in range(width):
            v = mine & line[far]
            v = v - ((v >> _1) & _ONES)
            v = (v & _TWOS) + ((v >> _2) & _TWOS)
            v = (v + (v >> _4)) & _FOURS
            count[far] = (v * _SUM) >> _56
        for word in range(1, words):
            mine, line = one[word, x], two[word]
            for far in range(width):
                v = mine & line[far]
                v = v - ((v >> _1) & _ONES)
                v = (v & _TWOS) + ((v >> _2) & _TWOS)
                v = (v + (v >> _4)) & _FOURS
                count[far] += (v * _SUM) >> _56


def _box_of_three(
    sums: Real, pitch: int, counts: Bits, scale: float, target: Real, margin: int
) -> None:
    """`_box` for windows of three and stride one, which compiles to full vectors."""
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
    sums: Real, pitch: int, kernel: int, stride: int, counts: Bits, scale: float, target: Real,
    margin: int,
) -> None:  # fmt: skip
    """τ times the window's sum over x and x' together."""
    width = (pitch - kernel) // stride + 1
    target_pitch = width + 2 * margin
    for x in range(width):
        left = (x + margin) * target_pitch + margin
        for far in range(width):
            value = 0.0
            for offset in range(kernel):
                value += sums[(x * stride + offset) * pitch + far * stride + offset]
            target[left + far] = scale * np.float64(np.int64(counts[x, far])) * value
