"""The path-kernel recursion that Λ, S and the NPK share (THEORY §3 and §5).

Legend: n examples, P = H·W positions of a map, C channels, B pairs handled at once. Every layer's
τ is divided by its width on the way, so that nothing overflows; `normalised` multiplies it back.
A residual block turns K into post²(pre²·block(K) + K): all 2ᵇ sub-networks at the cost of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.architecture import (
    Architecture,
    AveragePool,
    Conv,
    Dense,
    Flatten,
    Fork,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
)
from dgn_engine.kernels import popcount
from dgn_engine.kernels.blocks import Blocks, widths_outside_blocks
from dgn_engine.kernels.gram import accumulator, input_gram
from dgn_engine.kernels.positions import (
    Gated,
    both_windows,
    box_sum,
    position_gram,
    same_place,
    total,
)
from dgn_engine.kernels.tiles import mirror, row_tiles
from dgn_engine.refusal import Refusal

TILE_BYTES = 4 << 20  # one tile of pairs stays in the cache: measured faster than larger ones


@dataclass(frozen=True)
class PathKernels:
    """`kernel`: the recursion's result (n, n); `derivative`: its derivative under
    GGᵀ → GGᵀ + εDDᵀ at ε = 0, where sensitivities D were given; `widths` = Π w_l over the layers
    outside residual blocks."""

    kernel: Tensor
    derivative: Tensor | None
    widths: float


def path_recursion(
    architecture: Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor | None = None,
    sensitivities: Sequence[Tensor] | None = None,
    tile_bytes: int = TILE_BYTES,
    masks: Sequence[Tensor] = (),
    by_width: bool = False,
) -> PathKernels:
    """Run the recursion for gates (n, *gated_shape) of each gate layer.

    `by_width`: inside residual blocks, too, each τ stays divided by its width; otherwise a block
    is added to its skip as path counts.
    `masks`: the arg-max positions of each max pooling, as `Trace.masks` holds them.
    `x_value` (n, *input_shape) starts it at Σ; None starts it at K_0 ≡ 1, which gives Λ.
    Sums over pairs are float64 (float32 on MPS). Memory: the result and one tile of pairs.
    """
    check_layers(architecture, gates, "gates")
    if sensitivities is not None:
        check_layers(architecture, sensitivities, "sensitivities")
    if len(masks) != architecture.max_pools:
        raise Refusal(
            f"{len(masks)} max-pooling masks were given; the network has {architecture.max_pools}."
        )
    layers = _Layers(architecture, gates, x_value, sensitivities, masks, by_width)
    kernel, derivative = _map_part(layers, tile_bytes)
    _vector_part(layers, kernel, derivative)
    mirror(kernel)
    if derivative is not None:
        mirror(derivative)
    return PathKernels(kernel, derivative, widths_outside_blocks(architecture))


def check_layers(architecture: Architecture, layers: Sequence[Tensor], name: str) -> None:
    """Refuse gates that do not fit the architecture, naming the layer."""
    wanted = architecture.gated_shapes
    if len(layers) != len(wanted):
        raise Refusal(f"{len(layers)} layers of {name} were given; the network has {len(wanted)}.")
    for place, (layer, shape) in enumerate(zip(layers, wanted, strict=True)):
        if tuple(layer.shape[1:]) != shape or layer.shape[0] != layers[0].shape[0]:
            raise Refusal(
                f"Layer {place} of {name} has shape {tuple(layer.shape)}; "
                f"({layers[0].shape[0]}, {', '.join(map(str, shape))}) is needed."
            )


def _vector_part(layers: _Layers, kernel: Tensor, derivative: Tensor | None) -> None:
    """Multiply the upper half of (n, n) by Σ, where no map came before, and each dense τ_l."""
    n, maps = kernel.shape[0], layers.has_maps
    x_value = None if maps or layers.x_value is None else _entered(layers)
    first = sum(isinstance(node, Conv) for node in layers.architecture.nodes)
    for rows in row_tiles(n, n):
        columns = slice(rows.start, n)
        K = kernel[rows, columns]
        if x_value is not None:
            K = K * input_gram(x_value[rows], x_value[columns])
        dual = None if derivative is None else derivative[rows, columns]
        blocks = Blocks(layers.by_width)
        place = first
        for node in layers.architecture.nodes[layers.map_nodes :]:
            if isinstance(node, Dense) and node.gated:
                tau = _tau(layers.gates[place], rows, columns)
                if dual is not None and layers.sensitivities is not None:
                    dual = dual * tau
                    dual += _tau(layers.sensitivities[place], rows, columns).mul_(K)
                K = K * tau
                blocks.widen(node.outputs)
                place += 1
            else:
                K, dual = blocks.step(node, K, dual)
        kernel[rows, columns] = K
        if derivative is not None and dual is not None:
            derivative[rows, columns] = dual


def _entered(layers: _Layers) -> Tensor:
    """The input of the first dense layer (n, a); average pooling sums, because paths are counted
    and the mean's 1/P² belongs to β."""
    z = layers.x_value
    assert z is not None
    for node in layers.architecture.nodes:
        match node:
            case GlobalAveragePool():
                z = z.sum(dim=(2, 3))
            case AveragePool():
                z = F.avg_pool2d(z, node.kernel, node.stride) * node.kernel**2
            case Flatten():
                z = z.flatten(1)
            case _:
                break
    return z


