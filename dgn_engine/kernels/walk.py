"""The path-kernel recursion node by node for one tile of pairs, with its derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from torch import Tensor

from dgn_engine.kernels.gram import accumulator_dtype, flat_gram
from dgn_engine.kernels.slabs import both_windows, position_gram
from dgn_engine.model import architecture as arch
from dgn_engine.model.architecture import AveragePool

Factor = tuple[bool, int]
"""One factor of a product: whether it is a sensitivity, and its gate layer."""


@dataclass(frozen=True)
class GateLayers:
    """Gates and sensitivities by layer, and their products.

    Products are needed for gates after the addition of a residual block; each is computed once.
    """

    gates: Sequence[Tensor]
    sensitivities: Sequence[Tensor] | None
    _products: dict[tuple[Factor, ...], Tensor] = field(default_factory=dict)

    def gate_product(self, factors: tuple[Factor, ...]) -> Tensor:
        """Multiply gates or sensitivities of several layers.

        Args:
            factors: The factors.

        Returns:
            Their product, `(n, w)` or `(n, C, H, W)`.
        """
        if len(factors) == 1:
            return self._factor_gates(factors[0])
        if factors not in self._products:
            self._products[factors] = self.gate_product(factors[:-1]) * self._factor_gates(
                factors[-1]
            )
        return self._products[factors]

    def _factor_gates(self, factor: Factor) -> Tensor:
        """Return the gates or sensitivities that a factor stands for."""
        sensitive, place = factor
        if not sensitive:
            return self.gates[place]
        assert self.sensitivities is not None
        return self.sensitivities[place]


# Path kernels channel by channel, until a weight layer mixes the channels (theory §3).
#
# After a weight layer every channel has the same kernel κ, and gates G turn it into G_c G'_c κ. An
# addition keeps both summands, and a gate after it multiplies the gates of each. Only a weight
# layer sums over channels: K = Σ_terms ⟨M, M'⟩/C · κ, with M the product of a term's gates.
@dataclass(frozen=True)
class RecursionTerm:
    """One summand of a kernel.

    Attributes:
        kernel: κ.
        gates: The gates that multiply it.
        by_channel: Whether κ has a channel axis after the pairs, `(B, C, H, W, H', W')`, and
          already includes all gates.
    """

    kernel: Tensor
    gates: tuple[Factor, ...] = ()
    by_channel: bool = False

    def scale_by(self, scale: float) -> RecursionTerm:
        """Multiply the term by a number.

        Args:
            scale: The number.

        Returns:
            The scaled term.
        """
        return self if scale == 1.0 else replace(self, kernel=scale * self.kernel)


@dataclass(frozen=True)
class MapPairs:
    """Example s = `row` against s' in `columns`; kernels of maps are (B, H, W, H', W')."""

    row: int
    columns: slice

    def gram(self, maps: Tensor) -> Tensor:
        """Compute ⟨m(s, ·, p), m(s', ·, p')⟩/C.

        Args:
            maps: Maps, `(n, C, H, W)`.

        Returns:
            The products, `(B, H, W, H', W')`.
        """
        return position_gram(maps, self.row, self.columns) / maps.shape[1]

    def channel_products(self, maps: Tensor) -> Tensor:
        """Compute m(s, c, p) m(s', c, p') for every channel.

        Args:
            maps: Maps, `(n, C, H, W)`.

        Returns:
            The products, `(B, C, H, W, H', W')`.
        """
        row_maps, column_maps = maps[self.row], maps[self.columns]
        return row_maps[None, ..., None, None] * column_maps[:, :, None, None]


@dataclass(frozen=True)
class Tile:
    """Examples `rows` against `columns`; kernels of vectors are (r, c)."""

    rows: slice
    columns: slice

    def gram(self, layer: Tensor) -> Tensor:
        """Compute G Gᵀ/w.

        Args:
            layer: A dense gate layer, `(n, w)`.

        Returns:
            The products, `(r, c)`, float64.
        """
        gram = flat_gram(layer[self.rows], layer[self.columns])
        return gram.to(accumulator_dtype(layer)).div_(layer.shape[1])

    def channel_products(self, layer: Tensor) -> Tensor:
        """Refuse to compute products by channel, which vectors, never pooled, do not need.

        Args:
            layer: A dense gate layer.

        Raises:
            AssertionError: Always.
        """
        raise AssertionError("vectors have no kernels by channel")


