"""The path-kernel recursion that Λ, S and the NPK share (THEORY §3 and §5).

Legend: n examples, P = H·W positions of a map, C channels, B pairs handled at once. Every layer's
τ is divided by its width on the way, so that nothing overflows; `normalised` multiplies it back.
A residual block turns K into post²(pre²·block(K) + skip(K)): all 2ᵇ sub-networks at the cost of
one. The nodes are walked in `walk`; `walk.RecursionTerm` says what a gate after an addition does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.kernels import popcount
from dgn_engine.kernels.gram import (
    ROWS_AT_LEAST,
    KernelBlock,
    accumulator,
    flat_gram,
    mirror,
    row_tiles,
)
from dgn_engine.kernels.path_inputs import PathInputs
from dgn_engine.kernels.slabs import box_sum, position_gram, same_place, total
from dgn_engine.kernels.walk import (
    GateLayers,
    LayerScale,
    MapPairs,
    Tile,
    Walk,
    keeps_channels,
    widths_outside_blocks,
)
from dgn_engine.model import architecture as arch

TILE_BYTES = 4 << 20  # one tile of pairs stays in the cache: measured faster than larger ones
CARD_TILE_BYTES = 32 << 20  # so on a card, whose cache is larger and whose launches take longer


@dataclass(frozen=True)
class PathKernels:
    """`kernel`: the recursion's result (n, n), or the block that was asked for; `derivative`: its
    derivative under GGᵀ → GGᵀ + εDDᵀ at ε = 0, where sensitivities D were given; `widths` = Π w_l
    over the weight layers outside residual blocks, the output layer left out."""

    kernel: Tensor
    derivative: Tensor | None
    widths: float


def tile_bytes_on(device: torch.device) -> int:
    """Bytes of one map of pairs of positions that are worth handling at once."""
    return CARD_TILE_BYTES if device.type == "cuda" else TILE_BYTES


def path_recursion(
    architecture: arch.Architecture,
    inputs: PathInputs,
    by_width: bool = False,
    scales: Sequence[LayerScale] | None = None,
    block: KernelBlock | None = None,
    tile_bytes: int | None = None,
) -> PathKernels:
    """Run the recursion for the gates of n examples, or for a `block` of their pairs alone.

    `by_width`: inside residual blocks, too, each τ stays divided by its width; otherwise a block
    is added to its skip as path counts.
    `scales`: a number for each weight layer but the last, and its derivative by a dual number.
    x^v starts it at Σ; without it K_0 ≡ 1, which gives Λ.
    Sums over pairs are float64 (float32 on MPS). Memory: the result and one tile of pairs.
    """
    block = block or KernelBlock.whole(len(inputs.gates[0]))
    return PathRecursion(architecture, inputs, by_width, scales, block).kernels(block, tile_bytes)


class PathRecursion:
    """`path_recursion` for some blocks one after the other: what they share is made once.

    `whole`: the block that they are parts of, whose work decides whether gates are packed as bits.
    """

    def __init__(
        self,
        architecture: arch.Architecture,
        inputs: PathInputs,
        by_width: bool = False,
        scales: Sequence[LayerScale] | None = None,
        whole: KernelBlock | None = None,
    ) -> None:
        layers = GateLayers(inputs.gates, inputs.sensitivities)
        self._plan = _RecursionInputs(
            architecture, layers, inputs.x_value, inputs.masks, by_width, scales
        )
        self._packed = None
        if not self._plan.dual:
            whole = whole or KernelBlock.whole(len(inputs.gates[0]))
            self._packed = popcount.packed_maps(architecture, inputs.gates, inputs.x_value, whole)

    def kernels(self, block: KernelBlock, tile_bytes: int | None = None) -> PathKernels:
        """The kernel and its derivative of a block of pairs."""
        tile_bytes = tile_bytes or tile_bytes_on(self._plan.device)
        if self._packed is not None:
            kernel, derivative = self._packed.kernel(block), None
        else:
            kernel, derivative = _map_part(self._plan, block, tile_bytes)
        _vector_part(self._plan, block, kernel, derivative)
        if block.symmetric:
            mirror(kernel)
            if derivative is not None:
                mirror(derivative)
        return PathKernels(kernel, derivative, widths_outside_blocks(self._plan.architecture))


def path_diagonal(
    architecture: arch.Architecture, inputs: PathInputs, by_width: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Kernel and derivative of each example with itself, (n,), as `path_recursion` gives them."""
    n = len(inputs.gates[0])
    maps = any(isinstance(node, arch.Conv) for node in architecture.nodes)
    step = 1 if maps else ROWS_AT_LEAST
    values, changes = [], []
    for left in range(0, n, step):
        part = slice(left, min(n, left + step))
        found = path_recursion(architecture, inputs, by_width, block=KernelBlock(part, part))
        values.append(found.kernel.diagonal())
        if found.derivative is not None:
            changes.append(found.derivative.diagonal())
    return torch.cat(values), torch.cat(changes) if changes else None


