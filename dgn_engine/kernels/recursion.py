"""The path-kernel recursion behind Λ, S and the NPK (theory §3 and §5).

Legend: n examples, P = H·W positions of a map, C channels, B pairs handled at once. Every layer's
τ is divided by its width, so that nothing overflows; `normalise_kernel` multiplies it back. A
residual block turns K into post²(pre²·block(K) + skip(K)), which gives all 2ᵇ sub-networks at the
cost of one. `walk` visits the nodes; see `walk.RecursionTerm` for gates after an addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.kernels.compiled_maps import compiled_maps
from dgn_engine.kernels.gram import (
    ROWS_AT_LEAST,
    KernelBlock,
    accumulator_dtype,
    flat_gram,
    mirror_upper_half,
    row_tiles,
)
from dgn_engine.kernels.path_inputs import PathInputs
from dgn_engine.kernels.slabs import box_sum, position_gram, sum_all_positions, sum_equal_positions
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

TILE_BYTES = 4 << 20  # such a tile of pairs stays in the cache; larger ones were slower
CARD_TILE_BYTES = 32 << 20  # on a GPU, with its larger cache and launch overhead


@dataclass(frozen=True)
class PathKernels:
    """Result of the path-kernel recursion.

    Attributes:
        kernel: The kernel, `(n, n)` or the requested block.
        derivative: Its derivative at ε = 0 under GGᵀ → GGᵀ + εDDᵀ, if sensitivities D were given.
        widths: Π w_l over the weight layers outside residual blocks, without the output layer.
    """

    kernel: Tensor
    derivative: Tensor | None
    widths: float


def tile_bytes_on(device: torch.device) -> int:
    """Return the memory of a tile of pairs that is fastest on a device.

    Args:
        device: The device.

    Returns:
        Bytes.
    """
    return CARD_TILE_BYTES if device.type == "cuda" else TILE_BYTES


def path_recursion(
    architecture: arch.Architecture,
    inputs: PathInputs,
    by_width: bool = False,
    scales: Sequence[LayerScale] | None = None,
    block: KernelBlock | None = None,
    tile_bytes: int | None = None,
) -> PathKernels:
    """Run the path-kernel recursion.

        K_0 = Gram matrix of x^v between positions (≡ 1 without x^v, which gives Λ),
        K_l = τ_l/w_l ⊙ Σ_r K_{l-1}(· + r; · + r).

    Sums over pairs are float64 (float32 on MPS). Memory: the result and one tile of pairs.

    Args:
        architecture: The network.
        inputs: Gates, and x^v, masks and sensitivities as needed.
        by_width: Whether τ stays divided by its width inside residual blocks, too; otherwise a
          block is added to its skip as path counts.
        scales: A scale for each weight layer but the last, with its derivative (dual number).
        block: Block of pairs to compute. Default: all pairs.
        tile_bytes: Memory of one tile. Default: that of the device.

    Returns:
        The kernel and its derivative.
    """
    block = block or KernelBlock.all_pairs(len(inputs.gates[0]))
    return PathRecursion(architecture, inputs, by_width, scales, block).block_kernels(
        block, tile_bytes
    )


class PathRecursion:
    """`path_recursion` for several blocks in turn, sharing what they have in common.

    Args:
        architecture: The network.
        inputs: Gates, and x^v, masks and sensitivities as needed.
        by_width: As for `path_recursion`.
        scales: As for `path_recursion`.
        whole: The block that all of them are part of; its work decides whether compiled loops are
          used.
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
        self._compiled = None
        if scales is None:
            whole = whole or KernelBlock.all_pairs(len(inputs.gates[0]))
            self._compiled = compiled_maps(architecture, inputs, whole)

    def block_kernels(self, block: KernelBlock, tile_bytes: int | None = None) -> PathKernels:
        """Compute the kernel and its derivative for a block of pairs.

        Args:
            block: The block.
            tile_bytes: Memory of one tile. Default: that of the device.

        Returns:
            The kernel and its derivative, `(n, m)`.
        """
        tile_bytes = tile_bytes or tile_bytes_on(self._plan.device)
        if self._compiled is not None:
            kernel, derivative = self._compiled.kernels(block)
        else:
            kernel, derivative = _map_part(self._plan, block, tile_bytes)
        _vector_part(self._plan, block, kernel, derivative)
        if block.is_symmetric:
            mirror_upper_half(kernel)
            if derivative is not None:
                mirror_upper_half(derivative)
        return PathKernels(kernel, derivative, widths_outside_blocks(self._plan.architecture))


