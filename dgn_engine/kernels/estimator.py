"""Monte-Carlo estimates of H, Λ and S with their error bars, linear in the examples (THEORY §3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.kernels.arguments import (
    check_architecture,
    check_count,
    check_flag,
    check_generator,
    check_tensor,
    check_word,
)
from dgn_engine.kernels.gram import accumulator, flat_gram
from dgn_engine.kernels.kernel_average import KernelAverage, KernelEstimate
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.path_kernels import Normalise
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.walk import widths_outside_blocks
from dgn_engine.model import architecture as arch
from dgn_engine.model.stack import apply_weight

PASS_BYTES = 64 << 20  # of the largest layer of the examples that pass at once


@dataclass(frozen=True)
class PathScales:
    """What a random pass divides by: `merges`, the factors of block and skip of each addition;
    `constant`: the path kernel is so many times the mean of the products."""

    merges: tuple[tuple[float, float], ...]
    constant: float

    @staticmethod
    def of(architecture: arch.Architecture, by_width: bool) -> PathScales:
        """`by_width`: every τ_l is divided by its width, within blocks, too; else path counts."""
        merges: list[tuple[float, float]] = []
        passed = 1.0  # what this branch has been divided by
        begun: list[float] = []  # of each open block: outside it, then in the other branch
        for node in architecture.nodes[:-1]:
            match node:
                case arch.Dense() | arch.Conv():
                    passed *= _summands(node) / (node.outputs if by_width else 1.0)
                case arch.Fork() | arch.Skip():
                    begun.append(passed)
                    passed = 1.0
                case arch.Merge():
                    block, outside = begun.pop(), begun.pop()
                    whole = block + passed
                    shares = (block / whole) ** 0.5, (passed / whole) ** 0.5
                    merges.append((node.post * node.pre * shares[0], node.post * shares[1]))
                    passed = outside * whole
        return PathScales(tuple(merges), passed)


def _summands(layer: arch.Dense | arch.Conv) -> float:
    window = layer.kernel**2 if isinstance(layer, arch.Conv) else 1
    return float(layer.outputs * window)


@dataclass(frozen=True)
class PathSigns:
    """The random numbers of one draw: ±σ weights of every layer but the last, σ² the inverse of
    what the layer adds up, and signs (C,) of every gate layer where S is wanted."""

    weights: tuple[Tensor | None, ...]
    slopes: tuple[Tensor, ...] | None

    @staticmethod
    def drawn(
        architecture: arch.Architecture, generator: torch.Generator, sensitive: bool, like: Tensor
    ) -> PathSigns:
        """Drawn on the generator's device: a CPU generator means the same signs on every one."""
        weights: list[Tensor | None] = []
        for layer in architecture.weighted[:-1]:
            if isinstance(layer, arch.ChannelScale):  # paths pass it one to one
                weights.append(None)
                continue
            signs = _signs(arch.weight_shape(layer), generator, like)
            weights.append(signs.mul_(_summands(layer) ** -0.5))
        slopes = None
        if sensitive:
            shapes = architecture.gated_shapes
            slopes = tuple(
                _signs((shape[0], *[1] * (len(shape) - 1)), generator, like) for shape in shapes
            )
        return PathSigns(tuple(weights), slopes)