@dataclass(frozen=True)
class _RecursionInputs:
    architecture: arch.Architecture
    layers: GateLayers
    x_value: Tensor | None
    masks: Sequence[Tensor]
    by_width: bool
    scales: Sequence[LayerScale] | None

    @property
    def device(self) -> torch.device:
        return self.layers.gates[0].device

    @property
    def dual(self) -> bool:
        return self.layers.sensitivities is not None or self.scales is not None

    @property
    def map_nodes(self) -> int:
        """How many nodes come before the first vector; none without convolutions."""
        nodes = self.architecture.nodes
        if not any(isinstance(node, arch.Conv) for node in nodes):
            return 0
        lengths = [len(shape) for _, shape in self.architecture.shapes()]
        return lengths.index(1) + 1

    def walk(self, walk: Walk, part: slice) -> None:
        """Take the nodes of this part, gates, masks and scales counted from the first node on."""
        nodes = self.architecture.nodes
        matter = arch.channels_matter(nodes)[1:]
        before = nodes[: part.start]
        place = sum(arch.is_gated(node) for node in before)
        pooled = sum(isinstance(node, arch.MaxPool) for node in before)
        weight = sum(isinstance(node, (arch.Dense, arch.Conv)) for node in before)
        for node, by_channel in zip(nodes[part], matter[part], strict=True):
            match node:
                case arch.Dense() | arch.Conv():
                    scale = None if self.scales is None else self.scales[weight]
                    walk.weigh(_linear(node), node.outputs, scale)
                    weight += 1
                case arch.AveragePool():
                    walk.average(node)
                case arch.MaxPool() | arch.GlobalMaxPool():
                    walk.max_pool(self.masks[pooled], by_channel)
                    pooled += 1
                case _:
                    walk.branch(node)
            if arch.is_gated(node):
                walk.gate(place)
                place += 1
            if not by_channel:
                walk.settle()


def _linear(node: arch.Dense | arch.Conv) -> Callable[[Tensor], Tensor]:
    """What the weights of a layer do to K, each of them one."""
    return (lambda K: K) if isinstance(node, arch.Dense) else (lambda K: box_sum(K, node))


def _vector_part(
    plan: _RecursionInputs, block: KernelBlock, kernel: Tensor, derivative: Tensor | None
) -> None:
    """Multiply the block by Σ, where no map came before, and each dense τ_l; of a symmetric one
    the upper half."""
    first = plan.map_nodes
    n, m = block.shape
    x_value = None if first or plan.x_value is None else _entered(plan)
    nodes = plan.architecture.nodes
    pooling = (arch.GlobalAveragePool, arch.AveragePool, arch.Flatten)
    start = first or next(i for i, node in enumerate(nodes) if not isinstance(node, pooling))
    for places in row_tiles(n, m, kernel.device, symmetric=block.symmetric):
        rows = slice(block.rows.start + places.start, block.rows.start + places.stop)
        columns = slice(block.first_column(rows.start), block.columns.stop)
        target = (places, block.column_places(columns))
        K = kernel[target]
        if x_value is not None:
            K = K * flat_gram(x_value[rows], x_value[columns])
        walk = Walk(plan.layers, Tile(rows, columns), plan.by_width, K)
        if derivative is not None:
            walk.start_dual(derivative[target])
        plan.walk(walk, slice(start, len(nodes) - 1))
        K, dual = walk.kernels()
        kernel[target] = K
        if derivative is not None and dual is not None:
            derivative[target] = dual