def _tau(layer: Tensor, rows: slice, columns: slice) -> Tensor:
    """A tile of G Gᵀ / w for a dense gate layer (n, w), in the accumulator's type."""
    gram = input_gram(layer[rows], layer[columns])
    return gram.to(accumulator(layer)).div_(layer.shape[1])


@dataclass(frozen=True)
class _Layers:
    """All that the recursion over pairs reads."""

    architecture: Architecture
    gates: Sequence[Tensor]
    x_value: Tensor | None
    sensitivities: Sequence[Tensor] | None
    masks: Sequence[Tensor]
    by_width: bool

    @property
    def has_maps(self) -> bool:
        """Whether there are convolutions, and so pairs of positions."""
        return any(isinstance(node, Conv) for node in self.architecture.nodes)

    @property
    def map_nodes(self) -> int:
        """How many nodes come before the first vector; none without convolutions."""
        if not self.has_maps:
            return 0
        lengths = [len(shape) for _, shape in self.architecture.shapes()]
        return lengths.index(1) + 1


def _map_part(layers: _Layers, tile_bytes: int) -> tuple[Tensor, Tensor | None]:
    """The convolutions and the pooling after them, the upper half of (n, n) each; 1 and 0 where
    there are none."""
    fast = None
    if layers.sensitivities is None:
        fast = popcount.map_kernel(layers.architecture, layers.gates, layers.x_value)
    if fast is not None:
        return fast, None
    first = layers.gates[0]
    n = first.shape[0]
    kernel = torch.ones((n, n), dtype=accumulator(first), device=first.device)
    derivative = None if layers.sensitivities is None else torch.zeros_like(kernel)
    if not layers.has_maps:
        return kernel, derivative
    for row, columns in _tiles(layers.architecture, n, first.element_size(), tile_bytes):
        tile, change = _pairs(layers, row, columns)
        kernel[row, columns] = tile
        if derivative is not None and change is not None:
            derivative[row, columns] = change
    return kernel, derivative


def _tiles(
    architecture: Architecture, n: int, item: int, tile_bytes: int
) -> Iterator[tuple[int, slice]]:
    """Row s with columns s' ≥ s: the symmetric half, a bounded number of pairs at a time."""
    positions = max(shape[1] * shape[2] for shape in _map_shapes(architecture))
    pairs = max(1, tile_bytes // (item * positions**2))
    for row in range(n):
        for left in range(row, n, pairs):
            yield row, slice(left, min(n, left + pairs))


def _map_shapes(architecture: Architecture) -> list[tuple[int, ...]]:
    shapes = [architecture.input_shape, *(shape for _, shape in architecture.shapes())]
    return [shape for shape in shapes if len(shape) == 3]


def _pairs(layers: _Layers, row: int, columns: slice) -> tuple[Tensor, Tensor | None]:
    """The map part of pairs (row, s') for s' in `columns`: (B,) each."""
    K = _start(layers, row, columns)
    if layers.architecture.residual:
        K = K.to(accumulator(K))  # blocks add up path counts, which may be large
    dual: Tensor | None = None
    blocks = Blocks(layers.by_width)
    nodes = layers.architecture.nodes
    place = pooled = 0
    for node, following in zip(nodes, (*nodes[1:], None), strict=True):
        match node:
            case Conv():
                mask = None
                if isinstance(following, (MaxPool, GlobalMaxPool)):
                    mask, pooled = layers.masks[pooled], pooled + 1
                gated = Gated(mask, row, columns)
                K = box_sum(K, node)
                if layers.sensitivities is not None:
                    change = gated.times(layers.sensitivities[place], K)
                    if dual is not None:
                        change = change + gated.times(layers.gates[place], box_sum(dual, node))
                    dual = change
                K = gated.times(layers.gates[place], K)
                blocks.widen(node.outputs)
                place += 1
            case AveragePool():
                K = both_windows(K, node)
                dual = None if dual is None else both_windows(dual, node)
            case GlobalAveragePool() | GlobalMaxPool():
                return total(K), None if dual is None else total(dual)
            case Flatten():
                return same_place(K), None if dual is None else same_place(dual)
            case MaxPool():
                continue  # its windows were summed with the gates of the convolution before it
            case Fork() | Merge():
                K, dual = blocks.step(node, K, dual)
            case Dense():
                break
    raise AssertionError("a map must be pooled or flattened before a dense layer")


def _start(layers: _Layers, row: int, columns: slice) -> Tensor:
    """K_0 of the pairs: the inputs' Gram between positions, or one."""
    if layers.x_value is not None:
        return position_gram(layers.x_value, row, columns)
    sides = layers.architecture.input_shape[1:]
    like = layers.gates[0]
    count = columns.stop - columns.start
    return torch.ones((count, *sides, *sides), dtype=like.dtype, device=like.device)
