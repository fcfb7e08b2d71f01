"""A weight layer's share of a tangent kernel, from its inputs and its deltas (theory §4).

Legend: n and m examples, c logits, P positions. Logits are combined in one of three ways:
'total' is Σ_k K[k, k], (n, m); 'perclass' is (c, n, m); 'full' is (n, c, m, c).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.kernels.gram import TILE_ITEMS, gram_product, mirror_upper_half, row_tiles
from dgn_engine.model.architecture import ChannelScale, Conv, Dense, Weighted

# Measured on one core: the grouped convolution is faster until c·C_i·C_o exceeds this times P.
GROUPED_UP_TO = 32
CACHED = 1 << 18  # numbers in a tile of pairs of logits that stays in the cache
Contraction = Literal["total", "perclass", "full"]


# Convolutions in tangent kernels: windows, and per-example weight gradients
# g[s, k] = Σ_p Δ[s, k, :, p] u[s, :, p]^T.
#
# Legend: n examples, c logits, C_i and C_o channels, P output positions, r = kernel².
def pad_circular(layer: Conv, z: Tensor) -> tuple[Tensor, int]:
    """Apply circular padding, if the layer has it.

    Args:
        layer: The convolution.
        z: Maps, `(n, C, H, W)`.

    Returns:
        The maps, padded if the layer wraps around, and the zero padding that remains to be applied.
    """
    if layer.circular and layer.padding:
        return F.pad(z, (layer.padding,) * 4, mode="circular"), 0
    return z, layer.padding


def unfold_windows(layer: Conv, z: Tensor) -> Tensor:
    """Extract the input window of every output position.

    Args:
        layer: The convolution.
        z: Maps, `(n, C_i, H, W)`.

    Returns:
        Windows, `(n, P, r·C_i)`, with the position inside the window outermost.
    """
    z, margin = pad_circular(layer, z)
    z = F.pad(z, (margin,) * 4).permute(0, 2, 3, 1).contiguous()
    view = z.unfold(1, layer.kernel, layer.stride).unfold(2, layer.kernel, layer.stride)
    n, height, width = view.shape[:3]
    return view.permute(0, 1, 2, 4, 5, 3).reshape(n, height * width, -1)


def weight_gradients(layer: Conv, z: Tensor, delta: Tensor, bias: bool) -> Tensor:
    """Compute per-example weight gradients of a convolution.

        g[s, k] = Σ_p Δ[s, k, :, p] u[s, :, p]^T

    with u the window under position p.

    Args:
        layer: The convolution.
        z: Inputs, `(n, C_i, H, W)`.
        delta: Deltas, `(n, c, C_o, H', W')`.
        bias: Whether to append the gradient of the bias, Σ_p Δ[s, k, :, p].

    Returns:
        Gradients, `(n, c, parameters)`. The order of the parameters depends on the implementation
        chosen, which is the same for equal shapes.
    """
    flat = delta.flatten(3)
    n, c, _, positions = flat.shape
    if prefers_grouped_conv(layer, c, positions) and z.device.type == "cpu":
        gradients = _grouped_weight_gradients(layer, z, delta).reshape(n, c, -1)
    else:
        gradients = (flat.flatten(1, 2) @ unfold_windows(layer, z)).reshape(n, c, -1)
    return torch.cat([gradients, flat.sum(-1)], dim=2) if bias else gradients


def prefers_grouped_conv(layer: Conv, logits: int, positions: int) -> bool:
    """Check whether one grouped convolution computes the gradients faster on a CPU.

    Args:
        layer: The convolution.
        logits: Number of logits c.
        positions: Number of output positions P.

    Returns:
        Whether c·C_i·C_o ≤ 32·P.
    """
    return logits * layer.inputs * layer.outputs <= GROUPED_UP_TO * positions


def _grouped_weight_gradients(layer: Conv, z: Tensor, delta: Tensor) -> Tensor:
    """Compute all per-example weight gradients as one convolution with a group per example."""
    z, margin = pad_circular(layer, z)
    n, c, outputs = delta.shape[:3]
    shape = (n * c * outputs, layer.inputs, layer.kernel, layer.kernel)
    gradients: Tensor = torch.ops.aten.convolution_backward(
        delta.reshape(1, -1, *delta.shape[3:]),
        z.reshape(1, -1, *z.shape[2:]),
        z.new_empty(shape),
        None,
        [layer.stride] * 2,
        [margin] * 2,
        [1, 1],
        False,
        [0, 0],
        n,
        [False, True, False],
    )[1]
    return gradients


def is_pairwise(layer: Weighted, how: Contraction, n: int, c: int, positions: int) -> bool:
    """Decide whether to contract a convolution over pairs of positions.

    Per-example gradients cost c·C_o·a·(P + n) for fan-in a, pairs of positions
    n·P²·(a + c·C_o), which is less for small maps and many weights. The layer is then treated as a
    dense layer with P times as many examples, whose positions are summed.

    Args:
        layer: The weight layer.
        how: How logits are combined.
        n: Number of examples.
        c: Number of logits.
        positions: Number of output positions P.

    Returns:
        Whether pairs of positions are cheaper.
    """
    if not isinstance(layer, Conv) or how == "full":
        return False
    fan_in = layer.inputs * layer.kernel**2
    gradients = c * layer.outputs * fan_in * (positions + n)
    return n * positions**2 * (fan_in + c * layer.outputs) < gradients


def contraction_factor(
    layer: Weighted, bias: bool, inputs: Tensor, pairwise: bool
) -> Tensor | None:
    """Return the inputs that the deltas of a layer are multiplied with.

    A trained bias counts as one more input that is always one.

    Args:
        layer: The weight layer.
        bias: Whether its bias is trained.
        inputs: Its inputs, `(n, ...)`.
        pairwise: Whether a convolution is contracted over pairs of positions.

    Returns:
        Inputs, `(n, a)`; the windows of all positions, `(n·P, a)`; or `None` if per-example
        gradients are formed instead.
    """
    if isinstance(layer, ChannelScale):
        return None
    if isinstance(layer, Dense):
        rows = inputs
    elif pairwise:
        rows = unfold_windows(layer, inputs).flatten(0, 1)
    else:
        return None
    return torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1) if bias else rows


def contraction_side(
    layer: Weighted, bias: bool, inputs: Tensor, delta: Tensor, pairwise: bool
) -> Tensor:
    """Return one block's half of the product of a layer.

    Args:
        layer: The weight layer.
        bias: Whether its bias is trained.
        inputs: Its inputs, `(n, ...)`.
        delta: Its deltas, `(n, c, ...)`.
        pairwise: Whether a convolution is contracted over pairs of positions.

    Returns:
        Deltas of a dense layer, `(n, c, b)`; deltas of every position, `(n·P, c, C_o)`; or
        per-example gradients of a convolution or of scaled channels, `(n, c, parameters)`.
    """
    if isinstance(layer, Dense):
        return delta
    # Below an ungated layer, deltas may be the same for all examples, but inputs never are.
    delta = delta.expand(len(inputs), *delta.shape[1:])
    if isinstance(layer, ChannelScale):
        flat = delta.reshape(*delta.shape[:3], -1)
        gradients = (flat * inputs.reshape(*inputs.shape[:2], -1)[:, None]).sum(3)
        return torch.cat([gradients, flat.sum(3)], 2) if bias else gradients
    if pairwise:
        return delta.flatten(3).permute(0, 3, 1, 2).flatten(0, 1)
    return weight_gradients(layer, inputs, delta, bias)


@dataclass(frozen=True)
class LayerTerm:
    """One layer's share ⟨left, right⟩ ⊙ ⟨one, two⟩ of a kernel.

    Attributes:
        left: Factor of the rows, `(n·P, a)`, or `None` if the sides are gradients.
        right: Factor of the columns, `(m·P, a)`, or `None`.
        one: Side of the rows, `(n·P, c, b)`; its first axis is 1 if it is the same for all
          examples.
        two: Side of the columns, `(m·P, c, b)`, likewise.
    """

    left: Tensor | None
    right: Tensor | None
    one: Tensor
    two: Tensor


class KernelSum:
    """The running sum of one kernel over the layers, in row tiles of bounded memory.

    Args:
        how: How logits are combined.
        shape: Numbers of examples (n, m).
        symmetric: Whether both sides are the same examples and the sum is symmetric; then only its
          upper half is computed, and `total` mirrors it.
    """

    def __init__(self, how: Contraction, shape: tuple[int, int], symmetric: bool) -> None:
        self.how = how
        self.n, self.m = shape
        self.symmetric = symmetric
        self._total: Tensor | None = None
        self._held: list[LayerTerm] = []

    @property
    def is_empty(self) -> bool:
        """Check whether nothing has been added.

        Returns:
            `True` before the first term.
        """
        return self._total is None and not self._held

    def total(self) -> Tensor:
        """Return the sum of everything that was added.

        Returns:
            The kernel: `(n, m)`, `(c, n, m)` or `(n, c, m, c)`.
        """
        if self._held:
            self._add_full(self._held)
            self._held = []
        assert self._total is not None
        if self.symmetric and self.how != "full":
            mirror_upper_half(self._total)
        if self.how != "full":
            return self._total
        if self.symmetric:
            if len(self._total) == 1:
                mirror_upper_half(self._total)
            for k, blocks in enumerate(self._total):
                blocks[k + 1 :] = self._total[k + 1 :, k].mT
        return self._total.permute(2, 0, 3, 1)

    def defer_term(self, term: LayerTerm) -> None:
        """Add a term of mode 'full'.

        Terms with factors are kept and contracted at the end, all layers of a tile while it is in
        the cache. Gradients are large and are contracted immediately.

        Args:
            term: The layer's term.
        """
        if term.left is None:
            self._add_full([term])
        else:
            self._held.append(term)

    def add_tile(
        self, rows: slice, columns: slice, gram: Tensor | None, part: Tensor, positions: int
    ) -> None:
        """Add A ⊙ part to one tile, summed over positions (modes 'total' and 'perclass').

        Args:
            rows: Rows of the tile.
            columns: Columns of the tile.
            gram: A, the products of the factors, or `None` for one.
            part: Products of the sides.
            positions: Number of positions P per example in `gram` and `part`.
        """
        if self._total is None:
            lead = part.shape[:-2]
            self._total = part.new_zeros((*lead, self.n, self.m))
        target = self._total[..., rows, columns]
        if gram is None:
            target.add_(part)
        elif positions == 1:
            target.addcmul_(gram, part)
        else:
            target.add_(_sum_position_pairs(gram * part, positions))

    def _add_full(self, terms: Sequence[LayerTerm]) -> None:
        """Add terms to the sum `(c, c, n, m)`, all layers of a tile while it is in the cache.

        A symmetric sum is computed for logits k' ≥ k only, or, of a single logit, for half the
        pairs.
        """
        c = terms[0].one.shape[1]
        fresh = self._total is None
        if self._total is None:
            self._total = terms[0].one.new_empty((c, c, self.n, self.m))
        # Terms that are the same for all examples come last, because the first cannot be skipped.
        terms = sorted(terms, key=lambda term: len(term.one) * len(term.two) == 1)
        # Logits outermost, so that the examples of several are the rows of one product.
        sides = [_by_logit(term.one, term.two) for term in terms]
        device = self._total.device
        halved = self.symmetric and c == 1  # otherwise symmetry is used between logits
        for rows in row_tiles(self.n, self.m * (TILE_ITEMS // CACHED), device, symmetric=halved):
            grams = [_factor_gram(term, rows) for term in terms]
            block = (rows.stop - rows.start) * self.m
            count = max(1, min(c, CACHED // block))
            buffer = self._total.new_empty(count * block)
            columns = slice(rows.start if halved else 0, self.m)
            for left, right in _logit_pairs(c, count, self.symmetric):
                tile = self._total[left, right, rows, columns]
                for number, ((one, two), gram) in enumerate(zip(sides, grams, strict=True)):
                    part = _product_of_logits(
                        _slice_second_axis(one[left], rows),
                        _slice_second_axis(two[right : right + 1], columns),
                        buffer,
                    )
                    first = fresh and not number
                    if part.numel() == len(part) and not first and not part.any():
                        continue  # output layer: zero for two different logits
                    if gram is None:
                        tile.copy_(part) if first else tile.add_(part)
                    elif first:
                        torch.mul(gram[:, columns], part, out=tile)
                    else:
                        tile.addcmul_(gram[:, columns], part)


def _by_logit(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """Move the logits of two sides to the front."""
    left = one.transpose(0, 1).contiguous()
    return left, left if two is one else two.transpose(0, 1).contiguous()


def _factor_gram(term: LayerTerm, rows: slice) -> Tensor | None:
    """Multiply the factors of a tile of rows, `(r, m)`."""
    if term.left is None or term.right is None:
        return None
    return gram_product(term.left[rows], term.right)


def _logit_pairs(c: int, count: int, symmetric: bool) -> Iterator[tuple[slice, int]]:
    """Yield slices of logits k' with one logit k; only k' ≥ k if symmetric."""
    for k in range(c):
        for left in range(k if symmetric else 0, c, count):
            yield slice(left, min(c, left + count)), k


def _slice_second_axis(side: Tensor, examples: slice) -> Tensor:
    """Select examples along the second axis, unless it is shared by all examples."""
    return side if side.shape[1] == 1 else side[:, examples]


def _product_of_logits(one: Tensor, two: Tensor, buffer: Tensor) -> Tensor:
    """Multiply `(q, r, b)` with `(1, m, b)` to `(q, r, m)`, possibly in `buffer`."""
    left, right = one.flatten(0, 1), two[0]
    into = buffer[: len(left) * len(right)].view(len(left), len(right))
    return gram_product(left, right, into).view(len(one), one.shape[1], len(right))


def add_layer(sums: Sequence[tuple[KernelSum, LayerTerm]], positions: int = 1) -> None:
    """Add one layer's terms to several kernels of the same blocks.

    Args:
        sums: Pairs of a kernel and a term; all terms share their factors.
        positions: Number of positions P per example.
    """
    if not sums:
        return
    first, term = sums[0]
    if first.how == "full":
        for kernel, own_term in sums:
            kernel.defer_term(own_term)
        return
    row = first.m * positions**2 * (term.one.shape[1] if first.how == "perclass" else 1)
    for rows in row_tiles(first.n, row, term.one.device, symmetric=first.symmetric):
        columns = slice(rows.start if first.symmetric else 0, first.m)
        gram = None
        if term.left is not None and term.right is not None:
            left, right = (
                _slice_examples(term.left, rows, positions),
                _slice_examples(term.right, columns, positions),
            )
            gram = gram_product(left, right)
        # K += A ⊙ B with A = ZZᵀ (`gram`) and B = ΔΔᵀ (`part`)
        for kernel, own_term in sums:
            one, two = (
                _slice_examples(own_term.one, rows, positions),
                _slice_examples(own_term.two, columns, positions),
            )
            if first.how == "total":
                part = gram_product(one.flatten(1), two.flatten(1))
            else:
                part = one.transpose(0, 1) @ two.permute(1, 2, 0)
            kernel.add_tile(rows, columns, gram, part, positions)


def _slice_examples(side: Tensor, examples: slice, positions: int) -> Tensor:
    """Select examples along the first axis, unless it is shared by all examples."""
    if len(side) == 1:  # shared by all examples
        return side
    return side[examples.start * positions : examples.stop * positions]


def _sum_position_pairs(kernel: Tensor, positions: int) -> Tensor:
    """Sum over pairs of positions: `(..., n·P, m·P)` → `(..., n, m)`."""
    *lead, rows, columns = kernel.shape
    split = (rows // positions, positions, columns // positions, positions)
    return kernel.reshape(*lead, *split).sum((-3, -1))
