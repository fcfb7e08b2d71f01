"""The path-kernel recursion node by node, for one tile of pairs: K and its derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from torch import Tensor

from dgn_engine.kernels.gram import accumulator, flat_gram
from dgn_engine.kernels.slabs import both_windows, position_gram
from dgn_engine.model import architecture as arch
from dgn_engine.model.architecture import AveragePool

Factor = tuple[bool, int]
"""One factor of a product: its gate layer, and whether it is that layer's sensitivity."""


@dataclass(frozen=True)
class GateLayers:
    """Gates and sensitivities by layer, and products of them that blocks with gates after their
    additions ask for, each computed once."""

    gates: Sequence[Tensor]
    sensitivities: Sequence[Tensor] | None
    _products: dict[tuple[Factor, ...], Tensor] = field(default_factory=dict)

    def product(self, factors: tuple[Factor, ...]) -> Tensor:
        """(n, w) or (n, C, H, W), the product of the factors."""
        if len(factors) == 1:
            return self._layer(factors[0])
        if factors not in self._products:
            self._products[factors] = self.product(factors[:-1]) * self._layer(factors[-1])
        return self._products[factors]

    def _layer(self, factor: Factor) -> Tensor:
        sensitive, place = factor
        if not sensitive:
            return self.gates[place]
        assert self.sensitivities is not None
        return self.sensitivities[place]


# Path kernels channel by channel, until a weight layer mixes the channels (THEORY §3).
#
# Behind a weight layer every channel has the same kernel κ, and gates G make it G_c G'_c κ. An
# addition keeps both of its summands, a gate behind it multiplies the gates of each, and only what
# mixes the channels sums over them: K = Σ_terms ⟨M, M'⟩/C · κ, M the product of a term's gates.
@dataclass(frozen=True)
class RecursionTerm:
    """One summand: its kernel κ and the gates that multiply it. `by_channel`: κ has an axis of
    channels behind the pairs, (B, C, H, W, H', W'), and all gates are in it."""

    kernel: Tensor
    gates: tuple[Factor, ...] = ()
    by_channel: bool = False

    def scaled(self, scale: float) -> RecursionTerm:
        return self if scale == 1.0 else replace(self, kernel=scale * self.kernel)


@dataclass(frozen=True)
class MapPairs:
    """Example s = `row` against s' in `columns`: kernels (B, H, W, H', W') of maps."""

    row: int
    columns: slice

    def gram(self, maps: Tensor) -> Tensor:
        """⟨m(s,·,p), m(s',·,p')⟩/C."""
        return position_gram(maps, self.row, self.columns) / maps.shape[1]

    def each(self, maps: Tensor) -> Tensor:
        """m(s,c,p) m(s',c,p') of every channel: (B, C, H, W, H', W')."""
        one, many = maps[self.row], maps[self.columns]
        return one[None, ..., None, None] * many[:, :, None, None]


@dataclass(frozen=True)
class Tile:
    """Examples `rows` against `columns`: kernels (r, c) of vectors."""

    rows: slice
    columns: slice

    def gram(self, layer: Tensor) -> Tensor:
        """G Gᵀ / w for a dense gate layer (n, w), in the accumulator's type."""
        gram = flat_gram(layer[self.rows], layer[self.columns])
        return gram.to(accumulator(layer)).div_(layer.shape[1])

    def each(self, layer: Tensor) -> Tensor:
        """Vectors are never pooled, so their kernels have no axis of channels."""
        raise AssertionError("vectors have no kernels by channel")


Pairs = MapPairs | Tile


def summed(terms: Sequence[RecursionTerm], layers: GateLayers, pairs: Pairs) -> Tensor:
    """K: the terms, summed over their channels and divided by how many there are."""
    total: Tensor | None = None
    for term in terms:
        if term.by_channel:
            part = term.kernel.mean(1)
        elif term.gates:
            part = term.kernel * pairs.gram(layers.product(term.gates))
        else:
            part = term.kernel
        total = part if total is None else total + part
    assert total is not None
    return total