Pairs = MapPairs | Tile


def sum_terms(terms: Sequence[RecursionTerm], layers: GateLayers, pairs: Pairs) -> Tensor:
    """Sum terms over channels, K = Σ_terms ⟨M, M'⟩/C · κ.

    Args:
        terms: The terms.
        layers: Gates and sensitivities.
        pairs: The pairs of examples.

    Returns:
        K.
    """
    total: Tensor | None = None
    for term in terms:
        if term.by_channel:
            part = term.kernel.mean(1)
        elif term.gates:
            part = term.kernel * pairs.gram(layers.gate_product(term.gates))
        else:
            part = term.kernel
        total = part if total is None else total + part
    assert total is not None
    return total


def gate_terms(
    terms: Sequence[RecursionTerm], factor: Factor, layers: GateLayers, pairs: Pairs
) -> list[RecursionTerm]:
    """Multiply every term by one more gate, or by its sensitivity.

    Args:
        terms: The terms.
        factor: The gate layer, or its sensitivity.
        layers: Gates and sensitivities.
        pairs: The pairs of examples.

    Returns:
        The new terms.
    """
    return [
        replace(term, kernel=term.kernel * pairs.channel_products(layers.gate_product((factor,))))
        if term.by_channel
        else replace(term, gates=(*term.gates, factor))
        for term in terms
    ]


def average_terms(
    terms: Sequence[RecursionTerm], node: AveragePool, layers: GateLayers, pairs: Pairs
) -> list[RecursionTerm]:
    """Apply an average pooling: sum over both windows.

    A window mixes positions whose gates differ, so gates are multiplied into κ first.

    Args:
        terms: The terms.
        node: The pooling.
        layers: Gates and sensitivities.
        pairs: The pairs of examples.

    Returns:
        The new terms.
    """
    pooled_terms = []
    for term in terms:
        if term.gates:
            products = pairs.channel_products(layers.gate_product(term.gates))
            term = RecursionTerm(term.kernel[:, None] * products, by_channel=True)
        kernel = term.kernel.flatten(0, 1) if term.by_channel else term.kernel
        pooled = both_windows(kernel, node)
        if term.by_channel:
            pooled = pooled.reshape(*term.kernel.shape[:2], *pooled.shape[1:])
        pooled_terms.append(replace(term, kernel=pooled))
    return pooled_terms


def max_pool_terms(
    terms: Sequence[RecursionTerm],
    mask: Tensor,
    layers: GateLayers,
    pairs: MapPairs,
    by_channel: bool,
) -> list[RecursionTerm]:
    """Apply a max pooling, whose mask is one more gate per channel and window.

    With a_c(q) the arg-max position,

        K(q, q') = Σ_c M(s, c, a_c(q)) M(s', c, a'_c(q')) κ_c(a_c(q), a'_c(q'))/C.

    Args:
        terms: The terms.
        mask: Arg-max positions, `(n, C, H', W')`.
        layers: Gates and sensitivities.
        pairs: The pairs of examples.
        by_channel: Whether to keep the summands of the sum over c.

    Returns:
        The new terms.
    """
    return [_max_pool_term(term, mask, layers, pairs, by_channel) for term in terms]


def _max_pool_term(
    term: RecursionTerm, mask: Tensor, layers: GateLayers, pairs: MapPairs, by_channel: bool
) -> RecursionTerm:
    """Apply a max pooling to one term."""
    channels, sides = mask.shape[1], mask.shape[2:]
    row_positions, column_positions = mask[pairs.row].flatten(1), mask[pairs.columns].flatten(2)
    row_gates = column_gates = None
    if term.gates:
        gates = layers.gate_product(term.gates).flatten(2)
        row_gates = gates[pairs.row].gather(1, row_positions)
        column_gates = gates[pairs.columns].gather(2, column_positions)
    lead = term.kernel.shape[: 2 if term.by_channel else 1]
    rest = term.kernel.shape[len(lead) :]
    flat = term.kernel.reshape(*lead, prod(rest[:2]), -1)
    shape = (lead[0], row_positions.shape[1], column_positions.shape[2])
    total = flat.new_zeros((shape[0], channels, *shape[1:]) if by_channel else shape)
    for c in range(channels):
        rows = (flat[:, c] if term.by_channel else flat)[:, row_positions[c]]
        wanted = column_positions[:, c][:, None].expand(-1, rows.shape[1], -1)
        chosen = rows.gather(2, wanted)
        if row_gates is not None and column_gates is not None:
            chosen = chosen * row_gates[c][None, :, None] * column_gates[:, c][:, None]
        if by_channel:
            total[:, c] = chosen
        else:
            total += chosen
    if by_channel:
        return RecursionTerm(total.reshape(*total.shape[:2], *sides, *sides), by_channel=True)
    return RecursionTerm((total / channels).reshape(-1, *sides, *sides))


