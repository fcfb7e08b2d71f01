"""Recursions over pairs of positions, slab by slab: what keeps them in the cache.

A window moves both positions alike, so that rows y and y' = y + δ of a pair of examples never mix
with another δ: a recursion runs through all layers for one δ at a time. A level is what lies
between two layers; level 0 is the Gram matrix of the inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.model.architecture import Architecture, Conv, Flatten, GlobalAveragePool

Whole = npt.NDArray[np.int64]

PAIRS_AT_ONCE = 16  # between two of these the interpreter may interrupt


@dataclass(frozen=True)
class SlabRoute:
    """How slabs go through the layers.

    `levels` (L+1, 5): height, width, cyclic, margin of the next layer, offset of its slab;
    `layers` (L, 2): kernel, stride; `shifts` (T, L+1): δ at each level, without those that have
    no pair of rows at some level; `complete`: there were none such; `floats`: size of all slabs;
    `flat`: the head flattens.
    """

    levels: Whole
    layers: Whole
    shifts: Whole
    complete: bool
    floats: int
    flat: bool

    def work(self, block: KernelBlock) -> float:
        """Pairs of positions, over all layers and the pairs of examples of a block."""
        positions = (self.levels[1:, 0] * self.levels[1:, 1]).astype(float)
        n, m = block.shape
        return float((positions**2).sum()) * n * ((n + 1) / 2 if block.symmetric else m)

    def fill(self, pairs: Callable[[int, int, int], None], block: KernelBlock) -> None:
        """Call `pairs(row, left, right)` for stretches of the block, of a symmetric one for the
        upper half, on torch's threads; the numbers are those of the examples."""
        end = block.columns.stop
        places = [
            (row, left, min(end, left + PAIRS_AT_ONCE))
            for row in range(block.rows.start, block.rows.stop)
            for left in range(block.first_column(row), end, PAIRS_AT_ONCE)
        ]
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            for _ in pool.map(lambda place: pairs(*place), places):
                pass


@functools.cache
def available() -> bool:
    """Import numba and return whether it could be; it refuses a NumPy that is too new."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def route(architecture: Architecture) -> SlabRoute | None:
    """Levels, layers and displacements of a chain of convolutions; None where slabs would mix."""
    convolutions: list[Conv] = []
    shapes = [architecture.input_shape]
    head: object = None
    for node, shape in architecture.shapes():
        if not isinstance(node, Conv):
            head = node
            break
        if not node.gated:
            return None
        convolutions.append(node)
        shapes.append(shape)
    if not convolutions or not isinstance(head, (GlobalAveragePool, Flatten)):
        return None
    flat = isinstance(head, Flatten)
    cyclic = _cyclic(convolutions, shapes, flat)
    if cyclic is None:
        return None
    margins = [node.padding for node in convolutions] + [0]
    levels, floats = _levels(shapes, cyclic, margins)
    layers = np.array([(node.kernel, node.stride) for node in convolutions], dtype=np.int64)
    shifts, complete = _shifts(convolutions, levels, flat)
    return SlabRoute(levels, layers, shifts, complete, floats, flat)


def _cyclic(
    layers: Sequence[Conv], shapes: Sequence[tuple[int, ...]], flat: bool
) -> list[bool] | None:
    """Whether each level holds the pairs y' = (y + δ) mod height, rather than y' = y + δ.

    A circular layer needs its input so; a level above the inputs can be so only if its own layer
    is circular and strides around evenly.
    """
    count = len(layers)
    even = [True] + [
        layer.circular and layer.stride * shapes[place + 1][1] % shapes[place][1] == 0
        for place, layer in enumerate(layers)
    ]
    cyclic = [layer.circular for layer in layers] + [even[count] and not flat]
    if any(wanted and not possible for wanted, possible in zip(cyclic, even, strict=True)):
        return None
    return cyclic


def _levels(
    shapes: Sequence[tuple[int, ...]], cyclic: Sequence[bool], margins: Sequence[int]
) -> tuple[Whole, int]:
    """Two slabs take turns where levels are alike, so that both stay in the cache."""
    levels: list[tuple[int, int, int, int, int]] = []
    floats = 0
    for (_, height, width), wraps, margin in zip(shapes, cyclic, margins, strict=True):
        place = len(levels)
        alike = (height, width, int(wraps), margin)
        if place > 1 and levels[place - 2][:4] == alike:
            levels.append((*alike, levels[place - 2][4]))
            continue
        levels.append((*alike, floats))
        floats += (height + 2 * margin) * (width + 2 * margin) ** 2
    return np.array(levels, dtype=np.int64), floats


def _shifts(layers: Sequence[Conv], levels: Whole, flat: bool) -> tuple[Whole, bool]:
    """Every δ of the last level, followed down to the inputs, and whether none is empty."""
    height, _, wraps = levels[-1, :3]
    tops = range(1) if flat else range(0 if wraps else 1 - int(height), int(height))
    rows: list[list[int]] = []
    for top in tops:
        row = [top]
        for place in reversed(range(len(layers))):
            below = row[0] * layers[place].stride
            if levels[place, 2]:
                below %= int(levels[place, 0])
            row.insert(0, below)
        if all(abs(shift) < int(level[0]) for shift, level in zip(row, levels, strict=True)):
            rows.append(row)
    shifts = np.array(rows, dtype=np.int64).reshape(-1, len(layers) + 1)
    return shifts, len(rows) == len(tops)