def _entered(plan: _RecursionInputs) -> Tensor:
    """The input of the first dense layer (n, a); average pooling sums, because paths are counted
    and the mean's 1/P² belongs to β."""
    z = plan.x_value
    assert z is not None
    for node in plan.architecture.nodes:
        match node:
            case arch.GlobalAveragePool():
                z = z.sum(dim=(2, 3))
            case arch.AveragePool():
                z = F.avg_pool2d(z, node.kernel, node.stride) * node.kernel**2
            case arch.Flatten():
                z = z.flatten(1)
            case _:
                break
    return z


def _map_part(
    plan: _RecursionInputs, block: KernelBlock, tile_bytes: int
) -> tuple[Tensor, Tensor | None]:
    """The convolutions and the pooling after them, of a symmetric block the upper half; 1 and 0
    where there are none."""
    first = plan.layers.gates[0]
    kernel = torch.ones(block.shape, dtype=accumulator(first), device=first.device)
    derivative = torch.zeros_like(kernel) if plan.dual else None
    if not plan.map_nodes:
        return kernel, derivative
    for row, columns in _tiles(plan.architecture, block, first.element_size(), tile_bytes):
        tile, change = _pairs(plan, row, columns)
        target = (row - block.rows.start, block.column_places(columns))
        kernel[target] = tile
        if derivative is not None and change is not None:
            derivative[target] = change
    return kernel, derivative


def _tiles(
    architecture: arch.Architecture, block: KernelBlock, item: int, tile_bytes: int
) -> Iterator[tuple[int, slice]]:
    """Row s with columns s' (s' ≥ s where symmetric), a bounded number of pairs at a time."""
    return block.stretches(max(1, tile_bytes // (item * pair_numbers(architecture))))


def pair_numbers(architecture: arch.Architecture) -> int:
    """Most numbers that one pair of examples has in a term; one for vectors."""
    shape = architecture.input_shape
    if len(shape) < 3:
        return 1
    most = (shape[1] * shape[2]) ** 2
    matter = arch.channels_matter(architecture.nodes)[1:]
    for (node, shape), by_channel in zip(architecture.shapes(), matter, strict=True):
        if len(shape) == 3:
            channels = shape[0] if by_channel and keeps_channels(node) else 1
            most = max(most, channels * (shape[1] * shape[2]) ** 2)
    return most


def _pairs(plan: _RecursionInputs, row: int, columns: slice) -> tuple[Tensor, Tensor | None]:
    """The map part of pairs (row, s') for s' in `columns`: (B,) each."""
    K = _start(plan, row, columns)
    if plan.architecture.residual:
        K = K.to(accumulator(K))  # blocks add up path counts, which may be large
    walk = Walk(plan.layers, MapPairs(row, columns), plan.by_width, K)
    end = plan.map_nodes
    head = plan.architecture.nodes[end - 1]
    plan.walk(walk, slice(0, end if isinstance(head, arch.GlobalMaxPool) else end - 1))
    K, dual = walk.kernels()
    leave = same_place if isinstance(head, arch.Flatten) else total
    return leave(K), None if dual is None else leave(dual)


def _start(plan: _RecursionInputs, row: int, columns: slice) -> Tensor:
    """K_0 of the pairs: the inputs' Gram between positions, or one."""
    if plan.x_value is not None:
        return position_gram(plan.x_value, row, columns)
    sides = plan.architecture.input_shape[1:]
    like = plan.layers.gates[0]
    count = columns.stop - columns.start
    return torch.ones((count, *sides, *sides), dtype=like.dtype, device=like.device)
