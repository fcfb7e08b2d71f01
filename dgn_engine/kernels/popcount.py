"""The path-kernel recursion of convolutions with hard gates, on bits and in the cache.

Sixty-four channels are one word, τ is a count of bits, and the recursion runs slab by slab (see
`slabs`) in float64. Needs numba (the extra `fast`); without it `recursion` goes its plain road.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dgn_engine.kernels import slabs
from dgn_engine.kernels.compiled import popcount_loops
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.model.architecture import Architecture

Bits = npt.NDArray[np.uint64]

# Numba compiles once per process, a few seconds; less work than this is done sooner without it.
WORTH_COMPILING = 1e9  # pairs of positions over all layers and pairs of examples


def packed_maps(
    architecture: Architecture, gates: Sequence[Tensor], x_value: Tensor | None, whole: KernelBlock
) -> PackedMaps | None:
    """Gates as bits, where blocks that make up the `whole` go faster with them.

    None where this road does not apply: soft gates, another device, no numba, little work,
    pooling between the layers, or paddings that alternate so that slabs would mix.
    """
    if not gates or gates[0].device.type != "cpu":
        return None
    route = slabs.route(architecture)
    if route is None or route.work(whole) < WORTH_COMPILING:
        return None
    gates = gates[: len(route.layers)]
    if not all(((layer == 0) | (layer == 1)).all() for layer in gates):  # soft gates
        return None
    if not slabs.available():  # last: numba takes half a second and 60 MB
        return None
    inputs = x_value
    if inputs is None:
        inputs = torch.ones((len(gates[0]), 1, *architecture.input_shape[1:]))
    return PackedMaps(route, gates, inputs)


class PackedMaps:
    """The map part of the recursion on bits, every τ divided by its width; float64."""

    def __init__(self, route: slabs.SlabRoute, gates: Sequence[Tensor], inputs: Tensor) -> None:
        self._route = route
        self._images = np.ascontiguousarray(inputs.detach().double().numpy())
        layers, start = [], 0
        for (kernel, stride), layer in zip(route.layers, gates, strict=True):
            words = _words(layer)
            layers.append((kernel, stride, words, start))
            start += words * layer.shape[2] * layer.shape[3]
        self._table = np.array(layers, dtype=np.int64)
        self._bits = np.concatenate([_packed(layer) for layer in gates], axis=1)
        self._scales = np.array([1.0 / layer.shape[1] for layer in gates])

    def kernel(self, block: KernelBlock) -> Tensor:
        """Of a block, of a symmetric one the upper half."""
        route, kernel, loop = self._route, np.zeros(block.shape), popcount_loops.pairs()

        def pairs(row: int, left: int, right: int) -> None:
            out = kernel[row - block.rows.start, block.column_places(slice(left, right))]
            loop(
                row, left, self._bits, self._images, route.levels, self._table, self._scales,
                route.shifts, route.floats, route.flat, out,
            )  # fmt: skip

        route.fill(pairs, block)
        return torch.from_numpy(kernel)


def _words(gates: Tensor) -> int:
    return -(-gates.shape[1] // 64)


def _packed(gates: Tensor) -> Bits:
    """0/1 gates (n, C, H, W) as bits along C: (n, H·words·W), the words of a row y together."""
    n, channels, height, width = gates.shape
    padded = np.zeros((n, _words(gates) * 64, height, width), dtype=np.bool_)
    padded[:, :channels] = gates.detach().numpy() != 0
    octets = np.packbits(padded, axis=1).reshape(n, -1, 8, height, width)
    octets_last = np.ascontiguousarray(octets.transpose(0, 3, 1, 4, 2))  # (n, H, words, W, 8)
    return octets_last.view(np.uint64).reshape(n, -1)
