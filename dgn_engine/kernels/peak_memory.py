"""The memory of the kernels of one network, stage by stage, bounded from above.

Legend: n examples against m (n again where there is no other set), t = all of them; c logits of one
sweep. What is held stays to the end: passes and kernels. Beside it stands the most that one stage
makes on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from math import prod

import torch

from dgn_engine.errors import UserError
from dgn_engine.kernels.arguments import check_count, check_network, check_word
from dgn_engine.kernels.contraction import CACHED, is_pairwise
from dgn_engine.kernels.gram import TILE_ITEMS, rows_at_least
from dgn_engine.kernels.ntk import Logits, logit_chunks
from dgn_engine.kernels.quantities import WITH_SPECTRUM
from dgn_engine.kernels.recursion import pair_numbers, tile_bytes_on
from dgn_engine.kernels.walk import Factor
from dgn_engine.model import architecture as arch
from dgn_engine.model.network import GatedNetwork

WORKING = 32 << 20  # of libraries, and of what is made once, whatever n is
Terms = list[tuple[Factor, ...]]
_ALL = frozenset((*WITH_SPECTRUM, "gates", "eigenvalues", "eigenvalues_ntk"))
_BY_RECURSION = frozenset(("overlap", "sensitive", "npk"))
EIGENVALUES = 9  # matrices of float64 that a spectrum works with, its kernel included


def kernel_bytes(
    network: GatedNetwork, n: int, logits: Logits = "mean", others: int | None = None
) -> int:
    """An upper bound on the bytes that Σ, τ_l, Λ, S, H, the tangent kernels and their eigenvalues
    take for n examples, or for their block with so many `others`, all of them held at once:
    passes, deltas, per-example gradients, tiles of pairs and copies on the way included; inputs
    and weights, which are there before, not."""
    check_network(network)
    check_count("n", n)
    check_word("logits", logits, Logits)
    if others is not None:
        check_count("others", others)
    return WORKING + PeakMemory(network, logits, n, others).total


def check_budget(
    network: GatedNetwork,
    n: int,
    budget_bytes: int,
    logits: Logits = "mean",
    more: str = "",
    others: int | None = None,
) -> None:
    """Raise `UserError` where `kernel_bytes` exceeds the budget, with the n that fits; `more` says
    at the end of the sentence what else one can do."""
    needed = kernel_bytes(network, n, logits, others)
    check_count("budget_bytes", budget_bytes)
    if needed <= budget_bytes:
        return
    fits = largest_count(
        lambda count: kernel_bytes(network, count, logits, others) <= budget_bytes, n
    )
    beside = "" if others is None else f" beside {others:,} others"
    raise UserError(
        f"{n:,} inputs{beside} need {gib(needed)} GiB for their kernels, more than the "
        f"{gib(budget_bytes)} GiB allowed; {fits:,} inputs fit{more}.",
        kind="too-large",
        value=fits,
    )


def largest_count(fits: Callable[[int], bool], above: int) -> int:
    """Return the largest number of inputs that fits, given one `above` that does not; or 0."""
    most = 0
    while above - most > 1:
        middle = (most + above) // 2
        if fits(middle):
            most = middle
        else:
            above = middle
    return most


def gib(count: int) -> str:
    return f"{count / 2**30:,.3g}"


# How many terms the path-kernel recursion keeps at once, counted without tensors.
#
# A twin of `walk` that follows only which gates multiply each term.
def count_terms(architecture: arch.Architecture) -> tuple[int, int]:
    """Most terms of Λ and its derivative S at once, those of open blocks included; and the numbers
    of one example in the products of gates that they ask for. Through all nodes but the last."""
    count = _Count()
    matter = arch.channels_matter(architecture.nodes)[1:]
    place = 0
    for (node, shape, after), by_channel in zip(architecture.steps(), matter, strict=True):
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
    return count.alive, sum(count.products.values())


class _Count:
    """Terms of Λ and of S, and what the open blocks hold."""

    def __init__(self) -> None:
        self.both: tuple[Terms, Terms] = ([()], [()])
        self.waiting: list[tuple[Terms, Terms]] = []
        self.products: dict[tuple[Factor, ...], int] = {}
        self.alive = 0

    def settle(self, size: int) -> None:
        """All terms are summed, for which each needs the product of its gates."""
        others = sum(len(one) + len(two) for one, two in self.waiting)
        terms, dual = self.both
        self.alive = max(self.alive, len(terms) + len(dual) + others)
        for gates in (*terms, *dual):
            for length in range(2, len(gates) + 1):
                self.products[gates[:length]] = size
        self.both = [()], [()]

    def gate(self, place: int) -> None:
        terms, dual = ([(*gates, (False, place)) for gates in part] for part in self.both)
        self.both = terms, [*dual, *((*gates, (True, place)) for gates in self.both[0])]

    def branch(self, node: arch.Fork | arch.Skip | arch.Merge) -> None:
        match node:
            case arch.Fork():
                self.waiting.append(self.both)
            case arch.Skip():
                self.both, self.waiting[-1] = self.waiting[-1], self.both
            case arch.Merge():
                block, skip = self.waiting.pop(), self.both
                self.both = _merged(block[0], skip[0]), _merged(block[1], skip[1])


def _merged(block: Terms, skip: Terms) -> Terms:
    return [()] if block == skip == [()] else [*block, *skip]


class PeakMemory:
    """Bytes for n examples, or for a block of n with `other` more."""

    def __init__(self, network: GatedNetwork, logits: Logits, n: int, other: int | None) -> None:
        first = next(network.parameters())
        self.item, self.device = first.element_size(), first.device
        self.architecture, self.logits = network.architecture, logits
        self.n, self.m = n, n if other is None else other
        self.square = other is None
        self.t = n + (0 if other is None else other)
        self.classes = network.architecture.classes
        self.two = not network.own_gates
        self.soft = network.gate.soft
        self.bias = any(len(stack.biases) > 0 for stack in (network.value, network.feature))
        stacks = [network.value, *([network.feature] if self.two else [])]
        with torch.no_grad():
            layers = [layer for stack in stacks for layer in stack.layer_parameters()]
        self.normal = any(layer.norms for layer in layers)
        # Weights with all that is folded into them, and those behind a normalisation.
        folded = 0 if all(layer.plain for layer in layers) else 4
        self.copied = folded * sum(p.numel() for p in network.parameters())
        self.slopes = any(network.value.trained_slopes())
        sizes = [prod(shape) for _, shape in self.architecture.shapes()]
        self.largest = max(sizes)
        self.gates = sum(prod(shape) for shape in self.architecture.gated_shapes)
        chunks = [slice(0, self.classes)]
        if logits in ("mean", "perclass"):
            chunks = logit_chunks(self.architecture, max(n, self.m), self.item)
        self.c = 1 if logits == "sumlogit" else max(part.stop - part.start for part in chunks)

    @property
    def total(self) -> int:
        return self.bytes_of(_ALL)

    def bytes_of(self, names: AbstractSet[str]) -> int:
        """Bytes of some quantities alone: of `QUANTITIES`, with `eigenvalues` and `nu` those of H
        and `eigenvalues_NAME`, `nu_NAME` those of the kernel NAME. Kernels that others are derived
        from are among the names."""
        stages = [
            self.item * self.t * prod(self.architecture.input_shape),  # x^v of Σ
            self._checking("ntk" in names),
        ]
        if any(not name.endswith("gram") for name in names):
            stages.append(self.passing)
        if "ntk" in names:
            stages.append(self.sweeping)
        if names & _BY_RECURSION:
            stages.append(self.recursing)
        derived = {name for name in names if name.startswith(("eigenvalues", "nu"))}
        if derived:
            stages.append(self._diagonalising(any(name.endswith("_ntk") for name in derived)))
        return self._held(names) + max(stages)

    @property
    def pairs(self) -> int:
        return self.n * self.m

    @property
    def tangents(self) -> int:
        """Numbers of one tangent kernel."""
        return self.pairs * {"full": self.classes**2, "perclass": self.classes}.get(self.logits, 1)

    def _held(self, names: AbstractSet[str]) -> int:
        """Both passes, masks, sensitivities, and the kernels themselves."""
        held = 0
        if any(not name.endswith("gram") for name in names):
            held += self.t * (self.item * self._pass_numbers() + self._mask_bytes())
            held += self.item * self.copied
        paths = bool(names & _BY_RECURSION)
        if paths or "gram" in names:  # H of dense layers is made of Σ
            held += self.pairs * self.item
        if "gates" in names:
            held += self.pairs * self.item * len(self.architecture.gated_shapes)
        if paths:
            held += self.pairs * 8 * 5
        if "ntk" in names:
            held += (4 if self.soft else 2) * self.tangents * self.item
        return held

    @property
    def passing(self) -> int:
        each = self.item * (3 * self.largest + self._unfolded())
        return self.t * each

    @property
    def sweeping(self) -> int:
        """One backward sweep of c logits, and what it adds to the kernels."""
        joined = 3 * self.tangents  # of chunks, and divided by their number
        return self.item * (self._delta_numbers() + self._layer_numbers() + joined)

    @property
    def recursing(self) -> int:
        """Λ with S: copies of gates, one tile of pairs, and the kernels while they are scaled."""
        alive, product_numbers = count_terms(self.architecture)
        copied = self.gates + prod(self.architecture.input_shape) if not self.square else 0
        each = self.item * (copied + product_numbers)
        maps = any(isinstance(node, arch.Conv) for node in self.architecture.nodes)
        tile = 0
        if maps:
            item = 8 if self.architecture.residual else self.item
            pair = pair_numbers(self.architecture)
            columns = min(self.m, max(1, tile_bytes_on(self.device) // (self.item * pair)))
            tile = columns * item * ((alive + 4) * pair + 2 * self._padded_pair())
            each += 8 * (prod(self.architecture.input_shape) + self.gates // 4)  # as bits
        vectors = 8 * (alive + 6) * self._tile(self.m)
        return self.t * each + tile + vectors + 8 * 3 * self.pairs

    def _checking(self, with_k: bool) -> int:
        """A copy of the largest kernel and a mask, while it is seen whether all is finite."""
        return 10 * max(self.pairs, self.tangents if with_k else 0)

    def _diagonalising(self, of_k: bool) -> int:
        if not self.square:
            return 0
        wide = self.n * (self.classes if of_k and self.logits == "full" else 1)
        return 8 * EIGENVALUES * wide**2

    def _pass_numbers(self) -> int:
        """What the passes keep of one example, with slopes and sensitivities."""
        numbers = 0
        for node, shape in self.architecture.shapes():
            size = prod(shape)
            if arch.is_gated(node):
                numbers += size * (3 if not self.two else 7)
            elif not isinstance(node, (arch.Fork, arch.Skip)):
                numbers += size * (2 if self.two else 1)
        return numbers + self.gates * (2 + (2 if self.soft else 0) + (0 if self.square else 1))

    def _mask_bytes(self) -> int:
        pooled = (
            prod(shape)
            for node, shape in self.architecture.shapes()
            if isinstance(node, (arch.MaxPool, arch.GlobalMaxPool))
        )
        return 8 * (2 if self.two else 1) * (1 if self.square else 2) * sum(pooled)

    def _convolutions(self) -> Iterator[tuple[arch.Conv, int]]:
        for node, shape in self.architecture.shapes():
            if isinstance(node, arch.Conv):
                yield node, prod(shape[1:])

    def _unfolded(self) -> int:
        """Numbers of all windows of one example, which a convolution in float64 makes."""
        return max((arch.fan_in(conv) * area for conv, area in self._convolutions()), default=0)

    def _padded_pair(self) -> int:
        """Numbers of the largest map of one pair, padding included."""
        most = 1
        for node, shape, _ in self.architecture.steps():
            if isinstance(node, arch.Conv):
                most = max(most, prod(side + 2 * node.padding for side in shape[1:]) ** 2)
        return most

    def _delta_numbers(self) -> int:
        """Deltas on their way down, those that wait in open blocks, and those of gates."""
        depth, waiting = 0, 0
        for node in self.architecture.nodes:
            depth += isinstance(node, arch.Fork) - isinstance(node, arch.Merge)
            waiting = max(waiting, depth)
        each = (3 + waiting) * self.largest
        if self.soft:
            each += self.gates + (1 if self.two else 5) * self.largest
        if self.slopes:
            each += 4 * self.largest + 2 * self.gates
        if self.logits == "full":
            outputs = sum(layer.outputs for layer in self.architecture.weighted)
            each += 2 * (2 if self.soft else 1) * outputs
        return self.t * self.c * each

    def _layer_numbers(self) -> int:
        """The layer that takes most: its factors, sides and tiles."""
        full = self.logits == "full"
        parts = 2 if self.soft and not self.two else 1
        most, held = 0, 0
        for node, shape in self.architecture.shapes():
            if isinstance(node, arch.Conv):
                most = max(most, self._convolution(node, prod(shape[1:]), parts))
            elif isinstance(node, arch.Dense):
                factor = self.t * (node.inputs + 1) if self.bias else 0
                held += factor if full else 0
                tile = 3 * self._tile(self.m * (self.c if self.logits == "perclass" else 1))
                norms = 6 * self.t * self.c * node.outputs if self.normal else 0
                most = max(most, factor + tile + norms)
        if full:
            layers = len(self.architecture.weighted)
            most += (layers + 3) * min(max(CACHED, self.m), self.classes * self.pairs)
        return most + held

    def _convolution(self, layer: arch.Conv, area: int, parts: int) -> int:
        n = max(self.n, self.m)
        fan_in, c = arch.fan_in(layer) + 1, self.c
        how = self.logits if self.logits in ("full", "perclass") else "total"
        windows = 3 * self.t * area * fan_in
        norms = 4 * self.t * c * layer.outputs * area if self.normal else 0
        if is_pairwise(layer, how, n, c, area):
            row = self.m * area**2 * (c if how == "perclass" else 1)
            sides = 2 * parts * self.t * c * layer.outputs * area
            return windows + sides + 4 * self._tile(row) + norms
        copies = 3 if how == "total" else 4
        gradients = copies * parts * self.t * c * layer.outputs * fan_in
        return windows + gradients + 3 * self._tile(self.m) + norms

    def _tile(self, row: int) -> int:
        """Numbers in a tile of rows, as `row_tiles` cuts them."""
        step = max(1, TILE_ITEMS // row)
        if self.square:
            step = min(step, max(rows_at_least(self.device), self.n // 8, 1))
        return min(step, self.n) * row
