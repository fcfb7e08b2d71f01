"""What a network is made of: a chain of nodes, the same for its feature and its value network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dgn_engine.refusal import Refusal


@dataclass(frozen=True)
class Dense:
    """A weight layer on vectors: weight (outputs, inputs)."""

    inputs: int
    outputs: int
    gated: bool = True


@dataclass(frozen=True)
class Conv:
    """A weight layer on maps: weight (outputs, inputs, kernel, kernel)."""

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    circular: bool = False  # padding wraps around instead of zeros
    gated: bool = True


@dataclass(frozen=True)
class GlobalAveragePool:
    """Mean over all positions: (C, H, W) → (C,)."""


@dataclass(frozen=True)
class AveragePool:
    """Mean over windows: (C, H, W) → (C, H', W'), no padding."""

    kernel: int = 2
    stride: int = 2


@dataclass(frozen=True)
class MaxPool:
    """Largest of each window, no padding, directly after a convolution: its arg-max is one more
    hard gate, which the feature network makes where there is one (THEORY §1)."""

    kernel: int = 2
    stride: int = 2


@dataclass(frozen=True)
class GlobalMaxPool:
    """Largest over all positions, directly after a convolution: (C, H, W) → (C,)."""


@dataclass(frozen=True)
class Fork:
    """A residual block begins: z is kept for the `Merge` that ends it."""


@dataclass(frozen=True)
class Merge:
    """A residual block ends: z ← post·(pre·block(z) + z), nothing but weight layers between."""

    pre: float = 1.0
    post: float = 1.0


@dataclass(frozen=True)
class Flatten:
    """(C, H, W) → (C·H·W,)."""


Weighted = Dense | Conv
Pooling = GlobalAveragePool | AveragePool | MaxPool | GlobalMaxPool | Flatten
Node = Weighted | Pooling | Fork | Merge


@dataclass(frozen=True)
class Architecture:
    """A chain of nodes from `input_shape` (no batch axis) to the logits.

    The last node is an ungated `Dense`; every other weighted node is gated, so there is one gate
    layer fewer than there are weight layers (THEORY §1). Raises `Refusal` where shapes do not fit.
    """

    input_shape: tuple[int, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        list(self.shapes())
        weighted = self.weighted
        if not weighted or weighted[-1].gated or not all(w.gated for w in weighted[:-1]):
            raise Refusal("A network needs gated layers followed by one output layer.")
        for place, node in enumerate(self.nodes):
            behind = self.nodes[place - 1] if place else None
            if isinstance(node, (MaxPool, GlobalMaxPool)) and not isinstance(behind, Conv):
                raise Refusal(
                    f"Node {place} ({type(node).__name__}) must directly follow a convolution: "
                    "its mask selects among the convolution's gates."
                )

    def shapes(self) -> Iterator[tuple[Node, tuple[int, ...]]]:
        """Each node with the shape that leaves it (no batch axis)."""
        shape = self.input_shape
        kept: list[tuple[int, ...]] = []
        for place, node in enumerate(self.nodes):
            if isinstance(node, Fork):
                kept.append(shape)
            elif isinstance(node, Merge):
                _check_merge(place, shape, kept)
            elif kept and not isinstance(node, (Dense, Conv)):
                raise Refusal(f"Node {place} ({type(node).__name__}) may not be inside a block.")
            shape = _shape_after(node, shape, place)
            yield node, shape
        if kept:
            raise Refusal("A residual block is not closed: a Fork needs its Merge.")

    @property
    def weighted(self) -> tuple[Weighted, ...]:
        """The weight layers in order; the last one makes the logits."""
        return tuple(node for node in self.nodes if isinstance(node, (Dense, Conv)))

    @property
    def gated_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of each gate layer: (w,) or (C, H, W)."""
        return tuple(
            shape for node, shape in self.shapes() if isinstance(node, (Dense, Conv)) and node.gated
        )

    @property
    def max_pools(self) -> int:
        """How many max-pooling masks a pass makes."""
        return sum(isinstance(node, (MaxPool, GlobalMaxPool)) for node in self.nodes)

    @property
    def residual(self) -> bool:
        """Whether there are residual blocks."""
        return any(isinstance(node, Merge) for node in self.nodes)

    @property
    def pooled_paths(self) -> int:
        """How many positions average pooling averages in all: path counts leave its 1/P to β."""
        count, shape = 1, self.input_shape
        for node, after in self.shapes():
            if isinstance(node, GlobalAveragePool):
                count *= shape[1] * shape[2]
            elif isinstance(node, AveragePool):
                count *= node.kernel**2
            shape = after
        return count

    @property
    def classes(self) -> int:
        """Number of logits."""
        return self.weighted[-1].outputs


def weight_shape(layer: Weighted) -> tuple[int, ...]:
    """Shape of the weight tensor of a layer, as torch stores it."""
    if isinstance(layer, Dense):
        return (layer.outputs, layer.inputs)
    return (layer.outputs, layer.inputs, layer.kernel, layer.kernel)


def fan_in(layer: Weighted) -> int:
    """Inputs that one unit sums: a for dense, C·kernel² for convolutions."""
    if isinstance(layer, Dense):
        return layer.inputs
    return layer.inputs * layer.kernel**2


def _check_merge(place: int, shape: tuple[int, ...], kept: list[tuple[int, ...]]) -> None:
    if not kept:
        raise Refusal(f"Node {place} (Merge) has no Fork before it.")
    before = kept.pop()
    if before != shape:
        raise Refusal(f"Node {place} (Merge) adds {shape} to {before}; the shapes must be equal.")


def _shape_after(node: Node, shape: tuple[int, ...], place: int) -> tuple[int, ...]:
    where = f"Node {place} ({type(node).__name__})"
    match node:
        case Fork() | Merge():
            return shape
        case Dense():
            if shape != (node.inputs,):
                raise Refusal(f"{where} takes {node.inputs} inputs, but {shape} arrives.")
            return (node.outputs,)
        case Conv():
            if len(shape) != 3 or shape[0] != node.inputs:
                raise Refusal(f"{where} takes {node.inputs} channels, but {shape} arrives.")
            sides = tuple(
                (side + 2 * node.padding - node.kernel) // node.stride + 1 for side in shape[1:]
            )
            if min(sides) < 1:
                raise Refusal(
                    f"{where}: a map of {shape[1]}×{shape[2]} is too small for its window; "
                    "use a smaller stride or larger images."
                )
            return (node.outputs, *sides)
        case GlobalAveragePool() | GlobalMaxPool():
            if len(shape) != 3:
                raise Refusal(f"{where} needs a map, but {shape} arrives.")
            return (shape[0],)
        case AveragePool() | MaxPool():
            if len(shape) != 3 or min(shape[1:]) < node.kernel:
                raise Refusal(f"{where} needs a map as large as its window, but {shape} arrives.")
            rows, columns = ((side - node.kernel) // node.stride + 1 for side in shape[1:])
            return (shape[0], rows, columns)
        case Flatten():
            size = 1
            for side in shape:
                size *= side
            return (size,)