def path_diagonal(
    architecture: arch.Architecture, inputs: PathInputs, by_width: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Compute kernel and derivative of each example with itself.

    Args:
        architecture: The network.
        inputs: Gates, and x^v, masks and sensitivities as needed.
        by_width: As for `path_recursion`.

    Returns:
        The kernel, `(n,)`, and its derivative, `(n,)` or `None`.
    """
    n = len(inputs.gates[0])
    maps = any(isinstance(node, arch.Conv) for node in architecture.nodes)
    step = 1 if maps else ROWS_AT_LEAST
    values, changes = [], []
    for start in range(0, n, step):
        part = slice(start, min(n, start + step))
        block_result = path_recursion(architecture, inputs, by_width, block=KernelBlock(part, part))
        values.append(block_result.kernel.diagonal())
        if block_result.derivative is not None:
            changes.append(block_result.derivative.diagonal())
    return torch.cat(values), torch.cat(changes) if changes else None


@dataclass(frozen=True)
class _RecursionInputs:
    """The arguments of a recursion."""

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
    def is_dual(self) -> bool:
        return self.layers.sensitivities is not None or self.scales is not None

    @property
    def map_nodes(self) -> int:
        """Return the number of nodes before the first vector; 0 without convolutions."""
        nodes = self.architecture.nodes
        if not any(isinstance(node, arch.Conv) for node in nodes):
            return 0
        lengths = [len(shape) for _, shape in self.architecture.shapes()]
        return lengths.index(1) + 1

    def walk_nodes(self, walk: Walk, part: slice) -> None:
        """Apply the nodes of a part, with gates, masks and scales counted from the first node."""
        nodes = self.architecture.nodes
        matter = arch.channels_matter(nodes)[1:]
        before = nodes[: part.start]
        gate_layer = sum(arch.is_gated(node) for node in before)
        pooled = sum(isinstance(node, arch.MaxPool) for node in before)
        weight = sum(isinstance(node, (arch.Dense, arch.Conv)) for node in before)
        for node, by_channel in zip(nodes[part], matter[part], strict=True):
            match node:
                case arch.Dense() | arch.Conv():
                    scale = None if self.scales is None else self.scales[weight]
                    walk.apply_weights(_weight_map(node), node.outputs, scale)
                    weight += 1
                case arch.AveragePool():
                    walk.average_pool(node)
                case arch.MaxPool() | arch.GlobalMaxPool():
                    walk.max_pool(self.masks[pooled], by_channel)
                    pooled += 1
                case _:
                    walk.apply_branch(node)
            if arch.is_gated(node):
                walk.apply_gate(gate_layer)
                gate_layer += 1
            if not by_channel:
                walk.mix_channels()


def _weight_map(node: arch.Dense | arch.Conv) -> Callable[[Tensor], Tensor]:
    """Return the effect of a layer's weights on K, each of them one."""
    return (lambda K: K) if isinstance(node, arch.Dense) else (lambda K: box_sum(K, node))


def _vector_part(
    plan: _RecursionInputs, block: KernelBlock, kernel: Tensor, derivative: Tensor | None
) -> None:
    """Multiply a block by Σ (if no map precedes it) and each dense τ_l.

    Of a symmetric block only the upper half is updated.
    """
    first = plan.map_nodes
    n, m = block.shape
    x_value = None if first or plan.x_value is None else _dense_input(plan)
    nodes = plan.architecture.nodes
    pooling = (arch.GlobalAveragePool, arch.AveragePool, arch.Flatten)
    start = first or next(i for i, node in enumerate(nodes) if not isinstance(node, pooling))
    for part in row_tiles(n, m, kernel.device, symmetric=block.is_symmetric):
        rows = slice(block.rows.start + part.start, block.rows.start + part.stop)
        columns = slice(block.first_column(rows.start), block.columns.stop)
        target = (part, block.local_columns(columns))
        K = kernel[target]
        if x_value is not None:
            K = K * flat_gram(x_value[rows], x_value[columns])  # K_0 = Σ
        walk = Walk(plan.layers, Tile(rows, columns), plan.by_width, K)
        if derivative is not None:
            walk.start_dual(derivative[target])
        plan.walk_nodes(walk, slice(start, len(nodes) - 1))
        K, dual = walk.kernels()
        kernel[target] = K
        if derivative is not None and dual is not None:
            derivative[target] = dual


def _dense_input(plan: _RecursionInputs) -> Tensor:
    """Return the input of the first dense layer, `(n, a)`.

    Average pooling sums, because paths are counted and the mean's 1/P² belongs to β.
    """
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
    """Compute the convolutions and the pooling after them; 1 and 0 if there are none.

    Of a symmetric block only the upper half is computed.
    """
    first = plan.layers.gates[0]
    kernel = torch.ones(block.shape, dtype=accumulator_dtype(first), device=first.device)
    derivative = torch.zeros_like(kernel) if plan.is_dual else None
    if not plan.map_nodes:
        return kernel, derivative
    for row, columns in _pair_tiles(plan.architecture, block, first.element_size(), tile_bytes):
        tile, change = _map_pair_kernels(plan, row, columns)
        target = (row - block.rows.start, block.local_columns(columns))
        kernel[target] = tile
        if derivative is not None and change is not None:
            derivative[target] = change
    return kernel, derivative


def _pair_tiles(
    architecture: arch.Architecture, block: KernelBlock, item: int, tile_bytes: int
) -> Iterator[tuple[int, slice]]:
    """Yield row s with slices of columns s' (s' ≥ s if symmetric) of bounded size."""
    return block.row_stretches(max(1, tile_bytes // (item * pair_numbers(architecture))))


def pair_numbers(architecture: arch.Architecture) -> int:
    """Return the largest number of entries per pair of examples in one term.

    Args:
        architecture: The network.

    Returns:
        Number of entries; 1 for vectors.
    """
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


def _map_pair_kernels(
    plan: _RecursionInputs, row: int, columns: slice
) -> tuple[Tensor, Tensor | None]:
    """Compute the map part of the pairs (row, s') for s' in `columns`, `(B,)` each."""
    K = _initial_kernel(plan, row, columns)
    if plan.architecture.is_residual:
        K = K.to(accumulator_dtype(K))  # blocks add path counts, which may be large
    walk = Walk(plan.layers, MapPairs(row, columns), plan.by_width, K)
    end = plan.map_nodes
    head = plan.architecture.nodes[end - 1]
    plan.walk_nodes(walk, slice(0, end if isinstance(head, arch.GlobalMaxPool) else end - 1))
    K, dual = walk.kernels()
    leave = sum_equal_positions if isinstance(head, arch.Flatten) else sum_all_positions
    return leave(K), None if dual is None else leave(dual)


def _initial_kernel(plan: _RecursionInputs, row: int, columns: slice) -> Tensor:
    """Return K_0 of the pairs: the Gram matrix of the inputs between positions, or one."""
    if plan.x_value is not None:
        return position_gram(plan.x_value, row, columns)
    sides = plan.architecture.input_shape[1:]
    like = plan.layers.gates[0]
    count = columns.stop - columns.start
    return torch.ones((count, *sides, *sides), dtype=like.dtype, device=like.device)
