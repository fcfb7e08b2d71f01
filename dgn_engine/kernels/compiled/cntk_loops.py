"""The inner loops of `cntk_slabs`, compiled by numba on first use; legend in `slab_loops`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from dgn_engine.kernels.compiled import slab_loops
from dgn_engine.kernels.compiled.slab_loops import Real, Whole


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


_STEPS = 5
_POWERS = _angle_over_sine()
_1_PI = 1.0 / np.pi


@cache
def pairs() -> Callable[..., None]:
    """The compiled loop over pairs of examples (see `_pairs` inside); releases the GIL."""
    import numba  # optional, and half a second to import

    jit: Callable[[Any], Any] = numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
    input_rows, wrap = jit(slab_loops.input_rows), jit(slab_loops.wrap)
    add_rows, total = jit(slab_loops.add_rows), jit(slab_loops.total)
    window_means, rectify = jit(_window_means), jit(_rectify)

    def layer(
        S_below: Real, T_below: Real, S: Real, T: Real, level: Whole, beneath: Whole,
        geometry: Whole, shift: int, shift_below: int, one: Real, two: Real, itself: bool,
        S_sums: Real, T_sums: Real,
    ) -> None:  # fmt: skip
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
                S_row, T_row, margin, one[0, y], one[1, y], two[0, other], two[1, other],
                itself and shift == 0,
            )  # fmt: skip

    layer = jit(layer)

    def _pairs(
        row: int, left: int, inputs: Real, deviations: Real, levels: Whole, layers: Whole,
        shifts: Whole, floats: int, covariance: Real, tangent: Real,
    ) -> None:  # fmt: skip
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
                            S_below, T_below, S, T, level, levels[place - 1], layers[place - 1],
                            shift, shifts[turn, place - 1],
                            deviations[row, start:end].reshape(2, level[0], level[1]),
                            deviations[column, start:end].reshape(2, level[0], level[1]),
                            row == column, S_sums, T_sums,
                        )  # fmt: skip
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
    S_row: Real, T_row: Real, margin: int, one: Real, one_inverse: Real, two: Real,
    two_inverse: Real, itself: bool,
) -> None:  # fmt: skip
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