def _signs(shape: Sequence[int], generator: torch.Generator, like: Tensor) -> Tensor:
    """±1 with equal chance, eight of each random byte."""
    count = torch.Size(shape).numel()
    device = generator.device
    octets = torch.randint(
        0, 256, (-(-count // 8),), generator=generator, dtype=torch.uint8, device=device
    )
    places = torch.arange(8, dtype=torch.uint8, device=device)
    bits = (octets[:, None] >> places) & 1
    return bits.flatten()[:count].to(like).mul_(2.0).sub_(1.0).reshape(tuple(shape))


# One random value network under given gates, whose products count paths in the mean (THEORY §3).
#
# With independent symmetric signs as weights, E⟨h(s), h(s')⟩ over the last hidden layer h is the
# path kernel. Layers are divided by what they add up, pooling sums, and a block and its skip are
# weighed so that the mean is one of path counts; the constant that is left over is known.
#
# The sensitive S is the derivative of Λ under GGᵀ → GGᵀ + εDDᵀ. With one more independent sign ξ
# for each gate layer and channel, ∂h = Σ ξ ∂h/∂G·D has E⟨∂h(s), ∂h(s')⟩ = S: products of different
# layers or channels vanish in the mean, and what is left is D(s)D(s')ᵀ in the place of one layer's
# GGᵀ. ∂h is carried along by the product rule, at the cost of a second pass.
def random_pass(
    architecture: arch.Architecture,
    scales: PathScales,
    signs: PathSigns,
    inputs: PathInputs,
    part: slice,
) -> tuple[Tensor, Tensor | None]:
    """h (n, w) of the examples `part` and, where there are signs of gate layers, ∂h (n, w)."""
    start, z = _entered(architecture, inputs, part)
    pair = _RandomPass(scales, signs, inputs, part, z)
    for node in architecture.nodes[start:-1]:
        pair.through(node)
    return pair.z, pair.change


def _entered(
    architecture: arch.Architecture, inputs: PathInputs, part: slice
) -> tuple[int, Tensor]:
    """With which node a pass begins, and with what: x^v, or for Λ, whose recursion begins with one
    everywhere, ones in the first channel and zeros in the others."""
    if inputs.x_value is not None:
        return 0, inputs.x_value[part]
    nodes = architecture.nodes
    start, shape = 0, architecture.input_shape
    if not any(isinstance(node, arch.Conv) for node in nodes):  # pooling comes before the one
        for node, after in architecture.shapes():
            if arch.is_weighted(node):
                break
            start, shape = start + 1, after
    like = inputs.gates[0][part]
    ones = like.new_zeros((len(like), *shape))
    ones[:, 0] = 1.0
    return start, ones


class _RandomPass:
    """z and its derivative on their way through the nodes; no derivative before the first gate."""

    def __init__(
        self, scales: PathScales, signs: PathSigns, inputs: PathInputs, part: slice, z: Tensor
    ) -> None:
        self.z = z
        self.change: Tensor | None = None
        self._kept: list[tuple[Tensor, Tensor | None]] = []
        self._merges, self._weights = iter(scales.merges), iter(signs.weights)
        self._slopes, self._inputs, self._part = signs.slopes, inputs, part
        self._gates = self._pools = 0

    def through(self, node: arch.Node) -> None:
        match node:
            case arch.Dense() | arch.Conv():
                weight = next(self._weights)
                assert weight is not None
                self._map(lambda z: apply_weight(node, weight, None, z))
            case arch.ChannelScale():
                next(self._weights)
            case arch.GlobalAveragePool():
                self._map(lambda z: z.sum(dim=(2, 3)))
            case arch.AveragePool():
                area = node.kernel**2
                self._map(lambda z: F.avg_pool2d(z, node.kernel, node.stride) * area)
            case arch.MaxPool() | arch.GlobalMaxPool():
                mask = self._inputs.masks[self._pools][self._part]
                self._pools += 1
                self._map(lambda z: z.flatten(2).gather(2, mask.flatten(2)).reshape(mask.shape))
                if isinstance(node, arch.GlobalMaxPool):
                    self._map(lambda z: z.flatten(1))
            case arch.Flatten():
                self._map(lambda z: z.flatten(1))
            case arch.Fork():
                self._kept.append((self.z, self.change))
            case arch.Skip():
                both = self.z, self.change
                (self.z, self.change), self._kept[-1] = self._kept[-1], both
            case arch.Merge():
                self._merge()
        if arch.is_gated(node):
            self._gate()

    def _map(self, linear: Callable[[Tensor], Tensor]) -> None:
        self.z = linear(self.z)
        self.change = None if self.change is None else linear(self.change)

    def _merge(self) -> None:
        through, beside = next(self._merges)
        z, change = self._kept.pop()
        self.z = torch.add(through * z, self.z, alpha=beside)
        if change is None or self.change is None:
            one, scale = (self.change, beside) if change is None else (change, through)
            self.change = None if one is None else scale * one
        else:
            self.change = torch.add(through * change, self.change, alpha=beside)

    def _gate(self) -> None:
        place, q = self._gates, self.z
        self._gates += 1
        gates = self._inputs.gates[place][self._part]
        self.z = q * gates
        if self._slopes is None:
            return
        assert self._inputs.sensitivities is not None
        moved = self._inputs.sensitivities[place][self._part] * self._slopes[place] * q
        self.change = moved if self.change is None else moved.addcmul_(self.change, gates)


class PathEstimator:
    """H of the examples, or Λ where the inputs have no x^v, and S where they have sensitivities:
    means over random value networks, which go on for as long as draws are added.

    Each draw is one network of ±σ signs under the given gates; with zz' summed over its last hidden
    layer, the output weights are integrated out. Unbiased as path counts and, where no block
    needs it otherwise, 'width' (`by_width`: within blocks, too); relative error O(1/√draws).
    Every number comes from `generator`; drawn on the CPU, a seed means the same on every device.
    """

    def __init__(
        self,
        architecture: arch.Architecture,
        inputs: PathInputs,
        generator: torch.Generator,
        by_width: bool = False,
        other: PathInputs | None = None,
    ) -> None:
        check_architecture(architecture)
        check_flag("by_width", by_width)
        check_generator(generator)
        check_path_inputs(architecture, inputs, other)
        self._architecture, self._generator, self._by_width = architecture, generator, by_width
        self._inputs, self._block = inputs.joined(other)
        self._scales = PathScales.of(architecture, by_width)
        self._like = self._inputs.gates[0]
        sizes = [prod(shape) for _, shape in architecture.shapes()]
        item = self._like.element_size() * max(sizes)
        self.at_once = max(1, PASS_BYTES // item)  # examples; each slice of a draw is of so many
        self._kernels = KernelAverage(self._block.symmetric)
        self._sensitive = KernelAverage(self._block.symmetric)

    @property
    def draws(self) -> int:
        return self._kernels.count

    @torch.no_grad()
    @full_precision
    def draw(self, count: int = 1) -> None:
        """Add so many draws."""
        for _ in range(count):
            for _ in self.slices():
                pass

    @torch.no_grad()
    def slices(self) -> Iterator[float]:
        """Add one draw, `at_once` examples after the other; yields the share that is done. It
        counts when the last one is."""
        sensitive = self._inputs.sensitivities is not None
        signs = PathSigns.drawn(self._architecture, self._generator, sensitive, self._like)
        n, left = len(self._like), 0
        hidden: list[tuple[Tensor, Tensor | None]] = []
        while left < n:
            part = slice(left, min(n, left + self.at_once))
            hidden.append(random_pass(self._architecture, self._scales, signs, self._inputs, part))
            left = part.stop
            if left < n:
                yield left / n
        self._kernels.add(self._gram([h for h, _ in hidden]))
        if sensitive:
            changes = [change for _, change in hidden if change is not None]
            self._sensitive.add(self._gram(changes))
        yield 1.0

    def _gram(self, parts: Sequence[Tensor]) -> Tensor:
        h, block = torch.cat(list(parts)), self._block
        return flat_gram(h[block.rows], h[block.columns]).to(accumulator(h))

    def kernel(self, normalise: Normalise = "none") -> KernelEstimate:
        """The estimate of H, or of Λ; two draws are needed."""
        return self._normalised(self._kernels, normalise)

    def sensitive(self, normalise: Normalise = "none") -> KernelEstimate:
        """The estimate of S; the inputs had sensitivities."""
        return self._normalised(self._sensitive, normalise)

    def _normalised(self, average: KernelAverage, normalise: Normalise) -> KernelEstimate:
        check_word("normalise", normalise, Normalise)
        if normalise == "cosine":
            return average.cosine()
        if normalise == "trace":
            return average.trace_one()
        widths = widths_outside_blocks(self._architecture)
        counts = self._scales.constant * (widths if self._by_width else 1.0)
        return average.plain(counts / (widths if normalise == "width" else 1.0))


@torch.no_grad()
@full_precision
def estimate_path_kernel(
    architecture: arch.Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    draws: int,
    generator: torch.Generator,
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> KernelEstimate:
    """`neural_path_kernel` (n, n) from `draws` ≥ 2 random value networks with these gates; against
    `other` the block (n, m), which has no 'trace' and no 'cosine'. See `PathEstimator`."""
    check_tensor("x_value", x_value)  # None would be Λ
    return _estimated(
        architecture, PathInputs(gates, x_value, masks), draws, generator, normalise, other
    )[0]


@torch.no_grad()
@full_precision
def estimate_overlap(
    architecture: arch.Architecture,
    inputs: PathInputs,
    draws: int,
    generator: torch.Generator,
    normalise: Normalise = "none",
    other: PathInputs | None = None,
) -> tuple[KernelEstimate, KernelEstimate | None]:
    """Λ and, where the inputs have sensitivities, S (n, n), from `draws` ≥ 2 random value networks;
    their x^v is not looked at. Otherwise as `estimate_path_kernel`."""
    check_path_inputs(architecture, inputs, other)
    plain = PathInputs(inputs.gates, None, inputs.masks, inputs.sensitivities)
    return _estimated(architecture, plain, draws, generator, normalise, other)


def _estimated(
    architecture: arch.Architecture,
    inputs: PathInputs,
    draws: int,
    generator: torch.Generator,
    normalise: Normalise,
    other: PathInputs | None,
) -> tuple[KernelEstimate, KernelEstimate | None]:
    check_word("normalise", normalise, Normalise)
    check_count("draws", draws, 2)  # of fewer there is no error bar
    estimator = PathEstimator(architecture, inputs, generator, normalise == "width", other)
    estimator.draw(draws)
    found = estimator.kernel(normalise)
    return found, None if inputs.sensitivities is None else estimator.sensitive(normalise)
