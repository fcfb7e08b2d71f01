"""What a node makes of the shape that arrives, and a refusal where it does not fit."""

from __future__ import annotations

from dgn_engine.architecture.nodes import (
    AveragePool,
    Conv,
    Dense,
    Flatten,
    Fork,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
    Node,
)
from dgn_engine.refusal import Refusal


def check_merge(place: int, shape: tuple[int, ...], kept: list[tuple[int, ...]]) -> None:
    """Close the innermost of the open blocks; refused where there is none or shapes differ."""
    if not kept:
        raise Refusal(f"Node {place} (Merge) has no Fork before it.")
    before = kept.pop()
    if before != shape:
        raise Refusal(f"Node {place} (Merge) adds {shape} to {before}; the shapes must be equal.")


def shape_after(node: Node, shape: tuple[int, ...], place: int) -> tuple[int, ...]:
    """The shape that leaves node number `place`; raises `Refusal` where it cannot take `shape`."""
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
