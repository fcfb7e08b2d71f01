"""Blocks and their skips: where they begin, and whose channels meet a gate after an addition."""

from __future__ import annotations

from collections.abc import Sequence

from dgn_engine.errors import UserError
from dgn_engine.model.architecture.nodes import (
    AveragePool,
    ChannelScale,
    Flatten,
    Fork,
    Gating,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
    Node,
    Skip,
)


def with_skips(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with a `Skip` before every `Merge` that has none: what the Fork kept is added."""
    whole: list[Node] = []
    begun: list[bool] = []  # of each open block, whether its skip has begun
    for place, node in enumerate(nodes):
        where = f"Node {place} ({type(node).__name__})"
        if isinstance(node, (Skip, Merge)) and not begun:
            raise UserError(f"{where} has no Fork before it.")
        if isinstance(node, Fork):
            begun.append(False)
        elif isinstance(node, Skip):
            if begun[-1]:
                raise UserError(f"{where} begins a second skip in one block.")
            begun[-1] = True
        elif isinstance(node, Merge) and not begun.pop():
            whole.append(Skip())
        whole.append(node)
    if begun:
        raise UserError("A residual block is not closed: a Fork needs its Merge.")
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
            "Gates or max pooling of the inputs themselves are not supported: begin with weights."
        )
    for place, node in enumerate(nodes):
        where = f"Node {place} ({type(node).__name__})"
        depth += isinstance(node, Fork) - isinstance(node, Merge)
        if depth and isinstance(node, (AveragePool, GlobalAveragePool, GlobalMaxPool, Flatten)):
            raise UserError(f"{where} may not be inside a block.")
        if matter[place + 1] and isinstance(node, (Flatten, GlobalAveragePool, GlobalMaxPool)):
            raise UserError(f"{where} must be followed by weights before there are gates again.")