def merge_terms(
    block: Sequence[RecursionTerm],
    skip: Sequence[RecursionTerm],
    through: float,
    beside: float,
    post: float,
) -> list[RecursionTerm]:
    """Add block and skip: post · (through · block + beside · skip).

    Args:
        block: Terms of the block.
        skip: Terms of the skip.
        through: Factor of the block.
        beside: Factor of the skip.
        post: Factor of the sum.

    Returns:
        The terms of the sum.
    """
    if len(block) == len(skip) == 1 and _has_no_gates(block[0]) and _has_no_gates(skip[0]):
        return [RecursionTerm(post * (through * block[0].kernel + skip[0].scale_by(beside).kernel))]
    return [
        *(term.scale_by(post * through) for term in block),
        *(term.scale_by(post * beside) for term in skip),
    ]


def _has_no_gates(term: RecursionTerm) -> bool:
    return not term.gates and not term.by_channel


@dataclass(frozen=True)
class LayerScale:
    """The factor `value` of a weight layer, with its derivative `change` (dual number)."""

    value: float
    change: float


@dataclass
class _Branch:
    """The other branch of an open block, and the product of the widths it has passed."""

    terms: list[RecursionTerm]
    dual: list[RecursionTerm] | None
    widths: float


class Walk:
    """K and its derivative as sums of terms while nodes are applied, with the open residual blocks.

    A block turns K into post²(pre²·block(K) + skip(K)). Every layer divides K by its width, so that
    nothing overflows.

    Args:
        layers: Gates and sensitivities.
        pairs: The pairs of examples.
        by_width: Whether widths stay divided inside blocks; otherwise a block is added to its skip
          as path counts.
        K: Initial kernel.
    """

    def __init__(self, layers: GateLayers, pairs: Pairs, by_width: bool, K: Tensor) -> None:
        self.terms = [RecursionTerm(K)]
        self.dual: list[RecursionTerm] | None = None
        self._layers, self._pairs, self._by_width = layers, pairs, by_width
        self._widths = 1.0
        self._open: list[_Branch] = []

    def start_dual(self, derivative: Tensor) -> None:
        """Set the derivative of the initial kernel.

        Args:
            derivative: The derivative, shaped as K.
        """
        self.dual = [RecursionTerm(derivative)]

    def kernels(self) -> tuple[Tensor, Tensor | None]:
        """Sum the terms over channels.

        Returns:
            K and its derivative, or `None`.
        """
        dual = None if self.dual is None else sum_terms(self.dual, self._layers, self._pairs)
        return sum_terms(self.terms, self._layers, self._pairs), dual

    def mix_channels(self) -> None:
        """Replace the terms by their sum over channels, which the next node mixes."""
        K, dual = self.kernels()
        self.terms, self.dual = [RecursionTerm(K)], None if dual is None else [RecursionTerm(dual)]

    def apply_weights(
        self, linear: Callable[[Tensor], Tensor], width: int, scale: LayerScale | None
    ) -> None:
        """Apply a weight layer.

        Args:
            linear: Effect of its weights on K.
            width: Its width.
            scale: A scale with derivative, or `None`.
        """
        K, dual = self.kernels()
        # K ← Σ_r K(· + r; · + r) for a convolution; unchanged by a dense layer
        K, dual = linear(K), None if dual is None else linear(dual)
        if scale is not None:
            # (σK)' = σK' + σ'K
            dual = scale.change * K if dual is None else scale.value * dual + scale.change * K
            K = scale.value * K
        self.terms, self.dual = [RecursionTerm(K)], None if dual is None else [RecursionTerm(dual)]
        self._widths *= float(width)

    def apply_gate(self, gate_layer: int) -> None:
        """Apply a gate layer.

        Args:
            gate_layer: The gate layer.
        """
        layers, pairs = self._layers, self._pairs
        dual = (
            None if self.dual is None else gate_terms(self.dual, (False, gate_layer), layers, pairs)
        )
        if layers.sensitivities is not None:
            # (GGᵀ + εDDᵀ)K:  derivative GGᵀ K' + DDᵀ K
            dual = [*(dual or []), *gate_terms(self.terms, (True, gate_layer), layers, pairs)]
        self.terms, self.dual = gate_terms(self.terms, (False, gate_layer), layers, pairs), dual

    def average_pool(self, node: arch.AveragePool) -> None:
        """Apply an average pooling.

        Args:
            node: The pooling.
        """
        self.terms = average_terms(self.terms, node, self._layers, self._pairs)
        if self.dual is not None:
            self.dual = average_terms(self.dual, node, self._layers, self._pairs)

    def max_pool(self, mask: Tensor, by_channel: bool) -> None:
        """Apply a max pooling.

        Args:
            mask: Arg-max positions, `(n, C, H', W')`.
            by_channel: Whether more gates follow before a weight layer.
        """
        pairs = self._pairs
        assert isinstance(pairs, MapPairs)
        self.terms = max_pool_terms(self.terms, mask, self._layers, pairs, by_channel)
        if self.dual is not None:
            self.dual = max_pool_terms(self.dual, mask, self._layers, pairs, by_channel)

    def apply_branch(self, node: arch.Node) -> None:
        """Apply the start of a block, of its skip, or the addition; ignore other nodes.

        Args:
            node: The node.
        """
        if isinstance(node, arch.Fork):
            self._open.append(_Branch(self.terms, self.dual, self._widths))
            self._widths = 1.0
        elif isinstance(node, arch.Skip):
            branch = self._open[-1]
            outside = branch.widths
            # The end of the block takes the place of what the skip starts with.
            self._open[-1] = _Branch(self.terms, self.dual, self._widths)
            self._open.append(_Branch([], None, outside))
            self.terms, self.dual, self._widths = branch.terms, branch.dual, 1.0
        elif isinstance(node, arch.Merge):
            outside, block = self._open.pop().widths, self._open.pop()
            # K ← γ_post²·(γ_pre²·Π_block w_l·block(K) + Π_skip w_l·skip(K)): widths are restored
            scales = (
                node.pre**2 * (1.0 if self._by_width else block.widths),
                1.0 if self._by_width else self._widths,
                node.post**2,
            )
            self.dual = _merge_optional_terms(block.dual, self.dual, scales)
            self.terms = merge_terms(block.terms, self.terms, *scales)
            self._widths = outside  # those of the block are in K now


