"""A weight layer's share of a tangent kernel, from its inputs and its deltas (THEORY §4).

Legend: n and m examples, c logits, P positions. How logits meet: 'total' is Σ_k K[k, k], (n, m);
'perclass' (c, n, m); 'full' (n, c, m, c).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.kernels.gram import TILE_ITEMS, mirror, product, row_tiles
from dgn_engine.model.architecture import ChannelScale, Conv, Dense, Weighted

# Measured on one core: the grouped road wins until c·C_i·C_o exceeds this many P.
GROUPED_UP_TO = 32
CACHED = 1 << 18  # numbers of a tile of pairs of logits, every layer of which is in the cache
Contraction = Literal["total", "perclass", "full"]


# Convolutions inside tangent kernels: windows, and weight gradients example by example.
#
# Legend: n examples, c logits, C_i and C_o channels, P output positions, r = kernel².
def wrapped(layer: Conv, z: Tensor) -> tuple[Tensor, int]:
    """Maps (n, C, H, W) padded where the layer wraps around, and the zero padding still due."""
    if layer.circular and layer.padding:
        return F.pad(z, (layer.padding,) * 4, mode="circular"), 0
    return z, layer.padding


def windows(layer: Conv, z: Tensor) -> Tensor:
    """The window under every output position: (n, P, r·C_i), the window's place outermost."""
    z, margin = wrapped(layer, z)
    z = F.pad(z, (margin,) * 4).permute(0, 2, 3, 1).contiguous()
    view = z.unfold(1, layer.kernel, layer.stride).unfold(2, layer.kernel, layer.stride)
    n, height, width = view.shape[:3]
    return view.permute(0, 1, 2, 4, 5, 3).reshape(n, height * width, -1)


def weight_gradients(layer: Conv, z: Tensor, delta: Tensor, bias: bool) -> Tensor:
    """Per-example gradients (n, c, parameters) for inputs (n, C_i, H, W), deltas (n, c, C_o, ·, ·).

    The order of the parameters differs between the two roads and is the same for equal shapes.
    """
    flat = delta.flatten(3)
    n, c, _, positions = flat.shape
    if takes_groups(layer, c, positions) and z.device.type == "cpu":
        gradients = _grouped(layer, z, delta).reshape(n, c, -1)
    else:
        gradients = (flat.flatten(1, 2) @ windows(layer, z)).reshape(n, c, -1)
    return torch.cat([gradients, flat.sum(-1)], dim=2) if bias else gradients


def takes_groups(layer: Conv, logits: int, positions: int) -> bool:
    """Whether one grouped convolution is the faster road to the gradients on a CPU."""
    return logits * layer.inputs * layer.outputs <= GROUPED_UP_TO * positions


def _grouped(layer: Conv, z: Tensor, delta: Tensor) -> Tensor:
    """All examples' weight gradients as one convolution with a group per example."""
    z, margin = wrapped(layer, z)
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
    """Whether pairs of positions cost less than per-example gradients (small maps, many weights).

    A layer is then a dense one with P times as many examples, whose positions are summed.
    """
    if not isinstance(layer, Conv) or how == "full":
        return False
    fan_in = layer.inputs * layer.kernel**2
    gradients = c * layer.outputs * fan_in * (positions + n)
    return n * positions**2 * (fan_in + c * layer.outputs) < gradients


def factor(layer: Weighted, bias: bool, inputs: Tensor, pairwise: bool) -> Tensor | None:
    """What the deltas are multiplied with: inputs (n, a), or the windows of all positions
    (n·P, a); None where gradients are formed. A trained bias is one more input, always one."""
    if isinstance(layer, ChannelScale):
        return None
    if isinstance(layer, Dense):
        rows = inputs
    elif pairwise:
        rows = windows(layer, inputs).flatten(0, 1)
    else:
        return None
    return torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1) if bias else rows


def side(layer: Weighted, bias: bool, inputs: Tensor, delta: Tensor, pairwise: bool) -> Tensor:
    """One block's half of the product: deltas (n, c, b), deltas of every position (n·P, c, C_o),
    or the per-example gradients (n, c, parameters) of a convolution or of scaled channels."""
    if isinstance(layer, Dense):
        return delta
    # Below an ungated layer they may be the same for all examples; their inputs are not.
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
    """One layer's ⟨left, right⟩ ⊙ ⟨one, two⟩: factors (n·P, a), sides (n·P, c, b).

    Factors are None where the sides are gradients; a side's first axis may be 1, the same for
    all examples. P > 1: positions are summed.
    """

    left: Tensor | None
    right: Tensor | None
    one: Tensor
    two: Tensor


