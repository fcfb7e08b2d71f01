"""One random value network under given gates, whose products count paths in the mean (THEORY §3).

With independent symmetric signs as weights, E⟨h(s), h(s')⟩ over the last hidden layer h is the
path kernel. Layers are divided by what they add up, pooling sums, and a block and its skip are
weighed so that the mean is one of path counts; the constant that is left over is known.

The sensitive S is the derivative of Λ under GGᵀ → GGᵀ + εDDᵀ. With one more independent sign ξ for
each gate layer and channel, ∂h = Σ ξ ∂h/∂G·D has E⟨∂h(s), ∂h(s')⟩ = S: products of different
layers or channels vanish in the mean, and what is left is D(s)D(s')ᵀ in the place of one layer's
GGᵀ. ∂h is carried along by the product rule, at the cost of a second pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.kernels.path_inputs import PathInputs
from dgn_engine.model import architecture as arch
from dgn_engine.model.stack import apply_weight


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
                case arch.Fork():
                    begun.append(passed)
                    passed = 1.0
                case arch.Skip():
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
