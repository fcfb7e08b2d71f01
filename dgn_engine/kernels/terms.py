"""Path kernels channel by channel, until a weight layer mixes the channels (THEORY §3).

Behind a weight layer every channel has the same kernel κ, and gates G make it G_c G'_c κ. An
addition keeps both of its summands, a gate behind it multiplies the gates of each, and only what
mixes the channels sums over them: K = Σ_terms ⟨M, M'⟩/C · κ, M the product of a term's gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from torch import Tensor

from dgn_engine.kernels.gram import accumulator, flat_gram
from dgn_engine.kernels.positions import both_windows, position_gram
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
