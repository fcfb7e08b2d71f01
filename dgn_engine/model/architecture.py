"""Architectures: the chain of nodes that a feature network and its value network share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeGuard

from dgn_engine.errors import UserError, Where


@dataclass(frozen=True)
class Dense:
    """A weight layer on vectors, q = Wz + b.

    Attributes:
        inputs: Number of inputs.
        outputs: Number of units; the weight is `(outputs, inputs)`.
        gated: Whether a gate follows immediately.
        factor: Constant that multiplies weight and bias.
    """

    inputs: int
    outputs: int
    gated: bool = True
    factor: float = 1.0  # constant that multiplies weight and bias


@dataclass(frozen=True)
class Conv:
    """A weight layer on maps.

    Attributes:
        inputs: Input channels.
        outputs: Output channels; the weight is `(outputs, inputs, kernel, kernel)`.
        kernel: Window size.
        stride: Stride.
        padding: Padding on each side.
        circular: Circular instead of zero padding.
        gated: Whether a gate follows immediately.
        normal: Whether it has batch normalisation before its gate, or γ per channel (see
          `stack.BatchNorms`).
    """

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    circular: bool = False  # circular instead of zero padding
    gated: bool = True
    normal: bool = False


@dataclass(frozen=True)
class ChannelScale:
    """A weight per channel and a shift, z ← s ⊙ z + t.

    It represents a BatchNorm in evaluation mode that follows no weight layer. Its weight is
    `(channels,)`. Paths pass it one to one and do not count it.
    """

    channels: int

    @property
    def inputs(self) -> int:
        """Number of input channels.

        Returns:
            The count.
        """
        return self.channels

    @property
    def outputs(self) -> int:
        """Number of output channels.

        Returns:
            The count.
        """
        return self.channels


@dataclass(frozen=True)
class GlobalAveragePool:
    """Mean over all positions: (C, H, W) → (C,)."""


@dataclass(frozen=True)
class AveragePool:
    """Mean over windows: (C, H, W) → (C, H', W'), without padding."""

    kernel: int = 2
    stride: int = 2


@dataclass(frozen=True)
class MaxPool:
    """Maximum over windows: (C, H, W) → (C, H', W'); padding is never the maximum.

    The arg-max is one more hard gate, which the feature network makes if there is one (theory §1).
    """

    kernel: int = 2
    stride: int = 2
    padding: int = 0


@dataclass(frozen=True)
class GlobalMaxPool:
    """Maximum over all positions: (C, H, W) → (C,)."""


@dataclass(frozen=True)
class Fork:
    """Start of a residual block: z is kept for the skip."""


@dataclass(frozen=True)
class Skip:
    """End of a block's branch and start of its skip, at the z of the `Fork`.

    The nodes up to the `Merge` project the skip (one more weight layer in torchvision's ResNets). A
    block without projection may omit it; the architecture inserts it.
    """


@dataclass(frozen=True)
class Merge:
    """End of a residual block: z ← post·(pre·block(z) + skip(z))."""

    pre: float = 1.0
    post: float = 1.0


@dataclass(frozen=True)
class Gating:
    """A separate gate layer, z ← z ⊙ G, for example after the addition of a residual block."""


@dataclass(frozen=True)
class Flatten:
    """(C, H, W) → (C·H·W,)."""


@dataclass(frozen=True)
class FromInput:
    """Return to the network's input, z ← x: what follows does not depend on the layers before.

    Only feature networks have it (`feature_layers.parallel_features`): its layers make gates, so
    none is lost.
    """


Weighted = Dense | Conv | ChannelScale
Pooling = GlobalAveragePool | AveragePool | MaxPool | GlobalMaxPool | Flatten
Node = Weighted | Pooling | Fork | Skip | Merge | Gating | FromInput


def weight_shape(layer: Weighted) -> tuple[int, ...]:
    """Return the shape of a layer's weight.

    Args:
        layer: The weight layer.

    Returns:
        `(outputs, inputs)`, `(outputs, inputs, kernel, kernel)` or `(channels,)`.
    """
    match layer:
        case Dense():
            return (layer.outputs, layer.inputs)
        case ChannelScale():
            return (layer.channels,)
    return (layer.outputs, layer.inputs, layer.kernel, layer.kernel)


def fan_in(layer: Weighted) -> int:
    """Return the number of inputs that one unit sums.

    Args:
        layer: The weight layer.

    Returns:
        a for dense layers, C·kernel² for convolutions, 1 for scaled channels.
    """
    return prod(weight_shape(layer)[1:])


def node_name(index: int, node: Node) -> Where:
    """Name a node in messages by its index in the chain.

    Args:
        index: Index of the node.
        node: The node.

    Returns:
        For example 'Node 3 (Conv)'.
    """
    return Where(f"Node {index} ({type(node).__name__})")


def shape_after(node: Node, shape: tuple[int, ...], index: int) -> tuple[int, ...]:
    """Return the output shape of a node.

    Args:
        node: The node.
        shape: Its input shape, without the batch axis.
        index: Its index in the chain, for messages.

    Returns:
        Its output shape, without the batch axis.

    Raises:
        UserError: It cannot take this input.
    """
    where = node_name(index, node)
    match node:
        case Fork() | Skip() | Merge() | Gating() | FromInput():
            return shape
        case ChannelScale():
            if shape[:1] != (node.channels,):
                raise UserError(
                    where + f" takes {node.channels} channels, but its input is {shape}.",
                    kind="other-inputs",
                )
            return shape
        case Dense():
            if shape != (node.inputs,):
                raise UserError(
                    where + f" takes {node.inputs} inputs, but its input is {shape}.",
                    kind="other-inputs",
                )
            return (node.outputs,)
        case Conv():
            if len(shape) != 3 or shape[0] != node.inputs:
                raise UserError(
                    where + f" takes {node.inputs} channels, but its input is {shape}.",
                    kind="other-inputs",
                )
            if node.circular and node.padding > min(shape[1:]):  # would wrap around twice
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
                raise UserError(
                    where + f" needs a map, but its input is {shape}.", kind="other-inputs"
                )
            return (shape[0],)
        case AveragePool() | MaxPool():
            margin = node.padding if isinstance(node, MaxPool) else 0
            if len(shape) != 3 or min(shape[1:]) + 2 * margin < node.kernel:
                raise UserError(
                    where
                    + f" needs a map at least as large as its window, but its input is {shape}.",
                    kind="too-small",
                )
            if 2 * margin > node.kernel:
                raise UserError(
                    where + ": its padding may be at most half of its window.", kind="not-supported"
                )
            rows, columns = ((s + 2 * margin - node.kernel) // node.stride + 1 for s in shape[1:])
            return (shape[0], rows, columns)
        case Flatten():
            return (prod(shape),)


def with_skips(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Insert a `Skip` before every `Merge` that has none.

    Args:
        nodes: The nodes.

    Returns:
        The nodes with all skips.

    Raises:
        UserError: Blocks are not properly nested.
    """
    complete: list[Node] = []
    skip_started: list[bool] = []  # for each open block
    for index, node in enumerate(nodes):
        where = node_name(index, node)
        if isinstance(node, (Skip, Merge)) and not skip_started:
            raise UserError(where + " needs a Fork before it.", kind="missing")
        if isinstance(node, Fork):
            skip_started.append(False)
        elif isinstance(node, Skip):
            if skip_started[-1]:
                raise UserError(where + " is the second Skip of its block.", kind="not-supported")
            skip_started[-1] = True
        elif isinstance(node, Merge) and not skip_started.pop():
            complete.append(Skip())
        complete.append(node)
    if skip_started:
        raise UserError("A residual block is not closed: a Fork has no Merge.", kind="missing")
    return tuple(complete)


def channels_matter(nodes: Sequence[Node]) -> tuple[bool, ...]:
    """Find where channels must be told apart, because a gate or an arg-max acts on them next.

    Args:
        nodes: The nodes, with skips.

    Returns:
        For the input and the output of each node, whether a gate or arg-max comes before the next
        weight layer, which mixes the channels; one more entry than nodes.
    """
    matter = [False]
    pending: list[bool] = []  # going backwards: for each open block, what its other branch needs
    for node in reversed(nodes):
        after = matter[-1]
        match node:
            case Gating() | MaxPool() | GlobalMaxPool():
                matter.append(True)
            case Merge():
                pending.append(after)  # for the end of the block
                matter.append(after)
            case Skip():
                matter.append(pending.pop())
                pending.append(after)  # for the start of the skip
            case Fork():
                # Both branches start with the output of this node.
                matter[-1] = pending.pop() or after
                matter.append(matter[-1])
            case AveragePool() | ChannelScale():
                matter.append(after)
            case _:
                matter.append(False)
    return tuple(reversed(matter))


def check_places(nodes: Sequence[Node]) -> None:
    """Refuse nodes in positions that are not supported.

    Args:
        nodes: The nodes, with skips.

    Raises:
        UserError: A node is in such a position.
    """
    depth = 0
    flat = all(isinstance(node, (Dense, FromInput)) for node in nodes)
    matter = channels_matter(nodes)
    if matter[0]:
        raise UserError(
            "Gates or max pooling before the first weight layer are not supported.",
            kind="not-supported",
        )
    for index, node in enumerate(nodes):
        where = node_name(index, node)
        depth += isinstance(node, Fork) - isinstance(node, Merge)
        if depth and isinstance(node, (AveragePool, GlobalAveragePool, GlobalMaxPool, Flatten)):
            raise UserError(
                where + " is not supported inside a residual block.", kind="not-supported"
            )
        if isinstance(node, FromInput) and not flat:
            raise UserError(
                where + " is only supported between dense layers.", kind="not-supported"
            )
        if matter[index + 1] and isinstance(node, (Flatten, GlobalAveragePool, GlobalMaxPool)):
            raise UserError(
                where + " must be followed by a weight layer before the next gate.",
                kind="not-supported",
            )


@dataclass(frozen=True)
class Architecture:
    """A chain of nodes from the inputs to the logits.

    The last node is an ungated `Dense`. Gate layers are gated weight layers and `Gating` nodes; a
    chain without blocks has one fewer than weight layers (theory §1). Missing `Skip` nodes are
    inserted.

    Attributes:
        input_shape: Shape of one example, without the batch axis.
        nodes: The nodes.

    Raises:
        UserError: Shapes do not fit, or a node is in an unsupported position.
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
            or not (self.gated_nodes or self.weight_layers == (last,))
        ):
            raise UserError(
                "A network needs gated layers followed by one ungated dense output layer.",
                kind="no-gates",
            )

    def shape_steps(self) -> Iterator[tuple[Node, tuple[int, ...], tuple[int, ...]]]:
        """Iterate over the nodes with the shapes before and after them.

        Yields:
            Node, input shape and output shape, without the batch axis.
        """
        before = self.input_shape
        for node, after in self.shapes():
            yield node, before, after
            before = after

    def shapes(self) -> Iterator[tuple[Node, tuple[int, ...]]]:
        """Iterate over the nodes with their output shapes.

        Yields:
            Node and output shape, without the batch axis; for a `Skip` the shape that its `Fork`
            kept.
        """
        shape = self.input_shape
        pending: list[tuple[int, ...]] = []
        for index, node in enumerate(self.nodes):
            if isinstance(node, Fork):
                pending.append(shape)
            elif isinstance(node, Skip):
                shape, pending[-1] = pending[-1], shape
            elif isinstance(node, Merge):
                block = pending.pop()
                if block != shape:
                    raise UserError(
                        node_name(index, node)
                        + f" adds {block} and {shape}; the shapes must be equal.",
                        kind="other-inputs",
                    )
            elif isinstance(node, FromInput):
                shape = self.input_shape
            shape = shape_after(node, shape, index)
            yield node, shape

    @property
    def weight_layers(self) -> tuple[Weighted, ...]:
        """The weight layers in order; the last one computes the logits.

        Returns:
            The layers.
        """
        return tuple(node for node in self.nodes if is_weighted(node))

    @property
    def gated_nodes(self) -> tuple[Dense | Conv | Gating, ...]:
        """The gated nodes in order, one per gate layer.

        Returns:
            The nodes.
        """
        return tuple(node for node in self.nodes if is_gated(node))

    @property
    def gated_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the gate layers.

        Returns:
            `(w,)` or `(C, H, W)` for each.
        """
        return tuple(shape for node, shape in self.shapes() if is_gated(node))

    @property
    def gate_names(self) -> tuple[str, ...]:
        """Names of the gate layers.

        Returns:
            For example 'dense 1' or 'conv 2'; 'sum 3' is a gate after an addition.
        """
        return tuple(
            f"{'sum' if isinstance(node, Gating) else 'conv' if len(shape) == 3 else 'dense'} {at}"
            for at, (node, shape) in enumerate(
                zip(self.gated_nodes, self.gated_shapes, strict=True), start=1
            )
        )

    @property
    def is_residual(self) -> bool:
        """Return whether there are residual blocks.

        Returns:
            `True` if a node is a `Merge`.
        """
        return any(isinstance(node, Merge) for node in self.nodes)

    @property
    def is_parallel(self) -> bool:
        """Return whether layers other than the first see the network's input.

        Returns:
            `True` if a node is a `FromInput`.
        """
        return any(isinstance(node, FromInput) for node in self.nodes)

    @property
    def has_batch_norm(self) -> bool:
        """Return whether there is batch normalisation.

        Returns:
            `True` if a convolution has `normal` set.
        """
        return any(isinstance(node, Conv) and node.normal for node in self.nodes)

    @property
    def pooled_paths(self) -> int:
        """Number of positions that all average poolings average over, P.

        Path counts omit their factor 1/P, which is left to β.

        Returns:
            P.
        """
        count = 1
        for node, shape, _ in self.shape_steps():
            if isinstance(node, GlobalAveragePool):
                count *= shape[1] * shape[2]
            elif isinstance(node, AveragePool):
                count *= node.kernel**2
        return count

    @property
    def classes(self) -> int:
        """Number of logits C.

        Returns:
            C.
        """
        return self.weight_layers[-1].outputs


def is_weighted(node: Node) -> TypeGuard[Weighted]:
    """Check whether a node is a weight layer.

    Args:
        node: The node.

    Returns:
        Whether it is.
    """
    return isinstance(node, (Dense, Conv, ChannelScale))


def is_gated(node: Node) -> TypeGuard[Dense | Conv | Gating]:
    """Check whether a node has a gate.

    Args:
        node: The node.

    Returns:
        Whether it has.
    """
    return isinstance(node, Gating) or (isinstance(node, (Dense, Conv)) and node.gated)