def gated(
    terms: Sequence[RecursionTerm], factor: Factor, layers: GateLayers, pairs: Pairs
) -> list[RecursionTerm]:
    """Every term behind one more gate, or behind its sensitivity."""
    return [
        replace(term, kernel=term.kernel * pairs.each(layers.product((factor,))))
        if term.by_channel
        else replace(term, gates=(*term.gates, factor))
        for term in terms
    ]


def averaged(
    terms: Sequence[RecursionTerm], node: AveragePool, layers: GateLayers, pairs: Pairs
) -> list[RecursionTerm]:
    """Both windows summed; a window mixes positions whose gates differ, so these go into κ."""
    found = []
    for term in terms:
        if term.gates:
            each = pairs.each(layers.product(term.gates))
            term = RecursionTerm(term.kernel[:, None] * each, by_channel=True)
        kernel = term.kernel.flatten(0, 1) if term.by_channel else term.kernel
        pooled = both_windows(kernel, node)
        if term.by_channel:
            pooled = pooled.reshape(*term.kernel.shape[:2], *pooled.shape[1:])
        found.append(replace(term, kernel=pooled))
    return found


def max_pooled(
    terms: Sequence[RecursionTerm],
    mask: Tensor,
    layers: GateLayers,
    pairs: MapPairs,
    by_channel: bool,
) -> list[RecursionTerm]:
    """The mask of a max pooling is one more gate per channel and window, summed over both windows:
    K̂(q, q') = Σ_c M(s,c,a_c(q)) M(s',c,a'_c(q')) κ_c(a_c(q), a'_c(q')) / C, or its summands."""
    return [_one_max_pooled(term, mask, layers, pairs, by_channel) for term in terms]


def _one_max_pooled(
    term: RecursionTerm, mask: Tensor, layers: GateLayers, pairs: MapPairs, by_channel: bool
) -> RecursionTerm:
    channels, sides = mask.shape[1], mask.shape[2:]
    place, places = mask[pairs.row].flatten(1), mask[pairs.columns].flatten(2)
    one = many = None
    if term.gates:
        gates = layers.product(term.gates).flatten(2)
        one = gates[pairs.row].gather(1, place)
        many = gates[pairs.columns].gather(2, places)
    lead = term.kernel.shape[: 2 if term.by_channel else 1]
    rest = term.kernel.shape[len(lead) :]
    flat = term.kernel.reshape(*lead, prod(rest[:2]), -1)
    shape = (lead[0], place.shape[1], places.shape[2])
    total = flat.new_zeros((shape[0], channels, *shape[1:]) if by_channel else shape)
    for c in range(channels):
        rows = (flat[:, c] if term.by_channel else flat)[:, place[c]]
        wanted = places[:, c][:, None].expand(-1, rows.shape[1], -1)
        chosen = rows.gather(2, wanted)
        if one is not None and many is not None:
            chosen = chosen * one[c][None, :, None] * many[:, c][:, None]
        if by_channel:
            total[:, c] = chosen
        else:
            total += chosen
    if by_channel:
        return RecursionTerm(total.reshape(*total.shape[:2], *sides, *sides), by_channel=True)
    return RecursionTerm((total / channels).reshape(-1, *sides, *sides))


def merged(
    block: Sequence[RecursionTerm],
    skip: Sequence[RecursionTerm],
    through: float,
    beside: float,
    post: float,
) -> list[RecursionTerm]:
    """post · (through · block + beside · skip), both path counts of what lies outside."""
    if len(block) == len(skip) == 1 and _alike(block[0]) and _alike(skip[0]):
        return [RecursionTerm(post * (through * block[0].kernel + skip[0].scaled(beside).kernel))]
    return [
        *(term.scaled(post * through) for term in block),
        *(term.scaled(post * beside) for term in skip),
    ]


def _alike(term: RecursionTerm) -> bool:
    return not term.gates and not term.by_channel


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
        dual = None if self.dual is None else summed(self.dual, self._layers, self._pairs)
        return summed(self.terms, self._layers, self._pairs), dual

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
