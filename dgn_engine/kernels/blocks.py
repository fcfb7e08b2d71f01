"""Residual blocks in the path-kernel recursion: K turns into post²(pre²·block(K) + K)."""

from __future__ import annotations

from torch import Tensor

from dgn_engine.architecture import Architecture, Conv, Dense, Fork, Merge, Node


class Blocks:
    """The open residual blocks of one tile: what each adds at its end, and the widths inside."""

    def __init__(self, by_width: bool) -> None:
        self.by_width = by_width
        self._widths = 1.0
        self._kept: list[tuple[Tensor, Tensor | None, float]] = []

    def widen(self, width: int) -> None:
        """A gated layer was passed."""
        self._widths *= float(width)

    def step(self, node: Node, K: Tensor, dual: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Open or close a block; any other node changes nothing."""
        if isinstance(node, Fork):
            self._kept.append((K, dual, self._widths))
            self._widths = 1.0
        elif isinstance(node, Merge):
            skip, skip_dual, widths = self._kept.pop()
            through = node.pre**2 * (1.0 if self.by_width else self._widths)
            K = node.post**2 * (through * K + skip)
            if dual is not None:
                dual = through * dual if skip_dual is None else through * dual + skip_dual
                dual = node.post**2 * dual
            self._widths = widths  # the block's own are in K by now
        return K, dual


def widths_outside_blocks(architecture: Architecture) -> float:
    """Π w_l over the gated layers that lie in no residual block."""
    widths, open_blocks = 1.0, 0
    for node in architecture.nodes:
        open_blocks += isinstance(node, Fork) - isinstance(node, Merge)
        if isinstance(node, (Dense, Conv)) and node.gated and not open_blocks:
            widths *= float(node.outputs)
    return widths