def _merge_optional_terms(
    block: list[RecursionTerm] | None,
    skip: list[RecursionTerm] | None,
    scales: tuple[float, float, float],
) -> list[RecursionTerm] | None:
    """Add the derivatives of block and skip, of which `None` stands for zero."""
    through, beside, post = scales
    if block is not None and skip is not None:
        return merge_terms(block, skip, through, beside, post)
    if block is not None:
        return [term.scale_by(through).scale_by(post) for term in block]
    if skip is not None:
        return [term.scale_by(beside).scale_by(post) for term in skip]
    return None


def widths_outside_blocks(architecture: arch.Architecture) -> float:
    """Compute Π w_l over the weight layers outside residual blocks, without the output layer.

    Args:
        architecture: The network.

    Returns:
        The product.
    """
    widths, open_blocks = 1.0, 0
    for node in architecture.nodes[:-1]:
        open_blocks += isinstance(node, arch.Fork) - isinstance(node, arch.Merge)
        if isinstance(node, (arch.Dense, arch.Conv)) and not open_blocks:
            widths *= float(node.outputs)
    return widths


def keeps_channels(node: arch.Node) -> bool:
    """Check whether the output of a node may have a channel axis of its own in a term.

    Args:
        node: The node.

    Returns:
        Whether it is a windowed or global max pooling, or an average pooling.
    """
    return isinstance(node, (arch.AveragePool, arch.MaxPool, arch.GlobalMaxPool))
