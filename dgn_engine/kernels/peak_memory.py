"""Upper bounds on the memory of a network's kernels, stage by stage.

Legend: n examples against m (n again if there is no second set), t = all of them; c logits per
sweep. Passes and kernels are held until the end; the largest temporary memory of any one stage is
added to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from math import prod

import torch

from dgn_engine.errors import UserError
from dgn_engine.kernels.arguments import check_choice, check_count, check_network
from dgn_engine.kernels.contraction import CACHED, is_pairwise
from dgn_engine.kernels.expected_features import TILE_BYTES
from dgn_engine.kernels.generalisation import has_relu_bound
from dgn_engine.kernels.gram import TILE_ITEMS, rows_at_least
from dgn_engine.kernels.ntk import Logits, logit_chunks
from dgn_engine.kernels.quantities import ON_DEMAND, WITH_SPECTRUM
from dgn_engine.kernels.recursion import pair_numbers, tile_bytes_on
from dgn_engine.kernels.walk import Factor
from dgn_engine.model import architecture as arch
from dgn_engine.model.network import GatedNetwork

WORKING = 32 << 20  # libraries and one-off allocations, independent of n
Terms = list[tuple[Factor, ...]]
_ALL = frozenset((*WITH_SPECTRUM, "gates", "eigenvalues", "eigenvalues_ntk")) - {*ON_DEMAND}
_BY_RECURSION = frozenset(("overlap", "sensitive", "npk"))
EIGENVALUES = 9  # float64 matrices that a spectrum needs, its kernel included


def kernel_bytes(
    network: GatedNetwork, n: int, logits: Logits = "mean", others: int | None = None
) -> int:
    """Compute an upper bound on the memory of all kernels of a network, held at once.

    It covers Σ, τ_l, Λ, S, H, the tangent kernels and their eigenvalues, with all temporaries:
    passes, deltas, per-example gradients, tiles and copies. Inputs and weights, which exist before,
    are not included.

    Args:
        network: The network.
        n: Number of examples.
        logits: As for `tangent_kernels`.
        others: Number of examples of a second set; the kernels are then blocks.

    Returns:
        Bytes.

    Raises:
        ArgumentError: An argument is of the wrong type or out of bounds.
    """
    check_network(network)
    check_count("n", n)
    check_choice("logits", logits, Logits)
    if others is not None:
        check_count("others", others)
    return WORKING + PeakMemory(network, logits, n, others).total_bytes


def check_budget(
    network: GatedNetwork,
    n: int,
    budget_bytes: int,
    logits: Logits = "mean",
    more: str = "",
    others: int | None = None,
) -> None:
    """Check that `kernel_bytes` does not exceed a budget.

    Args:
        network: The network.
        n: Number of examples.
        budget_bytes: Bytes allowed.
        logits: As for `tangent_kernels`.
        more: What else the user can do, appended to the message.
        others: Number of examples of a second set.

    Raises:
        UserError: The budget is exceeded; `value` is the number of inputs that fits.
    """
    needed = kernel_bytes(network, n, logits, others)
    check_count("budget_bytes", budget_bytes)
    if needed <= budget_bytes:
        return
    fits = largest_count(
        lambda count: kernel_bytes(network, count, logits, others) <= budget_bytes, n
    )
    beside = "" if others is None else f" against {others:,} others"
    raise UserError(
        f"{n:,} inputs{beside} need {format_gib(needed)} GiB for their kernels, but "
        f"{format_gib(budget_bytes)} GiB are allowed; use at most {fits:,} inputs{more}.",
        kind="too-large",
        value=fits,
    )


def largest_count(fits: Callable[[int], bool], above: int) -> int:
    """Find the largest number of inputs that fits, by bisection.

    Args:
        fits: Whether a number of inputs fits.
        above: A number that does not fit.

    Returns:
        The largest number that fits, or 0.
    """
    most = 0
    while above - most > 1:
        middle = (most + above) // 2
        if fits(middle):
            most = middle
        else:
            above = middle
    return most


def format_gib(count: int) -> str:
    """Format bytes as GiB.

    Args:
        count: Bytes.

    Returns:
        The number of GiB with three significant digits, without the unit.
    """
    return f"{count / 2**30:,.3g}"


# How many terms the path-kernel recursion keeps at once, counted without tensors: a twin of `walk`
# that tracks only which gates multiply each term.
def count_terms(architecture: arch.Architecture) -> tuple[int, int]:
    """Count the terms that the path-kernel recursion keeps at once.

    Args:
        architecture: The network; all nodes but the last are counted.

    Returns:
        Largest number of terms of Λ and S at once, including those of open blocks; and the numbers
        per example in the products of gates that they need.
    """
    count = _TermCounter()
    matter = arch.channels_matter(architecture.nodes)[1:]
    layer = 0
    for (node, shape, after), by_channel in zip(architecture.shape_steps(), matter, strict=True):
        match node:
            case arch.Dense() | arch.Conv():
                count.sum_terms(prod(shape))
            case arch.Fork() | arch.Skip() | arch.Merge():
                count.visit_branch(node)
        if arch.is_gated(node):
            count.add_gate(layer)
            layer += 1
        if not by_channel:
            count.sum_terms(prod(after))
    return count.alive, sum(count.products.values())


class _TermCounter:
    """Terms of Λ and S at one node, and those waiting in open blocks."""

    def __init__(self) -> None:
        self.both: tuple[Terms, Terms] = ([()], [()])
        self.waiting: list[tuple[Terms, Terms]] = []
        self.products: dict[tuple[Factor, ...], int] = {}
        self.alive = 0

    def sum_terms(self, size: int) -> None:
        """Sum all terms, which needs the product of each one's gates."""
        others = sum(
            len(terms_waiting) + len(dual_waiting) for terms_waiting, dual_waiting in self.waiting
        )
        terms, dual = self.both
        self.alive = max(self.alive, len(terms) + len(dual) + others)
        for gates in (*terms, *dual):
            for length in range(2, len(gates) + 1):
                self.products[gates[:length]] = size
        self.both = [()], [()]

    def add_gate(self, gate_layer: int) -> None:
        """Multiply all terms by a gate layer."""
        terms, dual = ([(*gates, (False, gate_layer)) for gates in part] for part in self.both)
        self.both = terms, [*dual, *((*gates, (True, gate_layer)) for gates in self.both[0])]

    def visit_branch(self, node: arch.Fork | arch.Skip | arch.Merge) -> None:
        """Follow the start of a block, its skip, or the addition."""
        match node:
            case arch.Fork():
                self.waiting.append(self.both)
            case arch.Skip():
                self.both, self.waiting[-1] = self.waiting[-1], self.both
            case arch.Merge():
                block, skip = self.waiting.pop(), self.both
                self.both = (
                    _merge_counted_terms(block[0], skip[0]),
                    _merge_counted_terms(block[1], skip[1]),
                )


