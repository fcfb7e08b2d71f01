"""The path-kernel recursion node by node, for one tile of pairs: K and its derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from dgn_engine.kernels.terms import (
    GateLayers,
    MapPairs,
    Pairs,
    RecursionTerm,
    averaged,
    gated,
    max_pooled,
    merged,
    summed,
)
from dgn_engine.model import architecture as arch


@dataclass(frozen=True)
class LayerScale:
    """A weight layer multiplies K by `value`, whose derivative by the dual number is `change`."""

    value: float
    change: float


@dataclass
class _Branch:
    """What the other branch of an open block holds, and the widths that it has passed."""

    terms: list[RecursionTerm]
    dual: list[RecursionTerm] | None
    widths: float


class Walk:
    """K as a sum of terms, its derivative likewise, and the residual blocks that are open.

    A block turns K into post²(pre²·block(K) + skip(K)). Every layer divides K by its width, so
    that nothing overflows; unless `by_width`, a block is added to its skip as path counts.
    """

    def __init__(self, layers: GateLayers, pairs: Pairs, by_width: bool, K: Tensor) -> None:
        self.terms = [RecursionTerm(K)]
        self.dual: list[RecursionTerm] | None = None
        self._layers, self._pairs, self._by_width = layers, pairs, by_width
        self._widths = 1.0
        self._open: list[_Branch] = []

    def start_dual(self, derivative: Tensor) -> None:
        """The derivative of the K that was given."""
        self.dual = [RecursionTerm(derivative)]

    def kernels(self) -> tuple[Tensor, Tensor | None]:
        """K and its derivative, channels summed."""
        dual = None if self.dual is None else self._summed(self.dual)
        return self._summed(self.terms), dual

    def settle(self) -> None:
        """Sum over the channels: what comes next mixes them."""
        K, dual = self.kernels()
        self.terms, self.dual = [RecursionTerm(K)], None if dual is None else [RecursionTerm(dual)]

    def weigh(
        self, linear: Callable[[Tensor], Tensor], width: int, scale: LayerScale | None
    ) -> None:
        K, dual = self.kernels()
        K, dual = linear(K), None if dual is None else linear(dual)
        if scale is not None:
            dual = scale.change * K if dual is None else scale.value * dual + scale.change * K
            K = scale.value * K
        self.terms, self.dual = [RecursionTerm(K)], None if dual is None else [RecursionTerm(dual)]
        self._widths *= float(width)

    def gate(self, place: int) -> None:
        layers, pairs = self._layers, self._pairs
        dual = None if self.dual is None else gated(self.dual, (False, place), layers, pairs)
        if layers.sensitivities is not None:
            dual = [*(dual or []), *gated(self.terms, (True, place), layers, pairs)]
        self.terms, self.dual = gated(self.terms, (False, place), layers, pairs), dual

    def average(self, node: arch.AveragePool) -> None:
        self.terms = averaged(self.terms, node, self._layers, self._pairs)
        if self.dual is not None:
            self.dual = averaged(self.dual, node, self._layers, self._pairs)

    def max_pool(self, mask: Tensor, by_channel: bool) -> None:
        """Through a max pooling; `by_channel` where more gates follow before a weight layer."""
        pairs = self._pairs
        assert isinstance(pairs, MapPairs)
        self.terms = max_pooled(self.terms, mask, self._layers, pairs, by_channel)
        if self.dual is not None:
            self.dual = max_pooled(self.dual, mask, self._layers, pairs, by_channel)

    def branch(self, node: arch.Node) -> None:
        if isinstance(node, arch.Fork):
            self._open.append(_Branch(self.terms, self.dual, self._widths))
            self._widths = 1.0
        elif isinstance(node, arch.Skip):
            begun = self._open[-1]
            outside = begun.widths
            # The block's end waits in the place of what the skip begins with.
            self._open[-1] = _Branch(self.terms, self.dual, self._widths)
            self._open.append(_Branch([], None, outside))
            self.terms, self.dual, self._widths = begun.terms, begun.dual, 1.0
        elif isinstance(node, arch.Merge):
            outside, block = self._open.pop().widths, self._open.pop()
            scales = (
                node.pre**2 * (1.0 if self._by_width else block.widths),
                1.0 if self._by_width else self._widths,
                node.post**2,
            )
            self.dual = _added(block.dual, self.dual, scales)
            self.terms = merged(block.terms, self.terms, *scales)
            self._widths = outside  # the block's own are in K by now

    def _summed(self, terms: Sequence[RecursionTerm]) -> Tensor:
        return summed(terms, self._layers, self._pairs)


def _added(
    block: list[RecursionTerm] | None,
    skip: list[RecursionTerm] | None,
    scales: tuple[float, float, float],
) -> list[RecursionTerm] | None:
    through, beside, post = scales
    if block is not None and skip is not None:
        return merged(block, skip, through, beside, post)
    if block is not None:
        return [term.scaled(through).scaled(post) for term in block]
    if skip is not None:
        return [term.scaled(beside).scaled(post) for term in skip]
    return None


def widths_outside_blocks(architecture: arch.Architecture) -> float:
    """Π w_l over the weight layers that lie in no residual block, the output layer left out."""
    widths, open_blocks = 1.0, 0
    for node in architecture.nodes[:-1]:
        open_blocks += isinstance(node, arch.Fork) - isinstance(node, arch.Merge)
        if isinstance(node, (arch.Dense, arch.Conv)) and not open_blocks:
            widths *= float(node.outputs)
    return widths


def keeps_channels(node: arch.Node) -> bool:
    """Whether what leaves a node may have an axis of channels of its own."""
    return isinstance(node, (arch.AveragePool, arch.MaxPool, arch.GlobalMaxPool))