class KernelSum:
    """The running sum of one kernel over the layers, in row tiles of bounded memory.

    `symmetric`: both blocks are the same examples and the sum is symmetric, so that only its
    upper half is computed and `total` mirrors it.
    """

    def __init__(self, how: Contraction, shape: tuple[int, int], symmetric: bool) -> None:
        self.how = how
        self.n, self.m = shape
        self.symmetric = symmetric
        self._total: Tensor | None = None
        self._held: list[LayerTerm] = []

    @property
    def empty(self) -> bool:
        return self._total is None and not self._held

    def total(self) -> Tensor:
        """The sum of all that was added: (n, m), (c, n, m) or (n, c, m, c)."""
        if self._held:
            self._add_full(self._held)
            self._held = []
        assert self._total is not None
        if self.symmetric and self.how != "full":
            mirror(self._total)
        if self.how != "full":
            return self._total
        if self.symmetric:
            if len(self._total) == 1:
                mirror(self._total)
            for k, blocks in enumerate(self._total):
                blocks[k + 1 :] = self._total[k + 1 :, k].mT
        return self._total.permute(2, 0, 3, 1)

    def hold(self, term: LayerTerm) -> None:
        """'full' only: contracted at the end, every layer while its tile is in the cache;
        gradients are large and contracted at once."""
        if term.left is None:
            self._add_full([term])
        else:
            self._held.append(term)

    def add_tile(
        self, rows: slice, columns: slice, gram: Tensor | None, part: Tensor, positions: int
    ) -> None:
        """'total' and 'perclass': add A ⊙ part, positions summed, to one tile."""
        if self._total is None:
            lead = part.shape[:-2]
            self._total = part.new_zeros((*lead, self.n, self.m))
        target = self._total[..., rows, columns]
        if gram is None:
            target.add_(part)
        elif positions == 1:
            target.addcmul_(gram, part)
        else:
            target.add_(_summed(gram * part, positions))

    def _add_full(self, terms: Sequence[LayerTerm]) -> None:
        """Add terms to (c, c, n, m), a tile of every layer while it is in the cache; where the
        sum is symmetric only logits k' ≥ k, and of a single logit only half of the examples."""
        c = terms[0].one.shape[1]
        fresh = self._total is None
        if self._total is None:
            self._total = terms[0].one.new_empty((c, c, self.n, self.m))
        # What is the same for all examples comes last: it may be skipped, the first may not.
        terms = sorted(terms, key=lambda term: len(term.one) * len(term.two) == 1)
        # Logits outermost: their examples are then the rows of one product.
        sides = [_by_logit(term.one, term.two) for term in terms]
        device = self._total.device
        halved = self.symmetric and c == 1  # more logits are halved pair by pair
        for rows in row_tiles(self.n, self.m * (TILE_ITEMS // CACHED), device, symmetric=halved):
            grams = [_gram(term, rows) for term in terms]
            block = (rows.stop - rows.start) * self.m
            count = max(1, min(c, CACHED // block))
            buffer = self._total.new_empty(count * block)
            columns = slice(rows.start if halved else 0, self.m)
            for left, right in _logit_pairs(c, count, self.symmetric):
                tile = self._total[left, right, rows, columns]
                for number, ((one, two), gram) in enumerate(zip(sides, grams, strict=True)):
                    part = _product_of_logits(
                        _cut_second(one[left], rows),
                        _cut_second(two[right : right + 1], columns),
                        buffer,
                    )
                    first = fresh and not number
                    if part.numel() == len(part) and not first and not part.any():
                        continue  # the output layer meets itself only
                    if gram is None:
                        tile.copy_(part) if first else tile.add_(part)
                    elif first:
                        torch.mul(gram[:, columns], part, out=tile)
                    else:
                        tile.addcmul_(gram[:, columns], part)


def _by_logit(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    left = one.transpose(0, 1).contiguous()
    return left, left if two is one else two.transpose(0, 1).contiguous()


def _gram(term: LayerTerm, rows: slice) -> Tensor | None:
    """The factors' products of a tile of rows, (r, m)."""
    if term.left is None or term.right is None:
        return None
    return product(term.left[rows], term.right)


def _logit_pairs(c: int, count: int, symmetric: bool) -> Iterator[tuple[slice, int]]:
    """Some logits k' with one logit k; k' ≥ k where symmetric."""
    for k in range(c):
        for left in range(k if symmetric else 0, c, count):
            yield slice(left, min(c, left + count)), k


def _cut_second(side: Tensor, examples: slice) -> Tensor:
    return side if side.shape[1] == 1 else side[:, examples]


def _product_of_logits(one: Tensor, two: Tensor, buffer: Tensor) -> Tensor:
    """(q, r, b) with (1, m, b): (q, r, m), perhaps in the buffer."""
    left, right = one.flatten(0, 1), two[0]
    into = buffer[: len(left) * len(right)].view(len(left), len(right))
    return product(left, right, into).view(len(one), one.shape[1], len(right))


def add_layer(sums: Sequence[tuple[KernelSum, LayerTerm]], positions: int = 1) -> None:
    """Add one layer's terms, which share their factors, to several kernels of the same blocks."""
    if not sums:
        return
    first, term = sums[0]
    if first.how == "full":
        for kernel, each in sums:
            kernel.hold(each)
        return
    row = first.m * positions**2 * (term.one.shape[1] if first.how == "perclass" else 1)
    for rows in row_tiles(first.n, row, term.one.device, symmetric=first.symmetric):
        columns = slice(rows.start if first.symmetric else 0, first.m)
        gram = None
        if term.left is not None and term.right is not None:
            left, right = _cut(term.left, rows, positions), _cut(term.right, columns, positions)
            gram = product(left, right)
        for kernel, each in sums:
            one, two = _cut(each.one, rows, positions), _cut(each.two, columns, positions)
            if first.how == "total":
                part = product(one.flatten(1), two.flatten(1))
            else:
                part = one.transpose(0, 1) @ two.permute(1, 2, 0)
            kernel.add_tile(rows, columns, gram, part, positions)


def _cut(side: Tensor, examples: slice, positions: int) -> Tensor:
    if len(side) == 1:  # the same for all examples
        return side
    return side[examples.start * positions : examples.stop * positions]


def _summed(kernel: Tensor, positions: int) -> Tensor:
    """(..., n·P, m·P) → (..., n, m)."""
    *lead, rows, columns = kernel.shape
    split = (rows // positions, positions, columns // positions, positions)
    return kernel.reshape(*lead, *split).sum((-3, -1))
