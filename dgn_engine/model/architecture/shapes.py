"""What a node makes of the shape that arrives, and a refusal where it does not fit."""

from __future__ import annotations

from dgn_engine.errors import UserError
from dgn_engine.model.architecture import nodes


def shape_after(node: nodes.Node, shape: tuple[int, ...], place: int) -> tuple[int, ...]:
    """The shape that leaves node number `place`; raises `UserError` if it cannot take `shape`."""
    where = f"Node {place} ({type(node).__name__})"
    match node:
        case nodes.Fork() | nodes.Skip() | nodes.Merge() | nodes.Gating():
            return shape
        case nodes.ChannelScale():
            if shape[:1] != (node.channels,):
                raise UserError(f"{where} takes {node.channels} channels, but {shape} arrives.")
            return shape
        case nodes.Dense():
            if shape != (node.inputs,):
                raise UserError(f"{where} takes {node.inputs} inputs, but {shape} arrives.")
            return (node.outputs,)
        case nodes.Conv():
            if len(shape) != 3 or shape[0] != node.inputs:
                raise UserError(f"{where} takes {node.inputs} channels, but {shape} arrives.")
            if node.circular and node.padding > min(shape[1:]):  # more than once around
                raise UserError(
                    f"{where}: a map of {shape[1]}×{shape[2]} is smaller than its circular padding "
                    f"of {node.padding}; use less padding or larger images."
                )
            sides = tuple(
                (side + 2 * node.padding - node.kernel) // node.stride + 1 for side in shape[1:]
            )
            if min(sides) < 1:
                raise UserError(
                    f"{where}: a map of {shape[1]}×{shape[2]} is too small for its window; "
                    "use a smaller stride or larger images."
                )
            return (node.outputs, *sides)
        case nodes.GlobalAveragePool() | nodes.GlobalMaxPool():
            if len(shape) != 3:
                raise UserError(f"{where} needs a map, but {shape} arrives.")
            return (shape[0],)
        case nodes.AveragePool() | nodes.MaxPool():
            margin = node.padding if isinstance(node, nodes.MaxPool) else 0
            if len(shape) != 3 or min(shape[1:]) + 2 * margin < node.kernel:
                raise UserError(f"{where} needs a map as large as its window, but {shape} arrives.")
            if 2 * margin > node.kernel:
                raise UserError(f"{where}: its padding may be half of its window at most.")
            rows, columns = ((s + 2 * margin - node.kernel) // node.stride + 1 for s in shape[1:])
            return (shape[0], rows, columns)
        case nodes.Flatten():
            size = 1
            for side in shape:
                size *= side
            return (size,)