def _merge_counted_terms(block: Terms, skip: Terms) -> Terms:
    return [()] if block == skip == [()] else [*block, *skip]


class PeakMemory:
    """Memory of the kernels of n examples, or of a block of n with `other` more.

    Args:
        network: The network.
        logits: As for `tangent_kernels`.
        n: Number of examples.
        other: Number of examples of a second set, or `None`.
    """

    def __init__(self, network: GatedNetwork, logits: Logits, n: int, other: int | None) -> None:
        first = next(network.parameters())
        self.item, self.device = first.element_size(), first.device
        self.architecture, self.logits = network.architecture, logits
        self.n, self.m = n, n if other is None else other
        self.square = other is None
        self.t = n + (0 if other is None else other)
        self.classes = network.architecture.classes
        self.two = not network.own_gates
        self.swept = [self.architecture]
        if self.two and network.feature.architecture.is_parallel:
            self.swept.append(network.feature.architecture)  # its layers have other inputs
        self.soft = network.gate.soft
        self.bias = any(len(stack.biases) > 0 for stack in (network.value, network.feature))
        stacks = [network.value, *([network.feature] if self.two else [])]
        with torch.no_grad():
            layers = [layer for stack in stacks for layer in stack.layer_parameters()]
        self.normal = any(layer.norms for layer in layers)
        # Copies of the weights: folded, and those behind a normalisation.
        folded = 0 if all(layer.is_plain for layer in layers) else 4
        self.copied = folded * sum(p.numel() for p in network.parameters())
        self.slopes = any(network.value.trained_slopes())
        self.bounded = has_relu_bound(network)
        sizes = [prod(shape) for _, shape in self.architecture.shapes()]
        self.largest = max(sizes)
        self.gates = sum(prod(shape) for shape in self.architecture.gated_shapes)
        chunks = [slice(0, self.classes)]
        if logits in ("mean", "perclass"):
            chunks = logit_chunks(self.architecture, max(n, self.m), self.item)
        self.c = 1 if logits == "sumlogit" else max(part.stop - part.start for part in chunks)

    @property
    def total_bytes(self) -> int:
        """Bytes of all quantities together.

        Returns:
            Bytes.
        """
        return self.bytes_of(_ALL)

    def bytes_of(self, names: AbstractSet[str]) -> int:
        """Compute the bytes of some quantities alone.

        Args:
            names: Names of `QUANTITIES`, with `eigenvalues` and `nu` for H, `eigenvalues_NAME` and
              `nu_NAME` for kernel NAME. They must include the kernels that others are derived from.

        Returns:
            Bytes.
        """
        stages = [
            self.item * self.t * prod(self.architecture.input_shape),  # x^v, for Σ
            self._finite_check_bytes("ntk" in names),
        ]
        if any(not name.endswith("gram") for name in names):
            stages.append(self.forward_bytes)
        if "ntk" in names:
            stages.append(self.sweep_bytes)
        if names & _BY_RECURSION:
            stages.append(self.recursion_bytes)
        if "delta" in names:
            stages.append(self.delta_bytes)
        derived = {name for name in names if name.startswith(("eigenvalues", "nu"))}
        if derived:
            stages.append(self._spectrum_bytes(any(name.endswith("_ntk") for name in derived)))
        if self.bounded and "nu" in names:
            stages.append(self._spectrum_bytes(False) + self.bound_input_bytes)
        return self._held_bytes(names) + max(stages)

    @property
    def pair_count(self) -> int:
        """Number of pairs of examples.

        Returns:
            n·m.
        """
        return self.n * self.m

    @property
    def tangent_numbers(self) -> int:
        """Number of entries of one tangent kernel.

        Returns:
            n·m, times C for 'perclass' and C² for 'full'.
        """
        return self.pair_count * {"full": self.classes**2, "perclass": self.classes}.get(
            self.logits, 1
        )

    def _held_bytes(self, names: AbstractSet[str]) -> int:
        """Count the bytes held to the end: passes, masks, sensitivities and kernels."""
        total = 0
        if any(not name.endswith("gram") for name in names):
            total += self.t * (self.item * self._pass_numbers() + self._mask_bytes())
            total += self.item * self.copied
        paths = bool(names & _BY_RECURSION)
        if paths or "gram" in names:  # H of dense layers uses Σ
            total += self.pair_count * self.item
        if "gates" in names:
            total += self.pair_count * self.item * len(self.architecture.gated_shapes)
        if paths:
            total += self.pair_count * 8 * 5
        if "delta" in names:
            total += self.pair_count * 8
        if "ntk" in names:
            total += (4 if self.soft else 2) * self.tangent_numbers * self.item
        return total

    @property
    def forward_bytes(self) -> int:
        """Temporary memory of the forward passes.

        Returns:
            Bytes.
        """
        per_example = self.item * (3 * self.largest + self._window_numbers())
        return self.t * per_example

    @property
    def delta_bytes(self) -> int:
        """Temporary memory of δ: passes, overlaps, weights and tiles, all in float64.

        Returns:
            Bytes.
        """
        widths = [shape[0] for shape in self.architecture.gated_shapes]
        widest, layers = max(widths, default=0), len(widths)
        passes = self.t * (6 * self.gates + prod(self.architecture.input_shape))
        weights = 2 * widest * self.gates
        pairs = self.pair_count * (3 * layers + 6)
        row = 8 * self.t * widest * layers**2  # a tile has at least one
        whole = 8 * widest * max(self.t * widest, self.pair_count * layers**2)
        tile = max(row, min(TILE_BYTES, whole))
        return 8 * (passes + weights + pairs) + 5 * tile

    @property
    def bound_input_bytes(self) -> int:
        """Memory of the inputs in `relu_bound`: in float64, and those that differ, sorted.

        Returns:
            Bytes.
        """
        return 8 * 3 * self.n * prod(self.architecture.input_shape)

    @property
    def sweep_bytes(self) -> int:
        """Temporary memory of one backward sweep of c logits and of adding it to the kernels.

        Returns:
            Bytes.
        """
        joined = 3 * self.tangent_numbers  # chunks of logits while they are combined
        return self.item * (self._delta_numbers() + self._layer_numbers() + joined)

    @property
    def recursion_bytes(self) -> int:
        """Temporary memory of Λ with S: copies of gates, one tile of pairs, normalised kernels.

        Returns:
            Bytes.
        """
        alive, product_numbers = count_terms(self.architecture)
        copied = self.gates + prod(self.architecture.input_shape) if not self.square else 0
        per_example = self.item * (copied + product_numbers)
        maps = any(isinstance(node, arch.Conv) for node in self.architecture.nodes)
        tile = 0
        if maps:
            item = 8 if self.architecture.is_residual else self.item
            pair = pair_numbers(self.architecture)
            columns = min(self.m, max(1, tile_bytes_on(self.device) // (self.item * pair)))
            tile = columns * item * ((alive + 4) * pair + 2 * self._padded_pair())
            per_example += 8 * (prod(self.architecture.input_shape) + self.gates // 4)  # as bits
        vectors = 8 * (alive + 6) * self._tile_numbers(self.m)
        return self.t * per_example + tile + vectors + 8 * 3 * self.pair_count

    def _finite_check_bytes(self, with_k: bool) -> int:
        """Count a copy and a mask of the largest kernel, for checking that it is finite."""
        return 10 * max(self.pair_count, self.tangent_numbers if with_k else 0)

    def _spectrum_bytes(self, of_k: bool) -> int:
        """Count the matrices of the largest spectrum."""
        if not self.square:
            return 0
        wide = self.n * (self.classes if of_k and self.logits == "full" else 1)
        return 8 * EIGENVALUES * wide**2

    def _pass_numbers(self) -> int:
        """Count the numbers that the passes keep per example, with slopes and sensitivities."""
        numbers = 0
        for node, shape in self.architecture.shapes():
            size = prod(shape)
            if arch.is_gated(node):
                numbers += size * (3 if not self.two else 7)
            elif not isinstance(node, (arch.Fork, arch.Skip)):
                numbers += size * (2 if self.two else 1)
        return numbers + self.gates * (2 + (2 if self.soft else 0) + (0 if self.square else 1))

    def _mask_bytes(self) -> int:
        """Count the bytes of the max-pooling masks per example."""
        pooled = (
            prod(shape)
            for node, shape in self.architecture.shapes()
            if isinstance(node, (arch.MaxPool, arch.GlobalMaxPool))
        )
        return 8 * (2 if self.two else 1) * (1 if self.square else 2) * sum(pooled)

    def _convolutions(self) -> Iterator[tuple[arch.Conv, int]]:
        """Yield the convolutions with their output positions."""
        for node, shape in self.architecture.shapes():
            if isinstance(node, arch.Conv):
                yield node, prod(shape[1:])

    def _window_numbers(self) -> int:
        """Count the numbers in all windows of one example, which a float64 convolution unfolds."""
        return max((arch.fan_in(conv) * area for conv, area in self._convolutions()), default=0)

    def _padded_pair(self) -> int:
        """Count the numbers in the largest map of one pair, padding included."""
        most = 1
        for node, shape, _ in self.architecture.shape_steps():
            if isinstance(node, arch.Conv):
                most = max(most, prod(side + 2 * node.padding for side in shape[1:]) ** 2)
        return most

    def _delta_numbers(self) -> int:
        """Count the deltas in propagation, those waiting in open blocks, and those of gates."""
        depth, waiting = 0, 0
        for node in self.architecture.nodes:
            depth += isinstance(node, arch.Fork) - isinstance(node, arch.Merge)
            waiting = max(waiting, depth)
        per_logit = (3 + waiting) * self.largest
        if self.soft:
            per_logit += self.gates + (1 if self.two else 5) * self.largest
        if self.slopes:
            per_logit += 4 * self.largest + 2 * self.gates
        if self.logits == "full":
            outputs = sum(layer.outputs for layer in self.architecture.weight_layers)
            per_logit += 2 * (2 if self.soft else 1) * outputs
        return self.t * self.c * per_logit

    def _layer_numbers(self) -> int:
        """Count the numbers of the most expensive layer: its factors, sides and tiles."""
        return max(self._numbers_of_layers(architecture) for architecture in self.swept)

    def _numbers_of_layers(self, architecture: arch.Architecture) -> int:
        """Count the numbers of `_layer_numbers` for one of the networks."""
        full = self.logits == "full"
        parts = 2 if self.soft and not self.two else 1
        most, factors_held, before = 0, 0, 0
        for node, shape in architecture.shapes():
            if isinstance(node, arch.Conv):
                most = max(most, self._convolution_numbers(node, prod(shape[1:]), parts))
            elif isinstance(node, arch.Dense):
                factor = self.t * (node.inputs + 1) if self.bias else 0
                factors_held += factor if full else 0
                tile = 3 * self._tile_numbers(self.m * (self.c if self.logits == "perclass" else 1))
                norms = 6 * self.t * self.c * node.outputs if self.normal else 0
                most = max(most, factor + before + tile + norms)
                before = factor  # alive until that of the next layer is made
        if full:
            layers = len(self.architecture.weight_layers)
            most += (layers + 3) * min(max(CACHED, self.m), self.classes * self.pair_count)
        return most + factors_held

    def _convolution_numbers(self, layer: arch.Conv, area: int, parts: int) -> int:
        """Count the numbers that contracting a convolution takes."""
        n = max(self.n, self.m)
        fan_in, c = arch.fan_in(layer) + 1, self.c
        how = self.logits if self.logits in ("full", "perclass") else "total"
        windows = 3 * self.t * area * fan_in
        norms = 4 * self.t * c * layer.outputs * area if self.normal else 0
        if is_pairwise(layer, how, n, c, area):
            row = self.m * area**2 * (c if how == "perclass" else 1)
            sides = 2 * parts * self.t * c * layer.outputs * area
            return windows + sides + 4 * self._tile_numbers(row) + norms
        copies = 3 if how == "total" else 4
        gradients = copies * parts * self.t * c * layer.outputs * fan_in
        return windows + gradients + 3 * self._tile_numbers(self.m) + norms

    def _tile_numbers(self, row: int) -> int:
        """Count the numbers in a tile of rows, as `row_tiles` splits them."""
        step = max(1, TILE_ITEMS // row)
        if self.square:
            step = min(step, max(rows_at_least(self.device), self.n // 8, 1))
        return min(step, self.n) * row
