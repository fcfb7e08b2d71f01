"""Which gate layer may serve which value layer, in words and as permutations."""

from __future__ import annotations

from collections.abc import Sequence

from dgn_engine.protocol.events import LayerInfo

Order = tuple[int, ...]  # value layer l uses gate layer order[l], 0-based


def identity(count: int) -> Order:
    """Every value layer uses the gate layer of its own place."""
    return tuple(range(count))


def exchanged(order: Order, first: int, second: int) -> Order:
    """The order in which value layers `first` and `second` have swapped their gates."""
    result = list(order)
    result[first], result[second] = result[second], result[first]
    return tuple(result)


def why_not(layers: Sequence[LayerInfo], order: Order, origin: int, target: int) -> str:
    """Why the gates of value layers `origin` and `target` cannot be swapped; empty if they can."""
    moved, there = layers[order[origin]], layers[target]
    if moved.shape == there.shape and layers[order[target]].shape == layers[origin].shape:
        return ""
    has, needs = shape_in_words(moved.shape), shape_in_words(there.shape)
    if len(moved.shape) == len(there.shape) == 3:
        needs = needs.replace(" channels", "")
    elif len(moved.shape) == len(there.shape):
        needs = needs.replace(" units", "")
    return f"G{moved.index + 1} has {has}, layer {target + 1} needs {needs}"


def shape_in_words(shape: tuple[int, ...]) -> str:
    """'64 units', or '128 channels of 16×16'."""
    if len(shape) == 1:
        return f"{shape[0]} units"
    return f"{shape[0]} channels of " + "×".join(str(side) for side in shape[1:])
