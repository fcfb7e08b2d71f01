"""What a network is made of: a chain of nodes, the same for its feature and its value network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeGuard

from dgn_engine.errors import UserError, Where


@dataclass(frozen=True)
class Dense:
    """A weight layer on vectors: weight (outputs, inputs); `gated`: its gate follows at once."""

    inputs: int
    outputs: int
    gated: bool = True
    factor: float = 1.0  # a constant that multiplies weight and bias


@dataclass(frozen=True)
class Conv:
    """A weight layer on maps: weight (outputs, inputs, kernel, kernel).

    `normal`: batch normalisation before its gate, or γ per channel (`stack.BatchNorms`).
    """

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    circular: bool = False  # padding wraps around instead of zeros
    gated: bool = True
    normal: bool = False


@dataclass(frozen=True)
class ChannelScale:
    """Each channel times a weight of its own and shifted, z ← s⊙z + t: weight (channels,). What a
    BatchNorm in evaluation is that follows no weight layer. Paths pass it one to one and count
    without it."""

    channels: int

    @property
    def inputs(self) -> int:
        return self.channels

    @property
    def outputs(self) -> int:
        return self.channels


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
    """Largest of each window: its arg-max is one more hard gate, which the feature network makes
    where there is one (THEORY §1). Padding is never the largest."""

    kernel: int = 2
    stride: int = 2
    padding: int = 0


@dataclass(frozen=True)
class GlobalMaxPool:
    """Largest over all positions: (C, H, W) → (C,)."""


@dataclass(frozen=True)
class Fork:
    """A residual block begins: z is kept for its skip."""


@dataclass(frozen=True)
class Skip:
    """The block's branch ends here, its skip begins with the z of the `Fork`: what follows up to
    the `Merge` is the projection of the skip (one more weight layer in torchvision's ResNets).
    A block without a projection needs no `Skip`; the architecture puts it in."""


@dataclass(frozen=True)
class Merge:
    """A residual block ends: z ← post·(pre·block(z) + skip(z))."""

    pre: float = 1.0
    post: float = 1.0


@dataclass(frozen=True)
class Gating:
    """A gate layer of its own, z ← z ⊙ G: behind a `Merge` the gate after the addition."""


@dataclass(frozen=True)
class Flatten:
    """(C, H, W) → (C·H·W,)."""


Weighted = Dense | Conv | ChannelScale
Pooling = GlobalAveragePool | AveragePool | MaxPool | GlobalMaxPool | Flatten
Node = Weighted | Pooling | Fork | Skip | Merge | Gating


def weight_shape(layer: Weighted) -> tuple[int, ...]:
    match layer:
        case Dense():
            return (layer.outputs, layer.inputs)
        case ChannelScale():
            return (layer.channels,)
    return (layer.outputs, layer.inputs, layer.kernel, layer.kernel)


def fan_in(layer: Weighted) -> int:
    """Inputs that one unit sums: a for dense, C·kernel² for convolutions, 1 of a scaled channel."""
    return prod(weight_shape(layer)[1:])


def node_name(place: int, node: Node) -> Where:
    """Return 'Node 3 (Conv)', as refusals call a node by its place in the chain."""
    return Where(f"Node {place} ({type(node).__name__})")


def shape_after(node: Node, shape: tuple[int, ...], place: int) -> tuple[int, ...]:
    """The shape that leaves node number `place`; raises `UserError` if it cannot take `shape`."""
    where = node_name(place, node)
    match node:
        case Fork() | Skip() | Merge() | Gating():
            return shape
        case ChannelScale():
            if shape[:1] != (node.channels,):
                raise UserError(
                    where + f" takes {node.channels} channels, but {shape} arrives.",
                    kind="other-inputs",
                )
            return shape
        case Dense():
            if shape != (node.inputs,):
                raise UserError(
                    where + f" takes {node.inputs} inputs, but {shape} arrives.",
                    kind="other-inputs",
                )
            return (node.outputs,)
        case Conv():
            if len(shape) != 3 or shape[0] != node.inputs:
                raise UserError(
                    where + f" takes {node.inputs} channels, but {shape} arrives.",
                    kind="other-inputs",
                )
            if node.circular and node.padding > min(shape[1:]):  # more than once around
                raise UserError(
                    where
                    + f": a map of {shape[1]}×{shape[2]} is smaller than its circular padding "
                    f"of {node.padding}; use less padding or larger images.",
                    kind="too-small",
                )
            sides = tuple(
                (side + 2 * node.padding - node.kernel) // node.stride + 1 for side in shape[1:]
            )
            if min(sides) < 1:
                raise UserError(
                    where + f": a map of {shape[1]}×{shape[2]} is too small for its window; "
                    "use a smaller stride or larger images.",
                    kind="too-small",
                )
            return (node.outputs, *sides)
        case GlobalAveragePool() | GlobalMaxPool():
            if len(shape) != 3:
                raise UserError(where + f" needs a map, but {shape} arrives.", kind="other-inputs")
            return (shape[0],)
        case AveragePool() | MaxPool():
            margin = node.padding if isinstance(node, MaxPool) else 0
            if len(shape) != 3 or min(shape[1:]) + 2 * margin < node.kernel:
                raise UserError(
                    where + f" needs a map as large as its window, but {shape} arrives.",
                    kind="too-small",
                )
            if 2 * margin > node.kernel:
                raise UserError(
                    where + ": its padding may be half of its window at most.", kind="not-supported"
                )
            rows, columns = ((s + 2 * margin - node.kernel) // node.stride + 1 for s in shape[1:])
            return (shape[0], rows, columns)
        case Flatten():
            return (prod(shape),)


def with_skips(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with a `Skip` before every `Merge` that has none: what the Fork kept is added."""
    whole: list[Node] = []
    begun: list[bool] = []  # of each open block, whether its skip has begun
    for place, node in enumerate(nodes):
        where = node_name(place, node)
        if isinstance(node, (Skip, Merge)) and not begun:
            raise UserError(where + " has no Fork before it.", kind="missing")
        if isinstance(node, Fork):
            begun.append(False)
        elif isinstance(node, Skip):
            if begun[-1]:
                raise UserError(where + " begins a second skip in one block.", kind="not-supported")
            begun[-1] = True
        elif isinstance(node, Merge) and not begun.pop():
            whole.append(Skip())
        whole.append(node)
    if begun:
        raise UserError("A residual block is not closed: a Fork needs its Merge.", kind="missing")
    return tuple(whole)


def channels_matter(nodes: Sequence[Node]) -> tuple[bool, ...]:
    """For the input and after each node: whether a gate or an arg-max meets what leaves it channel
    by channel, before a weight layer mixes the channels. One more entry than nodes (with skips)."""
    found = [False]
    waiting: list[bool] = []  # backwards: of each open block, what its other branch needs
    for node in reversed(nodes):
        after = found[-1]
        match node:
            case Gating() | MaxPool() | GlobalMaxPool():
                found.append(True)
            case Merge():
                waiting.append(after)  # of the block's end
                found.append(after)
            case Skip():
                found.append(waiting.pop())
                waiting.append(after)  # of the skip's beginning
            case Fork():
                # Both branches begin with what leaves this node.
                found[-1] = waiting.pop() or after
                found.append(found[-1])
            case AveragePool() | ChannelScale():
                found.append(after)
            case _:
                found.append(False)
    return tuple(reversed(found))


def check_places(nodes: Sequence[Node]) -> None:
    """Refuse nodes that may not stand where they do; `nodes` with skips."""
    depth = 0
    matter = channels_matter(nodes)
    if matter[0]:
        raise UserError(
            "Gates or max pooling of the inputs themselves are not supported: begin with weights.",
            kind="not-supported",
        )
    for place, node in enumerate(nodes):
        where = node_name(place, node)
        depth += isinstance(node, Fork) - isinstance(node, Merge)
        if depth and isinstance(node, (AveragePool, GlobalAveragePool, GlobalMaxPool, Flatten)):
            raise UserError(where + " may not be inside a block.", kind="not-supported")
        if matter[place + 1] and isinstance(node, (Flatten, GlobalAveragePool, GlobalMaxPool)):
            raise UserError(
                where + " must be followed by weights before there are gates again.",
                kind="not-supported",
            )


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
            raise UserError(
                "A network needs gated layers followed by one output layer.", kind="no-gates"
            )

    def steps(self) -> Iterator[tuple[Node, tuple[int, ...], tuple[int, ...]]]:
        """Each node with the shapes before it and after it in the chain (no batch axis)."""
        before = self.input_shape
        for node, after in self.shapes():
            yield node, before, after
            before = after

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
                        node_name(place, node)
                        + f" adds {block} to {shape}; the shapes must be equal.",
                        kind="other-inputs",
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
    def gate_names(self) -> tuple[str, ...]:
        """Name of each gate layer: 'dense 1', 'conv 2'; 'sum 3' is the gate after an addition."""
        return tuple(
            f"{'sum' if isinstance(node, Gating) else 'conv' if len(shape) == 3 else 'dense'} {at}"
            for at, (node, shape) in enumerate(
                zip(self.gated, self.gated_shapes, strict=True), start=1
            )
        )

    @property
    def residual(self) -> bool:
        return any(isinstance(node, Merge) for node in self.nodes)

    @property
    def normalised(self) -> bool:
        return any(isinstance(node, Conv) and node.normal for node in self.nodes)

    @property
    def pooled_paths(self) -> int:
        """How many positions average pooling averages in all: path counts leave its 1/P to β."""
        count = 1
        for node, shape, _ in self.steps():
            if isinstance(node, GlobalAveragePool):
                count *= shape[1] * shape[2]
            elif isinstance(node, AveragePool):
                count *= node.kernel**2
        return count

    @property
    def classes(self) -> int:
        return self.weighted[-1].outputs


def is_weighted(node: Node) -> TypeGuard[Weighted]:
    return isinstance(node, (Dense, Conv, ChannelScale))


def is_gated(node: Node) -> TypeGuard[Dense | Conv | Gating]:
    return isinstance(node, Gating) or (isinstance(node, (Dense, Conv)) and node.gated)
