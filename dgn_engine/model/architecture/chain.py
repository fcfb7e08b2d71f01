"""A network as a chain of nodes, the same for its feature and its value network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from dgn_engine.errors import UserError
from dgn_engine.model.architecture.branches import check_places, with_skips
from dgn_engine.model.architecture.nodes import (
    AveragePool,
    ChannelScale,
    Conv,
    Dense,
    Fork,
    Gating,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
    Node,
    Skip,
    Weighted,
)
from dgn_engine.model.architecture.shapes import shape_after


@dataclass(frozen=True)
class Architecture:
    """A chain of nodes from `input_shape` (no batch axis) to the logits.

    The last node is an ungated `Dense`. A gate layer is a gated weight layer or a `Gating`; in a
    chain without blocks there is one fewer than there are weight layers (THEORY §1). Every block
    has its `Skip` here, whether it was written or not. Raises `UserError` where shapes do not fit.
    """

    input_shape: tuple[int, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", with_skips(self.nodes))
        check_places(self.nodes)
        list(self.shapes())
        last = self.nodes[-1] if self.nodes else None
        if (
            not isinstance(last, Dense)
            or last.gated
            or not (self.gated or self.weighted == (last,))
        ):
            raise UserError("A network needs gated layers followed by one output layer.")

    def shapes(self) -> Iterator[tuple[Node, tuple[int, ...]]]:
        """Each node with the shape that leaves it (no batch axis); after a `Skip` that is the
        shape of what its `Fork` kept."""
        shape = self.input_shape
        kept: list[tuple[int, ...]] = []
        for place, node in enumerate(self.nodes):
            if isinstance(node, Fork):
                kept.append(shape)
            elif isinstance(node, Skip):
                shape, kept[-1] = kept[-1], shape
            elif isinstance(node, Merge):
                block = kept.pop()
                if block != shape:
                    raise UserError(
                        f"Node {place} (Merge) adds {block} to {shape}; the shapes must be equal."
                    )
            shape = shape_after(node, shape, place)
            yield node, shape

    @property
    def weighted(self) -> tuple[Weighted, ...]:
        """The weight layers in order; the last one makes the logits."""
        return tuple(node for node in self.nodes if is_weighted(node))

    @property
    def gated(self) -> tuple[Dense | Conv | Gating, ...]:
        """The nodes that are gated, in order: one gate layer each."""
        return tuple(node for node in self.nodes if is_gated(node))

    @property
    def gated_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of each gate layer: (w,) or (C, H, W)."""
        return tuple(shape for node, shape in self.shapes() if is_gated(node))

    @property
    def max_pools(self) -> int:
        """How many max-pooling masks a pass makes."""
        return sum(isinstance(node, (MaxPool, GlobalMaxPool)) for node in self.nodes)

    @property
    def residual(self) -> bool:
        return any(isinstance(node, Merge) for node in self.nodes)

    @property
    def normalised(self) -> bool:
        return any(isinstance(node, Conv) and node.normal for node in self.nodes)

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
        return self.weighted[-1].outputs


def is_weighted(node: Node) -> TypeGuard[Weighted]:
    return isinstance(node, (Dense, Conv, ChannelScale))


def is_gated(node: Node) -> TypeGuard[Dense | Conv | Gating]:
    return isinstance(node, Gating) or (isinstance(node, (Dense, Conv)) and node.gated)
