"""How many terms the path-kernel recursion keeps at once, counted without tensors.

A twin of `walk` that follows only which gates multiply each term.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from dgn_engine.kernels.terms import Factor
from dgn_engine.model import architecture as arch
from dgn_engine.model.architecture.branches import channels_matter

Terms = list[tuple[Factor, ...]]


@dataclass(frozen=True)
class TermCount:
    """`alive`: most terms of Λ and S at once, those of open blocks included; `product_numbers`: of
    one example, in the products of gates that they ask for."""

    alive: int
    product_numbers: int


def count_terms(architecture: arch.Architecture) -> TermCount:
    """Of Λ and its derivative S, through all nodes but the last."""
    count = _Count()
    matter = channels_matter(architecture.nodes)[1:]
    place, shape = 0, architecture.input_shape
    for (node, after), by_channel in zip(architecture.shapes(), matter, strict=True):
        match node:
            case arch.Dense() | arch.Conv():
                count.settle(prod(shape))
            case arch.Fork() | arch.Skip() | arch.Merge():
                count.branch(node)
        if arch.is_gated(node):
            count.gate(place)
            place += 1
        if not by_channel:
            count.settle(prod(after))
        shape = after
    return TermCount(count.alive, sum(count.products.values()))


class _Count:
    """Terms of Λ and of S, and what the open blocks hold."""

    def __init__(self) -> None:
        self.terms: Terms = [()]
        self.dual: Terms = [()]
        self.waiting: list[tuple[Terms, Terms]] = []
        self.products: dict[tuple[Factor, ...], int] = {}
        self.alive = 0

    def settle(self, size: int) -> None:
        """All terms are summed, for which each needs the product of its gates."""
        others = sum(len(one) + len(two) for one, two in self.waiting)
        self.alive = max(self.alive, len(self.terms) + len(self.dual) + others)
        for gates in (*self.terms, *self.dual):
            for length in range(2, len(gates) + 1):
                self.products[gates[:length]] = size
        self.terms, self.dual = [()], [()]

    def gate(self, place: int) -> None:
        self.dual = [
            *((*gates, (False, place)) for gates in self.dual),
            *((*gates, (True, place)) for gates in self.terms),
        ]
        self.terms = [(*gates, (False, place)) for gates in self.terms]

    def branch(self, node: arch.Fork | arch.Skip | arch.Merge) -> None:
        match node:
            case arch.Fork():
                self.waiting.append((self.terms, self.dual))
            case arch.Skip():
                begun = self.waiting.pop()
                self.waiting.append((self.terms, self.dual))
                self.terms, self.dual = begun
            case arch.Merge():
                block, block_dual = self.waiting.pop()
                self.terms = _merged(block, self.terms)
                self.dual = _merged(block_dual, self.dual)


def _merged(block: Terms, skip: Terms) -> Terms:
    return [()] if block == skip == [()] else [*block, *skip]
