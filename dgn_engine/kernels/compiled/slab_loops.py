"""Loops over slabs that numba compiles, shared by the recursions of `popcount` and `cntk_slabs`.

Legend: a slab of level l is (rows, pitch²), a row for each y; inside it x is the slow and x' the
fast axis, both with the next layer's margin around them, pitch = width + 2·margin. `level` is a
row of `Route.levels`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def input_rows(one: Real, two: Real, slab: Real, level: Whole, shift: int) -> None:
    """Level 0: ⟨x(s,·,p), x(s',·,p')⟩ over channels, for maps (C, H, W)."""
    height, width, cyclic, margin = level[0], level[1], level[2], level[3]
    pitch = width + 2 * margin
    origin = 0 if cyclic else max(0, -shift)
    for row in range(height if cyclic else height - abs(shift)):
        y = row + origin
        other = (y + shift) % height
        for x in range(width):
            left = (x + margin) * pitch + margin
            target = slab[row + margin, left : left + width]
            target[:] = 0.0
            for channel in range(len(one)):
                value, line = one[channel, y, x], two[channel, other]
                for far in range(width):
                    target[far] += value * line[far]


def wrap(slab: Real, level: Whole, shift: int) -> None:
    """Fill the margins: copies where the level is cyclic; zeros below it otherwise (the other
    margins are never written)."""
    height, width, cyclic, margin = level[0], level[1], level[2], level[3]
    pitch = width + 2 * margin
    if not cyclic:
        rows = height - abs(shift)
        slab[margin + rows : 2 * margin + rows] = 0.0
        return
    for row in range(margin, margin + height):
        square = slab[row].reshape(pitch, pitch)
        for x in range(margin, margin + width):
            for step in range(margin):
                square[x, step] = square[x, width + step]
                square[x, margin + width + step] = square[x, margin + step]
        for step in range(margin):
            square[step] = square[width + step]
            square[margin + width + step] = square[margin + step]
    for step in range(margin):
        slab[step] = slab[height + step]
        slab[margin + height + step] = slab[margin + step]


def add_rows(below: Real, first: int, kernel: int, sums: Real) -> None:
    """The window's sum over y (and y' with it)."""
    if kernel == 3:
        one, two, three = below[first], below[first + 1], below[first + 2]
        for i in range(len(one)):
            sums[i] = one[i] + two[i] + three[i]
        return
    line = below[first]
    for i in range(len(line)):
        sums[i] = line[i]
    for offset in range(1, kernel):
        line = below[first + offset]
        for i in range(len(line)):
            sums[i] += line[i]


def total(slab: Real, level: Whole, shift: int, flat: bool) -> float:
    """The head: Σ over all p and p' (pooling), or over p = p' (flattening)."""
    height, width, cyclic = level[0], level[1], level[2]
    rows = height if cyclic else height - abs(shift)
    result = 0.0
    if flat:
        for row in range(rows):
            for x in range(width):
                result += slab[row, x * width + x]
        return result
    sums = np.zeros(width * width)
    for row in range(rows):
        line = slab[row]
        for i in range(len(line)):
            sums[i] += line[i]
    return float(sums.sum())
