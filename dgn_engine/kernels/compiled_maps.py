"""The path-kernel recursion of convolutions in compiled loops, in the cache (see `slabs`).

τ of hard gates is a count of bits, 32 channels to a word. Their Λ and S are computed in integers as
long as path counts fit into 32 bits. Without numba, `recursion` does the same in plain torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dgn_engine.kernels import slabs
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.kernels.path_inputs import PathInputs
from dgn_engine.model.architecture import Architecture

Numbers = npt.NDArray[Any]
Real = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

# Less work than this does not repay loading the compiled loops.
WORTH_COMPILING = 2e8  # pairs of positions, summed over layers and pairs of examples
MOST_COUNTED = 2.0**31  # path counts of slabs are int32 below this
LARGEST = 1e280  # path counts above this might overflow
_WORD = 32  # channels in a word of bits
_LINE = 64  # bytes in a line of the cache
LANES = 32  # pairs of examples side by side; the bits of more would not stay in the cache


def compiled_maps(
    architecture: Architecture, inputs: PathInputs, whole: KernelBlock
) -> CompiledMaps | None:
    """Prepare the compiled recursion, if it applies and is faster.

    Args:
        architecture: The network.
        inputs: Gates, and x^v and sensitivities as needed.
        whole: The block of all pairs that will be computed, which decides whether it pays.

    Returns:
        The recursion of the map part, or `None` if this implementation does not apply: another
        device, no numba, little work, pooling between layers, or alternating paddings.
    """
    gates = inputs.gates
    if not gates or gates[0].device.type != "cpu" or gates[0].dtype not in _DTYPES:
        return None
    route = slabs.slab_route(architecture)
    if route is None or route.count_position_pairs(whole) < WORTH_COMPILING:
        return None
    count = len(route.layers)
    widths = [layer.shape[1] for layer in gates[:count]]
    if prod(map(float, widths)) * prod(route.layers[:, 0].astype(float) ** 2) > LARGEST:
        return None
    loops = slabs.compiled_loops()  # last, because it imports numba
    return None if loops is None else CompiledMaps(route, inputs, loops)


_DTYPES: dict[torch.dtype, type[np.floating[Any]]] = {
    torch.float32: np.float32,
    torch.float64: np.float64,
}


class CompiledMaps:
    """The map part of the recursion, every τ divided by its width.

    Args:
        route: The schedule of slabs.
        inputs: Gates, and x^v and sensitivities as needed.
        loops: `slab_loops`.
    """

    def __init__(self, route: slabs.SlabRoute, inputs: PathInputs, loops: Any) -> None:
        count = len(route.layers)
        self._route, self._loops = route, loops
        sides = [inputs.gates[:count]]
        if inputs.sensitivities is not None:
            sides.append(inputs.sensitivities[:count])
        self._widths = [layer.shape[1] for layer in sides[0]]
        self._is_dual = len(sides) > 1
        self._dtype: type[np.generic] = _DTYPES[sides[0][0].dtype]
        self._scale = 1.0
        self._is_image = False  # one size, zero padding, hard gates
        none = np.zeros((len(sides[0][0]), 0))
        bits: list[Numbers] = [none.astype(np.uint32)] * 2
        values: list[Numbers] = [none.astype(self._dtype)] * 2
        hard = all(bool(((layer == 0) | (layer == 1)).all()) for side in sides for layer in side)
        if hard:  # counts, to be divided by all widths at the end
            self._is_image = _has_one_size(route)
            most = self._largest_sum(sides, inputs.x_value is not None)
            self._dtype = np.int32 if most < MOST_COUNTED else np.float64
            self._scale = 1.0 / prod(self._widths)
            values = [none.astype(self._dtype)] * 2
        for place, side in enumerate(sides):
            if hard:
                bits[place] = _join_layers([_pack_bits(layer) for layer in side])
            else:
                scaled = [layer / layer.shape[1] ** 0.5 for layer in side]
                values[place] = _join_layers([layer.detach().numpy() for layer in scaled])
        images = (
            none[..., None, None] if inputs.x_value is None else inputs.x_value.detach().numpy()
        )
        precision = images.dtype if self._is_image else self._dtype
        self._arguments = (*bits, *values, np.ascontiguousarray(images, dtype=precision))
        rows, start = [], 0
        for (kernel, stride), width, level, below in zip(
            route.layers, self._widths, route.levels[1:], route.levels[:-1], strict=True
        ):
            depth = -(-width // _WORD) if hard else width
            rows.append((kernel, stride, depth, start, below[3], route.flat))
            start += depth * int(level[0] * level[1])
        self._layers = np.array(rows, dtype=np.int64)

    def _largest_sum(self, sides: Sequence[Sequence[Tensor]], has_inputs: bool) -> float:
        """Return a bound for every sum of path counts, or of their derivative.

        From the last layer down, K_l = τ_l ⊙ windows of K_{l+1} ≤ Π_{k≥l} max τ_k · Π_{k>l} r_k for
        windows of r_k positions, and τ is at most the number of open gates at a position.
        """
        windows = self._route.layers[:, 0].astype(float) ** 2
        terms = len(windows) if self._is_dual else 1
        if not self._is_image:
            return np.inf if has_inputs else float(terms * prod(windows) * prod(self._widths[:-1]))
        most = [[float(layer.sum(1).max()) for layer in side] for side in sides]
        opened = [max(1.0, *layer) for layer in zip(*most, strict=True)]
        return float(terms * prod(windows[1:]) * prod(opened) * (3 if has_inputs else 1))

    def kernels(self, block: KernelBlock) -> tuple[Tensor, Tensor | None]:
        """Compute the kernel of a block of pairs; of a symmetric block, the upper half.

        Args:
            block: The block.

        Returns:
            The kernel, and its derivative if there are sensitivities, `(n, m)` each, float64.
        """
        kernel, derivative = np.zeros(block.shape), np.zeros(block.shape)

        def fill_pairs(row: int, columns: slice) -> None:
            local = (row - block.rows.start, block.local_columns(columns))
            self._loops.path_sums(
                row,
                columns.start,
                *self._arguments,
                self._route.levels,
                self._layers,
                self._route.shifts,
                np.zeros((1 + self._is_dual, self._route.floats), self._dtype),
                kernel[local],
                derivative[local],
            )

        def fill_lanes(rows: Whole, columns: Whole) -> None:
            local = (rows - block.rows.start, columns - block.columns.start)
            kernel[local], derivative[local] = self._sum_lanes(rows, columns)

        if self._is_image:
            slabs.run_threads(fill_lanes, block.pair_groups(LANES))
        else:
            slabs.run_threads(fill_pairs, block.row_stretches(slabs.PAIRS_AT_ONCE))
        slopes = torch.from_numpy(derivative * self._scale) if self._is_dual else None
        return torch.from_numpy(kernel * self._scale), slopes

    def _sum_lanes(self, rows: Whole, columns: Whole) -> Real:
        """Return the sums over positions of some pairs of examples, side by side, `(2, pairs)`."""
        gate_bits, sensitivity_bits, *_, images = self._arguments
        lanes, (height, width) = len(rows), self._route.levels[0, :2]
        sides = [
            _side_by_side(side, examples)
            for side in (gate_bits, sensitivity_bits, images)
            for examples in (rows, columns)
        ]
        reals = _aligned_zeros((6, width * lanes), np.float64)
        self._loops.lane_sums(
            *sides[:4],
            *(side.reshape(-1, height * width * lanes) for side in sides[4:]),
            self._route.levels[0],
            self._layers,
            _aligned_zeros((6 * len(self._layers) + 3, (width + 2) * lanes), self._dtype),
            _aligned_zeros((3, width * lanes), np.int32),
            reals,
        )
        sums: Real = reals[:2].reshape(2, width, lanes).sum(1)
        return sums


def _side_by_side(numbers: Numbers, examples: Whole) -> Numbers:
    """Arrange the numbers of examples `(n, ...)` as `(numbers, examples)`."""
    flat = numbers.reshape(len(numbers), -1)
    result = _aligned_zeros((flat.shape[1], len(examples)), numbers.dtype)
    np.take(flat.T, examples, axis=1, out=result, mode="clip")  # any other mode makes a copy
    return result


def _aligned_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Numbers:
    """Return zeros that begin with a line of the cache, so that vectors do not straddle two."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def _has_one_size(route: slabs.SlabRoute) -> bool:
    """Return whether all maps have one size, and all windows are three wide and do not wrap."""
    windows = (route.layers == (3, 1)).all() and (route.levels[:-1, 3] == 1).all()
    return bool(windows and not route.levels[:, 2].any() and not route.flat)


def _pack_bits(gates: Tensor) -> Numbers:
    """Pack 0/1 gates `(n, C, H, W)` as bits along C, `(n, C/32, H, W)`."""
    n, channels, height, width = gates.shape
    words = -(-channels // _WORD)
    padded = np.zeros((n, words * _WORD, height, width), dtype=np.bool_)
    padded[:, :channels] = gates.detach().numpy() != 0
    octets = np.packbits(padded, axis=1).reshape(n, words, _WORD // 8, height, width)
    return np.ascontiguousarray(np.moveaxis(octets, 2, -1)).view(np.uint32)[..., 0]


def _join_layers(layers: Sequence[Numbers]) -> Numbers:
    """Join maps `(n, C, H, W)` of all layers as `(n, numbers)`, each layer (H, C, W)."""
    return np.concatenate(
        [layer.swapaxes(1, 2).reshape(len(layer), -1) for layer in layers], axis=1
    )
