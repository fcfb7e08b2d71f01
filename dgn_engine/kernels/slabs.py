"""Recursions over pairs of positions, slab by slab, so that they stay in the cache.

A window moves both positions alike, so rows y and y' = y + δ of a pair of examples never mix with
another δ: the recursion runs through all layers for one δ at a time. A level lies between two
layers; level 0 is the Gram matrix of the inputs.

Legend: a slab of level l is (rows, pitch²), one row for each y; inside it x is the slow and x' the
fast axis, both with the next layer's margin around them, pitch = width + 2·margin. `level` is a
row of `SlabRoute.levels`. The module starts with the effect of one layer and one pooling on K
(B, H, W, H', W'), for B pairs of examples and C channels, in plain torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import add
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.kernels.gram import KernelBlock, accumulator_dtype
from dgn_engine.model import architecture as arch

Real = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
PAIRS_AT_ONCE = 16  # pairs per call, between which Python can handle interrupts


def both_windows(K: Tensor, node: arch.AveragePool) -> Tensor:
    """Sum over the windows of an average pooling at both ends independently.

    The sums count paths; the mean's 1/kernel⁴ belongs to β.

    Args:
        K: Kernel of maps, `(B, H, W, H', W')`.
        node: The pooling.

    Returns:
        The pooled kernel, in the same layout.
    """
    for ends in ((1, 2, 3, 4), (3, 4, 1, 2)):
        K = K.permute(0, *ends)
        batch, high, wide = K.shape[0], K.shape[1], K.shape[2]
        maps = K.reshape(batch * high * wide, 1, *K.shape[3:])
        summed = F.avg_pool2d(maps, node.kernel, node.stride) * node.kernel**2
        K = summed.reshape(batch, high, wide, *summed.shape[2:])
        K = K if ends[0] == 1 else K.permute(0, 3, 4, 1, 2)
    return K


def sum_all_positions(K: Tensor) -> Tensor:
    """Sum a kernel over all p and p', as global pooling does.

    Args:
        K: Kernel of maps, `(B, H, W, H', W')`.

    Returns:
        The sums, `(B,)`, float64.
    """
    return K.sum(dim=(1, 2, 3, 4), dtype=accumulator_dtype(K))


def sum_equal_positions(K: Tensor) -> Tensor:
    """Sum a kernel over p = p', as flattening does.

    Args:
        K: Kernel of maps, `(B, H, W, H, W)`.

    Returns:
        The sums, `(B,)`, float64.
    """
    return torch.einsum("byxyx->b", K.to(accumulator_dtype(K)))


def position_gram(maps: Tensor, row: int, columns: slice) -> Tensor:
    """Compute ⟨m(s, ·, p), m(s', ·, p')⟩ over channels for one example with several.

    Args:
        maps: Maps, `(n, C, H, W)`.
        row: Example s.
        columns: Examples s'.

    Returns:
        The products, `(B, H, W, H, W)`.
    """
    height, width = maps.shape[2:]
    row_maps = maps[row].flatten(1)
    column_maps = maps[columns].flatten(2)
    gram = row_maps.T @ column_maps
    return gram.reshape(-1, height, width, height, width)


def box_sum(K: Tensor, node: arch.Conv) -> Tensor:
    """Apply a convolution with unit weights to a kernel: Σ_r K[p + r; p' + r] over the window.

    The sum is separable in the two axes.

    Args:
        K: Kernel of maps, `(B, H, W, H', W')`.
        node: The convolution.

    Returns:
        The sums at the output positions, in the same layout.
    """
    margin = node.padding
    if margin:
        K = _pad_pairs(K, margin, node.circular)
    for axis in (1, 2):
        K = _window_sum(K, axis, node.kernel, node.stride)
    return K


def _pad_pairs(K: Tensor, margin: int, circular: bool) -> Tensor:
    """Pad all four spatial axes of a kernel."""
    if not circular:
        return F.pad(K, (margin,) * 8)
    for axis in (1, 2, 3, 4):
        side = K.shape[axis]
        K = torch.cat([K.narrow(axis, side - margin, margin), K, K.narrow(axis, 0, margin)], axis)
    return K


def _window_sum(K: Tensor, axis: int, kernel: int, stride: int) -> Tensor:
    """Sum over the window along one axis of both positions together."""
    steps = (K.shape[axis] - kernel) // stride
    parts = []
    for offset in range(kernel):
        index = [slice(None)] * 5
        index[axis] = index[axis + 2] = slice(offset, offset + steps * stride + 1, stride)
        parts.append(K[tuple(index)])
    total: Tensor = functools.reduce(add, parts)
    return total


@dataclass(frozen=True)
class SlabRoute:
    """The schedule of slabs through the layers.

    Attributes:
        levels: `(L+1, 5)`: height, width, cyclic, margin of the next layer, offset of its slab.
        layers: `(L, 2)`: kernel, stride.
        shifts: `(T, L+1)`: δ at each level, without those that have no pair of rows at some level.
        complete: Whether there were none of the latter.
        floats: Size of all slabs.
        flat: Whether the head flattens.
    """

    levels: Whole
    layers: Whole
    shifts: Whole
    complete: bool
    floats: int
    flat: bool

    def count_position_pairs(self, block: KernelBlock) -> float:
        """Count the pairs of positions, over all layers and all pairs of examples of a block.

        Args:
            block: The block.

        Returns:
            The count.
        """
        positions = (self.levels[1:, 0] * self.levels[1:, 1]).astype(float)
        n, m = block.shape
        return float((positions**2).sum()) * n * ((n + 1) / 2 if block.is_symmetric else m)


def run_threads(work: Callable[..., None], calls: Iterable[tuple[Any, ...]]) -> None:
    """Call a function with each of several lists of arguments, on torch's threads.

    Args:
        work: The function, which releases the GIL.
        calls: The arguments.
    """
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for _ in pool.map(lambda arguments: work(*arguments), list(calls)):
            pass


@functools.cache
def compiled_loops() -> ModuleType | None:
    """Import the loops that numba compiles, which takes half a second and 60 MB.

    Returns:
        `slab_loops`, or `None` without numba, which refuses a NumPy that is too new, with one that
        has other options, or with one that must not compile (`NUMBA_DISABLE_JIT`).
    """
    try:
        from dgn_engine.kernels import slab_loops
    except (ImportError, AttributeError, KeyError):
        return None
    return slab_loops if slab_loops.may_compile() else None


def slab_route(architecture: arch.Architecture) -> SlabRoute | None:
    """Find the levels, layers and displacements of a chain of convolutions.

    Args:
        architecture: The network.

    Returns:
        The route, or `None` if slabs would mix.
    """
    convolutions: list[arch.Conv] = []
    shapes = [architecture.input_shape]
    head: object = None
    for node, shape in architecture.shapes():
        if not isinstance(node, arch.Conv):
            head = node
            break
        if not node.gated:
            return None
        convolutions.append(node)
        shapes.append(shape)
    if not convolutions or not isinstance(head, (arch.GlobalAveragePool, arch.Flatten)):
        return None
    flat = isinstance(head, arch.Flatten)
    cyclic = _cyclic_levels(convolutions, shapes, flat)
    if cyclic is None:
        return None
    margins = [node.padding for node in convolutions] + [0]
    levels, floats = _level_table(shapes, cyclic, margins)
    layers = np.array([(node.kernel, node.stride) for node in convolutions], dtype=np.int64)
    shifts, complete = _shift_table(convolutions, levels, flat)
    return SlabRoute(levels, layers, shifts, complete, floats, flat)


def _cyclic_levels(
    layers: Sequence[arch.Conv], shapes: Sequence[tuple[int, ...]], flat: bool
) -> list[bool] | None:
    """Return whether each level has the pairs y' = (y + δ) mod height rather than y' = y + δ.

    A circular layer needs a cyclic input; a level above the inputs can be cyclic only if its own
    layer is circular and strides around evenly. `None` if these conflict.
    """
    count = len(layers)
    even = [True] + [
        layer.circular and layer.stride * shapes[index + 1][1] % shapes[index][1] == 0
        for index, layer in enumerate(layers)
    ]
    cyclic = [layer.circular for layer in layers] + [even[count] and not flat]
    if any(wanted and not possible for wanted, possible in zip(cyclic, even, strict=True)):
        return None
    return cyclic


def _level_table(
    shapes: Sequence[tuple[int, ...]], cyclic: Sequence[bool], margins: Sequence[int]
) -> tuple[Whole, int]:
    """Lay out the slabs of all levels in memory.

    Equal levels alternate between two slabs, so that both stay in the cache.
    """
    levels: list[tuple[int, int, int, int, int]] = []
    floats = 0
    for (_, height, width), wraps, margin in zip(shapes, cyclic, margins, strict=True):
        index = len(levels)
        key = (height, width, int(wraps), margin)
        if index > 1 and levels[index - 2][:4] == key:
            levels.append((*key, levels[index - 2][4]))
            continue
        levels.append((*key, floats))
        floats += (height + 2 * margin) * (width + 2 * margin) ** 2
    return np.array(levels, dtype=np.int64), floats


def _shift_table(layers: Sequence[arch.Conv], levels: Whole, flat: bool) -> tuple[Whole, bool]:
    """Follow every δ of the last level down to the inputs; also return whether none is empty."""
    height, _, wraps = levels[-1, :3]
    tops = range(1) if flat else range(0 if wraps else 1 - int(height), int(height))
    rows: list[list[int]] = []
    for top in tops:
        row = [top]
        for index in reversed(range(len(layers))):
            below = row[0] * layers[index].stride
            if levels[index, 2]:
                below %= int(levels[index, 0])
            row.insert(0, below)
        if all(abs(shift) < int(level[0]) for shift, level in zip(row, levels, strict=True)):
            rows.append(row)
    shifts = np.array(rows, dtype=np.int64).reshape(-1, len(layers) + 1)
    return shifts, len(rows) == len(tops)
