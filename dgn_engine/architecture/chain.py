"""A network as a chain of nodes, the same for its feature and its value network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dgn_engine.architecture.nodes import (
    AveragePool,
    Conv,
    Dense,
    Fork,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
    Node,
    Weighted,
)
from dgn_engine.architecture.shapes import check_merge, shape_after
from dgn_engine.refusal import Refusal


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
                check_merge(place, shape, kept)
            elif kept and not isinstance(node, (Dense, Conv)):
                raise Refusal(f"Node {place} ({type(node).__name__}) may not be inside a block.")
            shape = shape_after(node, shape, place)
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
